"""Interval migration as shortest paths: networks whose paths are the answers, and the linear programs of their flows.

network.py draws them for `IntervalMigration` and `MigrationSequence`; pyomo_model.py and mathopt_model.py state the flow,
which is whole by itself.
"""

"""Interval migration as shortest paths: networks whose paths are the answers, and the linear programs of their flows.

network.py is what both have in common, step_network.py and sequence_network.py draw the networks of `IntervalMigration` and
`MigrationSequence`; drawing.py chooses; pyomo_model.py and mathopt_model.py state the flow, which is whole by itself.
"""

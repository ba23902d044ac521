"""Pareto fronts: the trade-off between two objectives. Begin with front.py, which holds `keyshift.pareto`."""

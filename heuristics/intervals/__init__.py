"""Baselines of the experiments in [Ding2015] for a changing number of nodes, begin with baselines.py."""

"""Exact and relaxed answers to minimum-cost load balancing.

Begin with branch_and_bound.py; set_partitioning.py answers dozens of key groups, sdp.py and bounds.py bound,
local_search.py finds, front.py traces the Pareto front.
"""

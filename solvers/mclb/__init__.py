"""Exact and relaxed answers to minimum-cost load balancing.

Begin with branch_and_bound.py; set_partitioning.py answers dozens of key groups, sdp.py and bounds.py bound, descent.py
and local_search.py find, front.py traces the Pareto front.
"""

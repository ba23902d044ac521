"""Exact and relaxed answers to minimum-cost load balancing.

Begin with branch_and_bound.py; sdp.py, qp.py and bounds.py bound, local_search.py finds, front.py traces the Pareto front.
"""

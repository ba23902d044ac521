"""Exact and relaxed answers to minimum-cost load balancing.

Begin with portfolio.py; near_sets.py answers dozens of key groups, statement.py asks solvers, sdp.py and
bounds.py bound, local_search.py and pair_splits.py find.
"""

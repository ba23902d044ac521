"""Exact and relaxed answers to minimum-cost load balancing.

Begin with branch_and_bound.py; near_sets.py and set_partitioning.py answer dozens of key groups, sdp.py and
bounds.py bound, local_search.py and pair_splits.py find.
"""

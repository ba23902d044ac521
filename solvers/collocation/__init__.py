"""Exact and relaxed answers to collocated key-group allocation.

Begin with portfolio.py (the method "milp"): local_search.py finds, lagrangian.py and structural_bounds.py bound.
"""

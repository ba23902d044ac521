"""Exact and relaxed answers to key-group allocation.

Begin with portfolio.py (the method "milp"): phases.py takes turns between annealing/ (search), counting/ (a bound and plans by
counts) and pricing/ (a bound and plans by prices); tidy.py undoes needless moves.
joint_relaxation.py bounds where more windows than one count.
"""

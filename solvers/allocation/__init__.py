"""Exact and relaxed answers to key-group allocation.

Begin with portfolio.py (the method "milp"): phases.py takes turns between annealing/ (search), counting/ (a bound and plans by
counts) and pricing/ (a bound and plans by prices). forced.py says what rules force, narrow_sets.py and few_moves.py list all
choices where there are few; joint_relaxation.py bounds where more windows than one count.
"""

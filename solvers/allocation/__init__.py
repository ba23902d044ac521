"""Exact and relaxed answers to key-group allocation.

Begin with portfolio.py (the method "milp"): phases.py takes turns between annealing/ (search), counting/ (a bound) and
pricing/ (a bound, and plans that the search realises). forced.py says what rules force, narrow_sets.py lists all choices where
there are few key groups; joint_relaxation.py bounds where more windows than one count.
"""

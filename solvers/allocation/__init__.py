"""Exact and relaxed answers to key-group allocation.

Begin with portfolio.py (the method "milp"), which gives turns to search.py, counting.py (a bound and plans) and
pricing/ (a bound, and plans that the search realises). exchanges.py shares out the key groups
of a few nodes exactly; joint_relaxation.py and then whole_pairs.py bound where more windows than one count.
"""

"""Fast algorithms for mixed routing [Fang2016], and Readj, which they are compared with.

Begin with mixed.py: which phases LLFD, MinTable, MinMig and Mixed run; three_phases.py holds the phases and their
loops.
"""

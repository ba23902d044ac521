"""The published fast algorithms, one folder for each formulation, one file for each paper's algorithm.

This floor imports models, and solvers where an algorithm calls one. An algorithm is a function
``method(problem, *, budget, seed, **options) -> Answer``; `keyshift.catalogue` says which there are.
Begin with allocation/flux.py, the shortest.
"""

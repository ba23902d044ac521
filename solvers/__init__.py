"""Exact and relaxed answers, one folder for each formulation. This floor imports models only and never calls a heuristic.

The same names everywhere: statement.py runs the declarative statement by HiGHS, CP-SAT or SCIP; arrays.py is the problem as
plain arrays; *_kernels.py is compiled; portfolio.py takes keyshift's own search and bounds first and a solver for the rest;
rehearsals.py compiles before the clock runs. Begin with conductor.py; highs.py, cpsat.py and safe_bounds.py are what all of
them share.
"""

"""Exact and relaxed answers: solvers, dynamic programs, bounds. This floor imports models only."""

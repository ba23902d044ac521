"""Exact and relaxed answers to interval migration: dynamic programs, sweeps over all partitions, bounds."""

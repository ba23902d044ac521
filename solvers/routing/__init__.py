"""Exact and relaxed answers to mixed routing (paper 4)."""

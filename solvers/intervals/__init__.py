"""Exact and relaxed answers to interval migration (paper 5)."""

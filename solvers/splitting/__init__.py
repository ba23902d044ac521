"""Exact and relaxed answers to key splitting (paper 3)."""

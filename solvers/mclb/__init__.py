"""Exact and relaxed answers to minimum-cost load balancing (paper 1)."""

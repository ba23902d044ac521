"""Fast algorithms for mixed routing (paper 4)."""

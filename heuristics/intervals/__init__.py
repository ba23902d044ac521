"""Fast algorithms for interval migration (paper 5)."""

"""Fast algorithms for key splitting (paper 3)."""

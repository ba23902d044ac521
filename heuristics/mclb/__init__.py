"""Fast algorithms for minimum-cost load balancing (paper 1)."""

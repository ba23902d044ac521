"""Fast algorithms for key-group allocation."""

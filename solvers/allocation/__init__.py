"""Exact and relaxed answers to key-group allocation."""

"""Exact and relaxed answers to collocated key-group allocation (paper 2, section 4.3.2)."""

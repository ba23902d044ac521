"""Fast algorithms for key-group allocation: Flux, the power of two choices, drain first. Begin with flux.py."""

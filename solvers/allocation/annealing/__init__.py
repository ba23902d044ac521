"""Annealed search over lists of moves: how the portfolio finds most of its answers."""

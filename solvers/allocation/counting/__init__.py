"""Departures and arrivals counted for pairs of nodes: a lower bound, and plans of such counts. Begin with bound.py."""

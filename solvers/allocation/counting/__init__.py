"""Departures and arrivals counted for pairs of nodes: a lower bound, and a planner that realises such counts."""

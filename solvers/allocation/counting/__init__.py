"""Departures and arrivals counted for pairs of nodes: a lower bound."""

"""Simulation: what `keyshift.simulate` takes and returns - how state moves, how partial results come together, the figures.

>>> from keyshift.simulation import Migration
>>> how = Migration(bandwidth=0.5, pause="nodes")
"""

from __future__ import annotations

from keyshift.models.simulation import Aggregation, Migration, Simulation, simulate

__all__ = ["Aggregation", "Migration", "Simulation", "simulate"]

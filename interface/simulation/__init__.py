"""Simulation: what `keyshift.simulate` takes and returns - how state moves, how partial results come together, the figures.

>>> from keyshift.simulation import Migration
>>> how = Migration(bandwidth=0.5, pause="nodes")

One simulator of queues: what an assignment, and a change of it, would do to throughput and latency. Never a measurement.
Begin with running.py: `simulate` reads a stream and changes of the assignment (changes.py), and has the queues
served tuple by tuple or as fluids (queue_kernels.py).
"""

from __future__ import annotations

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.simulation.changes import Migration
    from keyshift.simulation.running import Aggregation, Simulation, simulate

__all__ = ["Aggregation", "Migration", "Simulation", "simulate"]
__getattr__ = on_first_use(globals(), _LAZY)

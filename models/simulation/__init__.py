"""One simulator of queues: what an assignment, and a change of it, would do to throughput and latency. Never a measurement.

Begin with running.py: `simulate` reads a stream (stream.py) and changes of the assignment (changes.py), and has the queues
served tuple by tuple (queue_kernels.py) or as fluids (fluid.py).
"""

from keyshift.models.simulation.changes import Migration
from keyshift.models.simulation.running import Aggregation, Simulation, simulate

__all__ = ["Aggregation", "Migration", "Simulation", "simulate"]

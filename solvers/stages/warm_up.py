"""Compile what later stages need, on instances too small to take time."""

from __future__ import annotations

import functools

import numpy as np

from keyshift.models import Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.priorities import Stage
from keyshift.models.workload import Workload
from keyshift.solvers.stages.search import improve_within


@functools.cache
def compile_search() -> None:
    """Search once, on a few key groups: every problem's arrays are of the same types."""
    workload = Workload(load=np.arange(1.0, 7.0), state=np.ones(6), current=np.zeros(6, dtype=int), nodes=2)
    problem = KeyGroupAllocation(workload)
    improve_within(Stage(problem, "load_distance"), workload.current.copy(), Budget(), rounds=1)

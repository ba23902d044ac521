"""Compile the search for little movement, on an instance too small to take time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Answer
from keyshift.models.movement.problem import MovementWithinLimits
from keyshift.models.workload import Workload
from keyshift.solvers.movement.local_search import local_search
from keyshift.solvers.warm_up import rehearse


def compile_search(method: Callable[..., Answer]) -> None:
    """Run the search, which every exact method here may go on with."""
    w = Workload(load=np.arange(1.0, 9.0), state=np.ones(8), current=np.zeros(8, dtype=np.int64), nodes=2)
    rehearse(local_search, [MovementWithinLimits(w, lower=0.0, upper=20.0, nodes_after=2)])

"""Compile what the methods of mixed routing need, on instances too small to take time."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np

from keyshift.models import Answer
from keyshift.models.routing import MixedRouting
from keyshift.models.workload import Workload
from keyshift.solvers.warm_up import rehearse


def compile_kernels(method: Callable[..., Answer]) -> None:
    """Run a method where many keys are off their hash destination, some have to move, and the table is short."""
    rng = np.random.default_rng(0)
    home = rng.integers(0, 3, 60)
    current = np.where(rng.random(60) < 0.7, home, rng.integers(0, 3, 60))
    load = rng.random(60) ** 4
    workload = Workload(load=load, state=rng.random(60), current=current, home=home, nodes=3)
    problems = [MixedRouting(workload, theta_max=0.1, max_table_size=25, sides=sides) for sides in ("upper", "both")]
    rehearse(method, problems)
    if "compact" in inspect.signature(method).parameters:
        rehearse(method, problems, compact=8)

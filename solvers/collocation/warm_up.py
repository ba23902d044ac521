"""Compile what the methods of collocated allocation need, on instances too small to take time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Answer
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import Workload
from keyshift.solvers.allocation import warm_up as allocation
from keyshift.solvers.allocation.portfolio import solve_milp
from keyshift.solvers.warm_up import rehearse


def compile_kernels(method: Callable[..., Answer]) -> None:
    """Run a method on a few key groups that talk to each other, at no cost and at some."""
    rng = np.random.default_rng(0)
    traffic = np.where(rng.random((12, 12)) < 0.4, rng.integers(0, 9, (12, 12)), 0)
    current = np.arange(12) % 3
    workload = Workload(load=rng.integers(5, 20, 12), state=np.ones(12), current=current, nodes=3, traffic=traffic)
    rehearse(
        method,
        [
            CollocatedAllocation(workload, max_load_distance=40.0, max_migrations=6, serialisation=cost)
            for cost in (0.0, 0.01)
        ],
    )


def compile_balancing(method: Callable[..., Answer]) -> None:
    """The same for what leaves the balance to the allocation program: small instances do not reach its kernels."""
    allocation.compile_kernels(solve_milp)
    compile_kernels(method)

"""Compile what the methods of minimum-cost load balancing need, on instances too small to take time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Answer
from keyshift.models.mclb import MCLB
from keyshift.models.workload import Workload
from keyshift.solvers.mclb.local_search import PlacementSearchSettings
from keyshift.solvers.warm_up import rehearse


def compile_kernels(method: Callable[..., Answer]) -> None:
    """Run a method with and without a limit on the state moved, over two windows and over one."""
    rehearse(method, [_problem(windows, 14, limit) for windows in (3, 1) for limit in (None, 4.0)])


def compile_search(method: Callable[..., Answer]) -> None:
    """The same for the search, which sweeps where there are too many key groups to anneal."""
    compile_kernels(method)
    rehearse(method, [_problem(windows, PlacementSearchSettings.annealed + 1, None) for windows in (3, 1)], effort=0.0)


def _problem(windows: int, key_groups: int, limit: float | None) -> MCLB:
    load = np.random.default_rng(0).random((windows, key_groups))
    current = np.arange(key_groups) % 3
    return MCLB(Workload(load=load, state=np.ones(key_groups), current=current, nodes=3), max_state_moved=limit)

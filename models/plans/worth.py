"""The worth of each move of a plan: by how much the objective would rise if it alone were undone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models.plans.way import Way
from keyshift.models.workload import FloatArray, IntArray, Workload

CHUNK = 4096
"""Moves valued at a time: a table of this many rows, one column for each node."""

Gains = Callable[[Workload, IntArray, IntArray, IntArray, bool], FloatArray]


def gains(
    measure: str, workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool = False
) -> FloatArray:
    """Worth of every move, in the unit of the measure, shape (e,).

    Parameters
    ----------
    measure : {"load distance", "imbalance", "remote traffic"}
    current, target : ndarray of int, shape (p,)
    moving : ndarray of int, shape (e,)
        The key groups that move.
    may_leave : bool
        Whether nodes that are emptied leave, for the load distance.

    Notes
    -----
    A gain may be negative: the move then serves another purpose, or none. Gains do not add up: two moves may be worth
    something only together.
    """
    return _MEASURES[measure](workload, current, target, moving, may_leave)


def _load_distance(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    return distance_gains(Way.of(workload, current, target, may_leave), current, target, moving)


def distance_gains(way: Way, current: IntArray, target: IntArray, moving: IntArray) -> FloatArray:
    """By how much the load distance would rise if a move alone were undone, shape (e,)."""
    now = float(way.distance(way.after))
    found = np.empty(moving.size)
    for begin in range(0, moving.size, CHUNK):
        part = moving[begin : begin + CHUNK]
        rows = np.arange(part.size)
        loads = np.repeat(way.after[None, :], part.size, axis=0)
        loads[rows, target[part]] -= way.load[part]
        loads[rows, current[part]] += way.load[part]
        found[begin : begin + CHUNK] = way.distance(loads) - now
    return found


def _imbalance(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    # With L the load of the target without the move undone: (L - y)^2 + (M + y)^2 - L^2 - M^2 = 2 y (M - L + y).
    kept = workload.kept
    loads = np.array([np.bincount(target, weights=row, minlength=workload.nodes) for row in workload.load])
    load = workload.load[:, moving]
    here, there = loads[:, target[moving]], loads[:, current[moving]]
    mean = (workload.load.sum(axis=1) / kept.sum())[:, None]
    lost = np.where(kept[target[moving]], (here - load - mean) ** 2 - (here - mean) ** 2, 0.0)
    won = np.where(kept[current[moving]], (there + load - mean) ** 2 - (there - mean) ** 2, 0.0)
    return (lost + won).sum(axis=0) / kept.sum()


def _remote_traffic(
    workload: Workload, current: IntArray, target: IntArray, moving: IntArray, may_leave: bool
) -> FloatArray:
    import scipy.sparse as sp

    both = sp.csr_array(workload.traffic + workload.traffic.T)  # type: ignore[union-attr]
    both = both - sp.diags_array(both.diagonal())
    found = np.empty(moving.size)
    for position, k in enumerate(moving.tolist()):
        partners = slice(both.indptr[k], both.indptr[k + 1])
        ends, tuples = target[both.indices[partners]], both.data[partners]
        found[position] = tuples[ends == target[k]].sum() - tuples[ends == current[k]].sum()
    return found


_MEASURES: dict[str, Gains] = {
    "load distance": _load_distance,
    "imbalance": _imbalance,
    "remote traffic": _remote_traffic,
}

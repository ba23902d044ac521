"""The nodes' loads before a plan, after each of its phases and in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class Way:
    """The nodes that a plan touches, new ones included, and how good a distribution of load over them is.

    Attributes
    ----------
    load : ndarray, shape (p,)
        Load of every key group, last window.
    capacity : ndarray, shape (n,)
        A new node is as large as the largest there is.
    leaving : ndarray of bool, shape (n,)
        Nodes that drain, or that the problem may give up: being empty is what is wanted of them.
    before, after : ndarray, shape (n,)
        Loads of the nodes.
    """

    load: FloatArray
    capacity: FloatArray
    leaving: BoolArray
    before: FloatArray
    after: FloatArray

    @classmethod
    def of(cls, workload: Workload, current: IntArray, target: IntArray, may_leave: bool = False) -> Way:
        """From one assignment to another, which may use nodes that the workload does not have yet.

        With `may_leave`, a node that the plan empties is taken to leave; else only a draining one is.
        """
        n = max(workload.nodes, int(current.max()) + 1, int(target.max()) + 1)
        new = n - workload.nodes
        capacity = np.concatenate([workload.capacity, np.full(new, workload.capacity.max())])
        draining = np.concatenate([workload.draining, np.zeros(new, dtype=bool)])
        emptied = np.zeros(n, dtype=bool)
        if may_leave:
            emptied = (np.bincount(current, minlength=n) > 0) & (np.bincount(target, minlength=n) == 0)
        load = workload.last_load
        before, after = (np.bincount(a, weights=load, minlength=n) for a in (current, target))
        return cls(load, capacity, draining | emptied, before, after)

    @property
    def nodes(self) -> int:
        """Nodes, new ones included."""
        return int(self.capacity.size)

    @property
    def mean(self) -> float:
        """Load per unit of capacity over the nodes that stay."""
        return float(self.load.sum() / self.capacity[~self.leaving].sum())

    def distance(self, loads: FloatArray) -> FloatArray:
        """Load distance of some node loads, shape (..., n): both ways on nodes that stay, upwards on those that leave."""
        deviation = loads / self.capacity - self.mean
        sided = np.where(self.leaving, np.maximum(deviation, 0.0), np.abs(deviation))
        return sided.max(axis=-1)


# A phase of a plan: moves that may run at the same time ----------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """Moves that may run at the same time. The next phase begins when all of them have ended.

    Attributes
    ----------
    number : int
        From 0.
    moves : tuple of int
        Rows of `Plan.moves`.
    start, end : float
        Seconds from the start of the plan.
    bound : float
        No schedule of these moves is shorter, in seconds.
    load_distance : float
        After the phase, in units of load.
    """

    number: int
    moves: tuple[int, ...]
    start: float
    end: float
    bound: float
    load_distance: float

    @property
    def seconds(self) -> float:
        """How long the phase takes."""
        return self.end - self.start


# The worth of each move of a plan: by how much the objective would rise if it alone were undone ------------------------

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

"""The nodes' loads before a plan, after each of its phases and in between."""

from __future__ import annotations

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

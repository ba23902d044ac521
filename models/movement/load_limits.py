"""(2) of `MovementWithinLimits` as the check reads it: what its statements share."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from keyshift.models.integers import capped
from keyshift.models.knapsack import ROUNDING, Knapsack
from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.workload import FloatArray, IntArray


class LoadLimits:
    """The limits on loads, row by row of the windows that count, and the states that count as moved.

    Parameters
    ----------
    problem : MovementWithinLimits
    most : float
        State that a known assignment moves: states above it count as little more.
    """

    def __init__(self, problem: MovementWithinLimits, most: float) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.open_nodes).tolist()
        self.key_groups = range(problem.workload.key_groups)
        slack = SLACK * problem.upper
        self.above = [Knapsack(row, problem.upper + slack) for row in problem.load]
        # A key group of load v or more is enough by itself: v in its place leaves (2) as it is.
        self.low = np.minimum(problem.load, problem.lower)
        self.least = max(0.0, (problem.lower - slack) * (1 - ROUNDING * (len(self.key_groups) + 2)))
        state = problem.workload.state
        self.state: FloatArray = state if math.isinf(most) else capped(state, most)

    def too_much(self, assignment: IntArray) -> Iterator[IntArray]:
        """Key groups that no node can run together: few of those on each node above u."""
        for limit in self.above:
            loads = np.bincount(assignment, limit.weights, self.problem.node_limit)
            for i in np.flatnonzero(loads > limit.limit):
                yield limit.cover(np.flatnonzero(assignment == i))

    def too_little(self, assignment: IntArray) -> Iterator[IntArray]:
        """Key groups that are no load for a node in use: those on each node below v, and others as light as can be."""
        for row in self.problem.load:
            for i in np.unique(assignment).tolist():
                here = np.flatnonzero(assignment == i)
                if math.fsum(row[here]) >= self.least:
                    continue
                others = np.flatnonzero(assignment != i)
                others = others[np.argsort(row[others], kind="stable")]
                room = math.fsum(row[here]) + np.cumsum(row[others])
                yield np.concatenate([here, others[room < self.least * (1 - 2.0**-40)]])

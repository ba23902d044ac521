"""Key-group allocation as plain arrays, in units of the mean: what the Numba kernels work on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.problem import SLACK
from keyshift.models.space import MoveSpace
from keyshift.models.workload import BoolArray, FloatArray, IntArray

EPSILON = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Instance:
    """The data of one problem, loads divided by its `scale` (the mean node load).

    Node i's deviation is ``sum of load on i * weight[i] - mean``. Limits carry the slack that the check grants, so
    that whatever passes the check is inside them.

    Parameters
    ----------
    problem : KeyGroupAllocation
    """

    problem: KeyGroupAllocation

    @cached_property
    def load(self) -> FloatArray:
        """Load of each key group, shape (p,)."""
        return np.ascontiguousarray(self.problem.workload.last_load / self.problem.scale)

    @cached_property
    def weight(self) -> FloatArray:
        """One over the capacity of each node, shape (n,)."""
        return 1.0 / self.problem.workload.capacity

    @cached_property
    def mean(self) -> float:
        """The mean of the formulation, 1 unless rounded up."""
        return self.problem.mean_load / self.problem.scale

    @property
    def current(self) -> IntArray:
        """The current node of each key group, shape (p,)."""
        return self.space.current

    @property
    def nodes(self) -> int:
        """Number of nodes, n."""
        return self.problem.workload.nodes

    @property
    def key_groups(self) -> int:
        """Number of key groups, p."""
        return self.problem.workload.key_groups

    @cached_property
    def draining(self) -> BoolArray:
        """Nodes whose deviation counts upwards only, shape (n,)."""
        return np.ascontiguousarray(self.problem.workload.draining)

    @property
    def space(self) -> MoveSpace:
        """Who may go where."""
        return self.problem.space

    @cached_property
    def by_load(self) -> IntArray:
        """Who may leave, by current node, the lightest first; where each node's begin is in `space.by_node`."""
        movers = self.space.movers
        return movers[np.lexsort((self.load[movers], self.current[movers]))]

    @cached_property
    def use(self) -> FloatArray:
        """Use of the limited resources by each key group, shape (r, p)."""
        rows = [self.problem.usage(name) for name in self.problem.resource_capacity or {}]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.key_groups)

    @cached_property
    def room(self) -> FloatArray:
        """Limits of those resources, shape (r, n)."""
        rows = [np.asarray(limit) * (1 + SLACK) for limit in (self.problem.resource_capacity or {}).values()]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.nodes)

    @cached_property
    def cost(self) -> FloatArray:
        """Migration cost of each key group, shape (p,)."""
        return np.ascontiguousarray(self.problem.migration_cost, dtype=np.float64)

    @cached_property
    def max_cost(self) -> float:
        """The limit on their sum."""
        limit = self.problem.max_migration_cost
        return math.inf if limit is None else limit * (1 + SLACK)

    @cached_property
    def max_moves(self) -> int:
        """How many key groups can move at most: the limit, or as many as the cost limit can pay."""
        movers = self.space.movers
        moves = self.key_groups if self.problem.max_migrations is None else self.problem.max_migrations
        if math.isfinite(self.max_cost):
            cheapest = np.cumsum(np.sort(self.cost[movers]))
            moves = min(moves, int(np.searchsorted(cheapest * (1 - 1e-12 * self.key_groups), self.max_cost, "right")))
        return min(moves, movers.size)

    def effort(self, share: float) -> FloatArray:
        """The effort of each move: how much of the limits of (2) it takes, in units of which there are `max_moves`, shape (p,).

        The limit on cost stands for a `share` of the units, the limit on their number for the rest.
        """
        if share == 0:
            return np.ones(self.key_groups)
        with np.errstate(over="ignore"):
            spent = np.minimum(self.cost / max(self.max_cost, TINY), 2.0)  # whatever costs more than all cannot move
        return 1.0 - share + share * self.max_moves * spent

    @cached_property
    def total(self) -> float:
        """No deviation is larger: all that there is on one node, or nothing."""
        return float(self.load.sum() * self.weight.max()) + self.mean

    @cached_property
    def bump(self) -> float:
        """What a node over a capacity counts for: more than any deviation of what may be the answer."""
        broken = self.problem.rules and self.problem.lowered.excess(self.current) > 0
        if not broken and (self.used(self.current) <= self.room).all():
            return 1.0 + self.distance(self.current)
        return 1.0 + self.total

    @cached_property
    def doubt(self) -> float:
        """More than rounding can have added to any deviation computed from these arrays."""
        return 8 * EPSILON * (self.key_groups + 50) * self.total

    @cached_property
    def least(self) -> float:
        """The distance that one key group alone makes for, on the largest node that it may run on."""
        lightest = np.where(self.space.enter, self.weight, math.inf).min(axis=1)[self.space.kind]
        lightest = np.minimum(lightest, self.weight[self.current])
        return float((self.load * lightest).max()) - self.mean - self.doubt

    def deviations(self, assignment: IntArray) -> FloatArray:
        """Deviation of every node, shape (n,)."""
        return np.bincount(assignment, self.load, self.nodes) * self.weight - self.mean

    def used(self, assignment: IntArray) -> FloatArray:
        """Resources used on every node, shape (r, n)."""
        rows = [np.bincount(assignment, row, self.nodes) for row in self.use]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.nodes)

    def distance(self, assignment: IntArray) -> float:
        """The load distance in units of the mean."""
        deviation = self.deviations(assignment)
        return float(np.where(self.draining, np.maximum(deviation, 0.0), np.abs(deviation)).max())

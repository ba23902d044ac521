"""A problem's placement program as plain arrays: what searches and bounds of all problems that place key groups read of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from keyshift.models.objectives import OverWindows, Searched
from keyshift.models.problem import SLACK
from keyshift.models.workload import FloatArray, IntArray

TINY = float(np.finfo(np.float64).tiny)
Placed = TypeVar("Placed", bound=OverWindows)


@dataclass(frozen=True)
class PlacementArrays(Generic[Placed]):
    """Where key groups are, and the limits of moves and of resources; a subclass adds loads and what it minimises, in its units.

    Limits carry the slack that the check grants, so that whatever passes the check is inside them.

    Parameters
    ----------
    problem : OverWindows
    """

    problem: Placed

    @cached_property
    def searched(self) -> Searched:
        """The placement program, in the problem's own units."""
        return self.problem.searched()

    @cached_property
    def current(self) -> IntArray:
        """The current node of each key group, shape (p,)."""
        return self.problem.workload.current

    @cached_property
    def nodes(self) -> int:
        """Number of nodes, n."""
        return self.problem.workload.nodes

    @cached_property
    def key_groups(self) -> int:
        """Number of key groups, p."""
        return self.problem.workload.key_groups

    @cached_property
    def windows(self) -> int:
        """Number of windows, k."""
        return self.problem.planned.count

    @cached_property
    def max_moves(self) -> int:
        """How many key groups can move at most: the limit, or as many as the cost limit can pay."""
        return self.searched.most_moves

    @cached_property
    def cost(self) -> FloatArray:
        """What moving each key group costs, shape (p,)."""
        cost = self.searched.cost
        return np.zeros(self.key_groups) if cost is None else np.array(cost, dtype=np.float64)

    @cached_property
    def max_cost(self) -> float:
        """The limit on their sum."""
        limit = self.searched.cost_limit
        return math.inf if limit is None else limit * (1 + SLACK)

    @cached_property
    def cost_share(self) -> FloatArray:
        """The part of that limit which each key group takes, 2 for what costs more than all; 0 without a limit, shape (p,)."""
        with np.errstate(over="ignore"):
            return np.minimum(self.cost / max(self.max_cost, TINY), 2.0)

    @cached_property
    def use(self) -> FloatArray:
        """Use of the limited resources by each key group, shape (r, p)."""
        return np.array([use for use, _ in self.searched.rooms]).reshape(len(self.searched.rooms), self.key_groups)

    @cached_property
    def room(self) -> FloatArray:
        """Limits of those resources, shape (r, n)."""
        rooms = self.searched.rooms
        return np.array([room for _, room in rooms]).reshape(len(rooms), self.nodes) * (1 + SLACK)

    def used(self, assignment: IntArray) -> FloatArray:
        """Resources used on every node, shape (r, n)."""
        rows = [np.bincount(assignment, row, self.nodes) for row in self.use]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.nodes)

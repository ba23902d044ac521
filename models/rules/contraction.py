"""Key groups that move as one, contracted to one item: the same problem without *merged*, for searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from keyshift.models.rules.lowered import Closed, Form, Lowered, MoveBudget, Rooms
from keyshift.models.rules.rule import Rule
from keyshift.models.rules.scope import Scope
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True)
class Forms(Rule):
    """Forms as a rule: what is left of all rules when key groups have become items."""

    name: ClassVar[str] = "forms"
    words: ClassVar[tuple[str, ...]] = ()
    lowered: Lowered

    def __post_init__(self) -> None:
        """Forms stay what they are: no file holds them."""

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        if excess := self.lowered.excess(assignment):
            yield "broken", None, excess

    def forms(self, scope: Scope) -> Iterator[Form]:
        if self.lowered.closed is not None:
            yield Closed(np.arange(self.lowered.current.size), self.lowered.closed)
        yield from self.lowered.rooms
        yield from self.lowered.budgets


@dataclass(frozen=True, eq=False)
class MergedItems:
    """Key groups that move as one are one item; any other is an item by itself.

    The item of merged key groups is where most of them are now. Those that are `apart` have to come there, and are paid for
    beforehand; to leave is charged as if all others moved, less what they weigh that are where it goes.

    Attributes
    ----------
    label : ndarray of int, shape (p,)
        The item of each key group.
    current : ndarray of int, shape (items,)
    lowered : Lowered
    """

    label: IntArray
    current: IntArray
    lowered: Lowered

    @classmethod
    def of(cls, lowered: Lowered) -> MergedItems:
        """The items of a problem's rules."""
        here = lowered.current
        first = np.arange(here.size)
        for members in lowered.merged:
            first[members] = members[0]
        label = np.unique(first, return_inverse=True)[1].ravel().astype(np.int64)
        items = cls(label, np.zeros(int(label.max(initial=-1)) + 1, dtype=np.int64), lowered)
        return replace(items, current=items.contracted(here))

    @cached_property
    def apart(self) -> BoolArray:
        """Key groups that are not where their item is, shape (p,)."""
        return np.asarray(self.lowered.current != self.current[self.label])

    @cached_property
    def sums(self) -> sp.csr_array:
        """The matrix that sums over the key groups of each item, shape (p, items)."""
        p = self.label.size
        return sp.csr_array((np.ones(p), (np.arange(p), self.label)), shape=(p, self.current.size))

    def contracted(self, assignment: IntArray) -> IntArray:
        """The items' nodes: where most of their key groups are."""
        nodes = np.zeros(self.current.size, dtype=np.int64)
        nodes[self.label] = assignment
        for members in self.lowered.merged:
            nodes[self.label[members[0]]] = np.bincount(assignment[members]).argmax()
        return nodes

    def expanded(self, nodes: IntArray) -> IntArray:
        """The key groups' nodes."""
        return nodes[self.label]

    def forms(self, allowed: BoolArray, limits: Sequence[tuple[FloatArray, float]] = ()) -> Lowered:
        """The other forms, by items, which run where all of theirs may, as `allowed` says, shape (p, n).

        `limits` are more budgets: what moving each key group weighs, and the most that all may.
        """
        low = self.lowered
        may = np.ones((self.current.size, allowed.shape[1]), dtype=bool)
        np.logical_and.at(may, self.label, allowed)
        rooms = []
        for room in low.rooms:
            items, weights = self._weighed(room.key_groups, room.weights)
            rooms.append(Rooms(items, weights, room.domain, room.least, room.most))
        budgets = []
        for budget in low.budgets:
            values = np.zeros(self.label.size)
            values[budget.key_groups] = budget.weights
            budgets.append(self.budget(values, budget.into, budget.most))
        everywhere = np.ones(allowed.shape[1], dtype=bool)
        budgets += [self.budget(values, everywhere, most) for values, most in limits]
        return Lowered(self.current, (), ~may, tuple(rooms), tuple(budgets))

    def budget(self, values: FloatArray, into: BoolArray, most: float) -> MoveBudget:
        """A budget of moves, by items: what leaving weighs, and what it weighs less where some of theirs are."""
        total, apart = values @ self.sums, np.unique(self.label[self.apart & (values > 0)])
        items, less, spent = np.flatnonzero(total), None, 0.0
        if apart.size:
            there = np.zeros((self.current.size, into.size))
            np.add.at(there, (self.label, self.lowered.current), values)
            weighs = np.where(into, total[apart, None] - there[apart], 0.0)  # at each node, in all
            paid = weighs[np.arange(apart.size), self.current[apart]]
            spent, total[apart] = float(paid.sum()), total[apart] - paid
            saved = np.where(into, total[apart, None], 0.0) - (weighs - paid[:, None])
            saved[np.arange(apart.size), self.current[apart]] = 0.0
            place, nodes = np.nonzero(saved)
            less = (apart[place], nodes, saved[place, nodes])
        return MoveBudget(items, total[items], into, most - spent, less)

    def _weighed(self, key_groups: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
        total = np.bincount(self.label[key_groups], weights, self.current.size)
        items = np.flatnonzero(total)
        return items, total[items]

    def workload(self, w: Workload) -> Workload:
        """The workload of the items; traffic within an item is none."""
        traffic = None
        if w.traffic is not None:
            traffic = [
                _between(pairs, self.sums) for pairs in (w.window_traffic if w.earlier_traffic else (w.traffic,))
            ]
            traffic = traffic if w.earlier_traffic else traffic[0]
        return Workload(
            load=w.load @ self.sums, state=np.where(self.apart, 0.0, w.state) @ self.sums, current=self.current, nodes=w.capacity,
            draining=w.draining, traffic=traffic, home=None if w.home is None else self.contracted(w.home),
            resources={name: use @ self.sums for name, use in w.resources.items()},
        )  # fmt: skip

    def problem(self, problem: Any) -> Any:
        """The problem of the items of a key-group allocation, collocated or not: whatever keeps its limits keeps theirs."""
        w, most, cost = problem.workload, problem.max_migrations, problem.max_migration_cost
        allowed = getattr(problem, "allocation", problem).space.allowed
        limits = [] if most is None else [(np.ones(self.label.size), float(most))]
        changes: dict[str, Any] = {}
        if cost is not None and self.apart.any():
            limits.append((problem.alpha * w.state, cost))
            changes["max_migration_cost"] = None
        changes["rules"] = (Forms(self.forms(allowed, limits)),)
        if problem.scenarios is not None:
            changes["scenarios"] = np.asarray(problem.scenarios) @ self.sums
        return replace(problem, workload=self.workload(w), priorities=(), **changes)


def _between(traffic: sp.csr_array, sums: sp.csr_array) -> sp.coo_array:
    """Traffic between different items."""
    made = sp.coo_array(sums.T @ traffic @ sums)
    other = made.row != made.col
    return sp.coo_array((made.data[other], (made.row[other], made.col[other])), shape=made.shape)

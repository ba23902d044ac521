"""Key groups that move as one, contracted to one item: the same problem without *merged*, for searches."""

from __future__ import annotations

from collections.abc import Iterator
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

    The item of merged key groups is where most of them are now. Those that are `apart` have to come there in any case; to
    leave is charged as if all others moved, which may be too much where it goes to one of theirs: whatever a search makes of the
    items keeps the rules, but it may miss some assignments that do.

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

    def charged(self, values: FloatArray) -> tuple[FloatArray, float]:
        """Of something that moving costs: what leaving costs each item, and what coming together costs in all."""
        return np.where(self.apart, 0.0, values) @ self.sums, float(values[self.apart].sum())

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

    def forms(self, allowed: BoolArray, max_migrations: int | None) -> Lowered:
        """The other forms, by items, which run where all of theirs may, as `allowed` says, shape (p, n).

        How many key groups move is a budget now: they are no longer one for each that does.
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
            weights, spent = self.charged(values)
            items = np.flatnonzero(weights)
            budgets.append(MoveBudget(items, weights[items], budget.into, budget.most - spent))
        if max_migrations is not None:
            weights, spent = self.charged(np.ones(self.label.size))
            everywhere = np.ones(allowed.shape[1], dtype=bool)
            budgets.append(MoveBudget(np.arange(weights.size), weights, everywhere, max_migrations - spent))
        return Lowered(self.current, (), ~may, tuple(rooms), tuple(budgets))

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
            load=w.load @ self.sums, state=self.charged(w.state)[0], current=self.current, nodes=w.capacity,
            draining=w.draining, traffic=traffic, home=None if w.home is None else self.contracted(w.home),
            resources={name: use @ self.sums for name, use in w.resources.items()},
        )  # fmt: skip

    def problem(self, problem: Any) -> Any:
        """The problem of the items of a key-group allocation, collocated or not: whatever keeps its limits keeps theirs."""
        spent = problem.alpha * self.charged(problem.workload.state)[1]
        most, cost = problem.max_migrations, problem.max_migration_cost
        allowed = getattr(problem, "allocation", problem).space.allowed
        changes: dict[str, Any] = {"rules": (Forms(self.forms(allowed, most)),)}
        if most is not None:
            changes["max_migrations"] = max(0, most - int(self.apart.sum()))
        if cost is not None:
            changes["max_migration_cost"] = max(0.0, cost - spent)
        if problem.scenarios is not None:
            changes["scenarios"] = np.asarray(problem.scenarios) @ self.sums
        return replace(problem, workload=self.workload(problem.workload), priorities=(), **changes)


def _between(traffic: sp.csr_array, sums: sp.csr_array) -> sp.coo_array:
    """Traffic between different items."""
    made = sp.coo_array(sums.T @ traffic @ sums)
    other = made.row != made.col
    return sp.coo_array((made.data[other], (made.row[other], made.col[other])), shape=made.shape)

"""Rules for the annealed search: families of rows as arrays, and key groups that move as one contracted to one item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from keyshift.models.rules.lowered import ROUNDING, Lowered
from keyshift.models.space import MoveSpace
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.annealing.row_kernels import Rows
from keyshift.solvers.allocation.arrays import Instance


class Family(NamedTuple):
    """A `Rooms` or a `MoveBudget`, by items: who weighs how much, and the least and the most of each domain."""

    items: IntArray
    weights: FloatArray
    domain: IntArray
    least: FloatArray
    most: FloatArray
    moves: bool = False

    def in_units(self) -> Family:
        """The same in units of the heaviest weight: then excesses can be told from what rounding adds."""
        unit = float(self.weights.max(initial=0.0)) or 1.0
        return self._replace(weights=self.weights / unit, least=self.least / unit, most=self.most / unit)


@dataclass(frozen=True, eq=False)
class Items:
    """Key groups that move as one are one item; any other is an item by itself.

    The item of merged key groups is where most of them are now. To stay there moves the rest, `apart`, whatever else it does;
    to leave is charged as if all others moved, which may be too much where it goes to one of theirs: the search is then more
    careful than the rules, never less.

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
    def of(cls, lowered: Lowered) -> Items:
        """The items of a problem's rules."""
        here = lowered.current
        first = np.arange(here.size)
        for members in lowered.merged:
            first[members] = members[0]
        label = np.unique(first, return_inverse=True)[1].ravel().astype(np.int64)
        current = np.zeros(int(label.max(initial=-1)) + 1, dtype=np.int64)
        current[label] = here
        for members in lowered.merged:
            current[label[members[0]]] = np.bincount(here[members]).argmax()
        return cls(label, current, lowered)

    @property
    def count(self) -> int:
        """How many items there are."""
        return int(self.current.size)

    @cached_property
    def apart(self) -> BoolArray:
        """Key groups that are not where their item is, shape (p,)."""
        return np.asarray(self.lowered.current != self.current[self.label])

    def total(self, values: FloatArray) -> FloatArray:
        """The sum of the key groups' values (..., p) for each item (..., items)."""
        if not self.lowered.merged:
            return values
        rows = [np.bincount(self.label, row, self.count) for row in np.atleast_2d(values)]
        return np.array(rows, dtype=np.float64).reshape(*values.shape[:-1], self.count)

    def charged(self, values: FloatArray) -> tuple[FloatArray, float]:
        """Of something that moving costs: what leaving costs each item, and what coming together costs in all."""
        return self.total(np.where(self.apart, 0.0, values)), float(values[self.apart].sum())

    def space(self, given: MoveSpace) -> MoveSpace:
        """Where items may go: where all of their key groups may run."""
        if not self.lowered.merged:
            return given
        may = np.ones((self.count, given.enter.shape[1]), dtype=bool)
        np.logical_and.at(may, self.label, given.allowed)
        stay = may[np.arange(self.count), self.current].copy()
        enter, kind = np.unique(may, axis=0, return_inverse=True)
        return MoveSpace(self.current, kind.ravel().astype(np.int64), enter, None if stay.all() else stay)

    def contracted(self, assignment: IntArray) -> IntArray:
        """The items' nodes: where most of their key groups are."""
        nodes = np.zeros(self.count, dtype=np.int64)
        nodes[self.label] = assignment
        for members in self.lowered.merged:
            if (assignment[members] != assignment[members[0]]).any():
                nodes[self.label[members[0]]] = np.bincount(assignment[members]).argmax()
        return nodes

    def expanded(self, nodes: IntArray) -> IntArray:
        """The key groups' nodes."""
        return nodes[self.label]

    def families(self, space: MoveSpace, max_migrations: int | None) -> Iterator[Family]:
        """All rows: rooms, budgets, who has to leave, and how many may move where items are not single key groups."""
        low, n, none = self.lowered, space.enter.shape[1], np.zeros(1)
        for room in low.rooms:
            weights = np.bincount(self.label[room.key_groups], room.weights, self.count)
            items = np.flatnonzero(weights)
            yield Family(items, weights[items], room.domain, room.least, room.most * (1 + ROUNDING))
        for budget in low.budgets:
            values = np.zeros(self.label.size)
            values[budget.key_groups] = budget.weights
            weights, spent = self.charged(values)
            items, most = np.flatnonzero(weights), budget.most * (1 + ROUNDING) - spent
            yield Family(items, weights[items], np.where(budget.into, 0, -1), none, np.array([most]), moves=True)
        if space.stay is not None:
            leaving = np.flatnonzero(~space.stay)
            for i in np.unique(space.current[leaving]).tolist():
                items = leaving[space.current[leaving] == i]
                yield Family(items, np.ones(items.size), np.where(np.arange(n) == i, 0, -1), none, none)
        if low.merged and max_migrations is not None:
            weights, spent = self.charged(np.ones(self.label.size))
            most = np.array([max_migrations - spent])
            yield Family(np.arange(self.count), weights, np.zeros(n, dtype=np.int64), none, most, moves=True)

    def rows(self, space: MoveSpace, max_migrations: int | None) -> Rows:
        """`families` as arrays."""
        families = list(self.families(space, max_migrations))
        kinds: dict[bytes, int] = {}
        domains, kind = [], []
        for family in families:
            domain = np.asarray(family.domain, dtype=np.int64)
            if domain.tobytes() not in kinds:
                kinds[domain.tobytes()] = len(domains)
                domains.append(domain)
            kind.append(kinds[domain.tobytes()])
        sizes = [family.items.size for family in families]
        families = [family.in_units() for family in families]
        items = np.concatenate([np.zeros(0, dtype=np.int64), *(family.items for family in families)])
        weights = np.concatenate([np.zeros(0), *(family.weights for family in families)])
        order = np.argsort(items, kind="stable")
        widths = np.array([family.most.size for family in families], dtype=np.int64)
        return Rows(
            starts=np.concatenate([[0], np.cumsum(np.bincount(items, minlength=self.count))]).astype(np.int64),
            family=np.repeat(np.arange(len(families)), sizes)[order],
            weight=weights[order],
            kind=np.array(kind, dtype=np.int64),
            offset=np.concatenate([[0], np.cumsum(widths)])[:-1].astype(np.int64),
            moves=np.array([family.moves for family in families], dtype=bool),
            domain=np.array(domains, dtype=np.int64).reshape(len(domains), space.enter.shape[1]),
            least=np.concatenate([np.zeros(0), *(family.least for family in families)]),
            most=np.concatenate([np.zeros(0), *(family.most for family in families)]),
            begins=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            members=items,
        )


def no_rows(nodes: int, key_groups: int) -> Rows:
    """Nothing that moves have to keep."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    starts = np.zeros(key_groups + 1, dtype=np.int64)
    domain = np.zeros((0, nodes), dtype=np.int64)
    return Rows(
        starts, none, nothing, none, none, none.astype(bool), domain, nothing, nothing, np.zeros(1, np.int64), none
    )


@dataclass(frozen=True)
class Contracted(Instance):
    """The instance whose key groups are `items`; its assignments are theirs."""

    items: Items

    @property
    def key_groups(self) -> int:
        return self.items.count

    @cached_property
    def space(self) -> MoveSpace:  # type: ignore[override]
        return self.items.space(self.problem.space)

    @cached_property
    def load(self) -> FloatArray:  # type: ignore[override]
        return np.ascontiguousarray(self.items.total(super().load))

    @cached_property
    def use(self) -> FloatArray:  # type: ignore[override]
        rows = [self.items.total(self.problem.usage(name)) for name in self.problem.resource_capacity or {}]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.key_groups)

    @cached_property
    def cost(self) -> FloatArray:  # type: ignore[override]
        return np.ascontiguousarray(self.items.charged(self.problem.migration_cost)[0], dtype=np.float64)

    @cached_property
    def max_cost(self) -> float:  # type: ignore[override]
        return super().max_cost - self.items.charged(self.problem.migration_cost)[1]

    @cached_property
    def bump(self) -> float:  # type: ignore[override]
        """A row that is broken now may take any balance to mend."""
        broken = self.problem.lowered.excess(self.problem.workload.current) > 0
        return 1.0 + self.total if broken else super().bump

"""The rules of a problem as arrays that annealed searches keep in step (`keyshift.solvers.row_kernels`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from keyshift.models.rules.lowered import ROUNDING, Lowered
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.row_kernels import RuleRows


class RowFamily(NamedTuple):
    """A `Rooms` or a `MoveBudget`: who weighs how much, and the least and the most of each domain."""

    key_groups: IntArray
    weights: FloatArray
    domain: IntArray
    least: FloatArray
    most: FloatArray
    moves: bool = False

    def in_units(self, unit: float) -> RowFamily:
        """The same in units of the heaviest weight, or others: then excesses can be told from what rounding adds."""
        return self._replace(weights=self.weights / unit, least=self.least / unit, most=self.most / unit)


def families(lowered: Lowered, nodes: int) -> Iterator[RowFamily]:
    """All rows of the forms but *merged*: rooms, budgets, and the nodes that some have to leave.

    A family without a `most` adds to the first row of the next one.
    """
    none = np.zeros(1)
    for room in lowered.rooms:
        yield RowFamily(room.key_groups, room.weights, room.domain, room.least, room.most * (1 + ROUNDING))
    for budget in lowered.budgets:
        some, at, less = budget.less or (np.zeros(0, dtype=np.int64),) * 3
        for i in np.unique(at).tolist():
            yield RowFamily(some[at == i], -less[at == i], np.where(np.arange(nodes) == i, 0, -1), none[:0], none[:0])
        most = np.array([budget.most * (1 + ROUNDING)])
        least = none if budget.less is None else np.array([-np.inf])
        yield RowFamily(budget.key_groups, budget.weights, np.where(budget.into, 0, -1), least, most, moves=True)
    if lowered.closed is not None:
        here = lowered.current
        leaving = np.flatnonzero(lowered.closed[np.arange(here.size), here])
        for i in np.unique(here[leaving]).tolist():
            those = leaving[here[leaving] == i]
            yield RowFamily(those, np.ones(those.size), np.where(np.arange(nodes) == i, 0, -1), none, none)


def rule_rows(lowered: Lowered, nodes: int) -> RuleRows | None:
    """`families` as arrays; None where there are none."""
    made = [one.in_units(unit) for parts, unit in sharing(families(lowered, nodes)) for one in parts]
    return rows_of(made, lowered.current.size, nodes) if made else None


def sharing(made: Iterable[RowFamily]) -> Iterator[tuple[list[RowFamily], float]]:
    """Families that share a row, and the heaviest weight of all theirs; 1 where none weighs."""
    parts: list[RowFamily] = []
    for family in made:
        parts.append(family)
        if family.most.size:
            yield parts, max(float(one.weights.max(initial=0.0)) for one in parts) or 1.0
            parts = []


def rows_of(made: list[RowFamily], key_groups: int, nodes: int) -> RuleRows:
    """Families as arrays."""
    kinds: dict[bytes, int] = {}
    domains: list[IntArray] = []
    kind: list[int] = []
    for family in made:
        domain = np.asarray(family.domain, dtype=np.int64)
        if kinds.setdefault(domain.tobytes(), len(domains)) == len(domains):
            domains.append(domain)
        kind.append(kinds[domain.tobytes()])
    sizes = [family.key_groups.size for family in made]
    members = np.concatenate([np.zeros(0, dtype=np.int64), *(family.key_groups for family in made)])
    weights = np.concatenate([np.zeros(0), *(family.weights for family in made)])
    order = np.argsort(members, kind="stable")
    widths = np.array([family.most.size for family in made], dtype=np.int64)
    return RuleRows(
        starts=np.concatenate([[0], np.cumsum(np.bincount(members, minlength=key_groups))]).astype(np.int64),
        family=np.repeat(np.arange(len(made)), sizes)[order],
        weight=weights[order],
        kind=np.array(kind, dtype=np.int64),
        offset=np.concatenate([[0], np.cumsum(widths)])[:-1].astype(np.int64),
        moves=np.array([family.moves for family in made], dtype=bool),
        domain=np.array(domains, dtype=np.int64).reshape(len(domains), nodes),
        least=np.concatenate([np.zeros(0), *(family.least for family in made)]),
        most=np.concatenate([np.zeros(0), *(family.most for family in made)]),
        begins=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        members=members,
    )

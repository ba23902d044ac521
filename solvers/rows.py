"""The rules of a problem as arrays, which annealed searches keep in step move by move.

A family is a `Rooms` or a `MoveBudget` of `keyshift.models.rules.lowered`; each of its domains is a row with a least and a most.
A key group touches the rows of its own families alone, so that a rule costs what its members cost. No rules are no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.base.compiling import uniform as draw
from keyshift.models.rules.lowered import ROUNDING, Lowered
from keyshift.models.workload import BoolArray, FloatArray, IntArray


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
        yield from leaving(lowered.current, ~lowered.closed[np.arange(lowered.current.size), lowered.current], nodes)


def leaving(current: IntArray, stay: BoolArray, nodes: int) -> Iterator[RowFamily]:
    """A row for each node that some key groups may not stay on."""
    none = np.zeros(1)
    for i in np.unique(current[~stay]).tolist():
        those = np.flatnonzero(~stay & (current == i))
        yield RowFamily(those, np.ones(those.size), np.where(np.arange(nodes) == i, 0, -1), none, none)


def sharing(made: Iterable[RowFamily]) -> Iterator[tuple[list[RowFamily], float]]:
    """Families that share a row, and the heaviest weight of all theirs; 1 where none weighs."""
    parts: list[RowFamily] = []
    for family in made:
        parts.append(family)
        if family.most.size:
            yield parts, max(float(one.weights.max(initial=0.0)) for one in parts) or 1.0
            parts = []


def entries(home: IntArray, nodes: int, most: float) -> Iterator[RowFamily]:
    """A routing table's room as one row, to which the key groups of each hash add where they are elsewhere."""
    homes, none = np.unique(home).tolist(), np.zeros(0)
    for place, node in enumerate(homes):
        least, room = (np.zeros(1), np.array([most])) if place == len(homes) - 1 else (none, none)
        keys = np.flatnonzero(home == node)
        yield RowFamily(keys, np.ones(keys.size), np.where(np.arange(nodes) == node, -1, 0), least, room)


def rows_of(made: list[RowFamily], current: IntArray, nodes: int, limits: int | None = None) -> RuleRows:
    """Families as arrays; those after the first `limits` are goals."""
    kinds: dict[bytes, int] = {}
    domains: list[IntArray] = []
    kind: list[int] = []
    for family in made:
        domain = np.asarray(family.domain, dtype=np.int64)
        if kinds.setdefault(domain.tobytes(), len(domains)) == len(domains):
            domains.append(domain)
        kind.append(kinds[domain.tobytes()])
    sizes = np.array([family.key_groups.size for family in made], dtype=np.int64)
    members = np.concatenate([np.zeros(0, dtype=np.int64), *(family.key_groups for family in made)])
    weights = np.concatenate([np.zeros(0), *(family.weights for family in made)])
    order = np.argsort(members, kind="stable")
    widths = np.array([family.most.size for family in made], dtype=np.int64)
    return RuleRows(
        current=np.array(current, dtype=np.int64),
        starts=np.concatenate([[0], np.cumsum(np.bincount(members, minlength=current.size))]).astype(np.int64),
        family=np.repeat(np.arange(len(made)), sizes)[order],
        weight=weights[order],
        kind=np.array(kind, dtype=np.int64),
        offset=np.concatenate([[0], np.cumsum(widths)])[:-1].astype(np.int64),
        moves=np.array([family.moves for family in made], dtype=bool),
        domain=np.array(domains, dtype=np.int64).reshape(len(domains), nodes),
        limits=len(made) if limits is None else limits,
        family_of=np.repeat(np.arange(len(made)), widths),
        least=np.concatenate([np.zeros(0), *(family.least for family in made)]),
        most=np.concatenate([np.zeros(0), *(family.most for family in made)]),
        begins=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        members=members,
    )


# The compiled part ---------------------------------------------------------------------------------------------------

TRIES = 4
KEPT = 1e-6
"""Rows are exceeded by no less than this, or by what rounding adds."""


class RuleRows(NamedTuple):
    """The families, their rows, and which key group weighs how much in which.

    Attributes
    ----------
    current : ndarray of int, shape (p,)
        The current node of each key group.
    starts : ndarray of int, shape (p + 1,)
        Where each key group's families begin in `family` and `weight`.
    family, weight : ndarray
    kind : ndarray of int, shape (families,)
        Which row of `domain` says where the family's domains are.
    offset : ndarray of int, shape (families,)
        The row of its first domain.
    moves : ndarray of bool, shape (families,)
        Whether key groups weigh only where they have moved.
    domain : ndarray of int, shape (kinds, n)
        The domain of each node, -1 for none.
    limits : int
        So many families are limits; those after them are goals, whose excess is minimised.
    family_of : ndarray of int, shape (rows,)
        The family of each row.
    least, most : ndarray, shape (rows,)
    begins : ndarray of int, shape (families + 1,)
        Where each family's members begin in `members`.
    members : ndarray of int
    """

    current: IntArray
    starts: IntArray
    family: IntArray
    weight: FloatArray
    kind: IntArray
    offset: IntArray
    moves: BoolArray
    domain: IntArray
    limits: int
    family_of: IntArray
    least: FloatArray
    most: FloatArray
    begins: IntArray
    members: IntArray


@njit(**LEAF)
def excess_of(row, held, rows):
    """By how much a row is exceeded or fallen short of."""
    return max(held[row] - rows.most[row], 0.0) + max(rows.least[row] - held[row], 0.0)


@njit(**LEAF)
def row_at(f, k, node, rows):
    """The row in which a key group weighs on a node; -1 for none."""
    d = rows.domain[rows.kind[f], node]
    return -1 if d < 0 or (rows.moves[f] and node == rows.current[k]) else rows.offset[f] + d


@njit(**LEAF)
def add_to(row, weight, held, rows):
    """Add to a row; by how much it is more exceeded."""
    before = excess_of(row, held, rows)
    held[row] += weight
    return excess_of(row, held, rows) - before


@njit(**LEAF)
def shift(held, k, source, target, rows):
    """Carry a key group's weights from one node to another; by how much limits, and goals, are more exceeded in all."""
    limits, goals = 0.0, 0.0
    for x in range(rows.starts[k], rows.starts[k + 1]):
        f, weight = rows.family[x], rows.weight[x]
        a, b = row_at(f, k, source, rows), row_at(f, k, target, rows)
        if a == b:
            continue
        rise = add_to(a, -weight, held, rows) if a >= 0 else 0.0
        rise += add_to(b, weight, held, rows) if b >= 0 else 0.0
        if f < rows.limits:
            limits += rise
        else:
            goals += rise
    return limits, goals


@njit(**LEAF)
def sum_rows(held, place, rows):
    """Sum every row anew for key groups on these nodes; the excess of all limits, and of all goals."""
    held[:] = 0.0
    for k in range(place.size):
        for at in range(rows.starts[k], rows.starts[k + 1]):
            row = row_at(rows.family[at], k, place[k], rows)
            if row >= 0:
                held[row] += rows.weight[at]
    limits, goals = 0.0, 0.0
    for row in range(held.size):
        if rows.family_of[row] < rows.limits:
            limits += excess_of(row, held, rows)
        else:
            goals += excess_of(row, held, rows)
    return limits, goals


@njit(**LEAF)
def closing(closed, keys, nodes, held, place, rows):
    """Note which of some key groups would break a row on which of some nodes, the others staying where they are."""
    for x in range(keys.size):
        k = keys[x]
        for y in range(nodes.size):
            closed[x, y] = shift(held, k, place[k], nodes[y], rows)[0] >= KEPT
            shift(held, k, nodes[y], place[k], rows)


@njit(**LEAF)
def put_if_kept(keys, targets, held, place, rows):
    """Carry key groups to their targets if no row is broken more by all together; whether they were."""
    rise = 0.0
    for x in range(keys.size):
        rise += shift(held, keys[x], place[keys[x]], targets[x], rows)[0]
    if rise < KEPT:
        return True
    for x in range(keys.size):
        shift(held, keys[x], targets[x], place[keys[x]], rows)
    return False


@njit(**LEAF)
def list_broken(held, broken, rows):
    """Note the rows that are exceeded or fallen short of; the last entry says how many."""
    count = 0
    for row in range(held.size):
        if rows.family_of[row] < rows.limits and excess_of(row, held, rows) >= KEPT:
            broken[count] = row
            count += 1
    broken[-1] = count


@njit(**LEAF)
def one_to_repair(rng, held, broken, place, rows):
    """Who leaves a row that is exceeded, or comes to one that falls short, and where to; -1 when the draw fails."""
    nodes = rows.domain.shape[1]
    if broken[-1] == 0:
        return -1, -1
    row = broken[int(draw(rng) * broken[-1])]
    if excess_of(row, held, rows) < KEPT:
        return -1, -1
    f = rows.family_of[row]
    to = int(draw(rng) * nodes)
    if held[row] > rows.most[row]:
        k = one_to_give_way(rng, -1, f, row, place, rows)
        return k, rows.current[k] if rows.moves[f] and k >= 0 else to
    for _ in range(TRIES * TRIES):
        k = rows.members[rows.begins[f] + int(draw(rng) * (rows.begins[f + 1] - rows.begins[f]))]
        if row_at(f, k, to, rows) == row:
            return k if row_at(f, k, place[k], rows) != row else -1, to
        to = int(draw(rng) * nodes)
    return -1, -1


@njit(**LEAF)
def one_to_give_way(rng, k, f, row, place, rows):
    """A member of a family, other than k, that weighs in a row; -1 when the draw fails."""
    begin, size = rows.begins[f], rows.begins[f + 1] - rows.begins[f]
    all_of_them = size <= 64  # of more, some are drawn
    first = int(draw(rng) * size)
    for at in range(size if all_of_them else TRIES):
        other = rows.members[begin + (first + at) % size if all_of_them else begin + int(draw(rng) * size)]
        if other != k and row_at(f, other, place[other], rows) == row:
            return other
    return -1


@njit(**LEAF)
def giving_way(rng, k, target, held, place, rows):
    """The key group that makes room in a row which k would fill beyond its most, and its new node; -1 if none has to, or can."""
    for at in range(rows.starts[k], rows.starts[k + 1]):
        f = rows.family[at]
        row = row_at(f, k, target, rows)
        if row < 0 or row == row_at(f, k, place[k], rows) or held[row] + rows.weight[at] <= rows.most[row]:
            continue
        if f >= rows.limits:
            continue
        other = one_to_give_way(rng, k, f, row, place, rows)
        to = place[k] if draw(rng) < 0.7 else int(draw(rng) * rows.domain.shape[1])
        return other, rows.current[other] if rows.moves[f] else to
    return -1, -1

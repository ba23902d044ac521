r"""The four forms below all rules: all that statements, searches and bounds use of them.

With :math:`x_{ki} = 1` iff key group k runs on node i, and :math:`q_k` its node now:

.. math::

    (1) \; \text{merged} \quad & x_{ki} = x_{li}                            && \text{key groups k, l move as one} \\
    (2) \; \text{closed} \quad & x_{ki} = 0                                 && \text{k may not run on i} \\
    (3) \; \text{rooms}  \quad & least_d \le \sum_{k} w_k \sum_{i \in I_d} x_{ki} \le most_d && \text{for each domain } I_d \\
    (4) \; \text{budgets} \quad & \sum_{k: q_k \in O} w_k \sum_{i \in T,\, i \ne q_k} x_{ki} \le most

By how much an assignment breaks them, in key groups: those that are not where most of theirs are, those on closed nodes, and
what is too much or too little in each domain, in units of the heaviest weight of its room:

.. math::

    (5) \; broken = \sum_{S\, merged} \Bigl(|S| - \max_i \sum_{k \in S} x_{ki}\Bigr) + \sum_{(k, i)\, closed} x_{ki}
        + \sum_{rooms} \frac{1}{\max_k w_k} \sum_d \max\Bigl(0,\; \sum_{k} w_k \sum_{i \in I_d} x_{ki} - most_d,\;
        least_d - \sum_{k} w_k \sum_{i \in I_d} x_{ki}\Bigr)

A rule lowers itself to them (`keyshift.models.rules.rule.Rule.forms`), and nothing above this file depends on a single rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from keyshift.models.base.labels import numbered_rows
from keyshift.models.base.lazily import sp
from keyshift.models.problem import SLACK
from keyshift.models.workload import BoolArray, FloatArray, IntArray, MoveSpace

ROUNDING = SLACK
"""Relative rounding allowed when a sum of floats is held against a room."""


@dataclass(frozen=True, eq=False)
class Merged:
    """(1) Key groups that run on one and the same node."""

    key_groups: IntArray


@dataclass(frozen=True, eq=False)
class Closed:
    """(2) Key groups, shape (m,), and the nodes on which they may not run, shape (n,) or (m, n)."""

    key_groups: IntArray
    nodes: BoolArray


@dataclass(frozen=True, eq=False)
class Rooms:
    """(3) A least and a most of the key groups' weights in each of some disjoint sets of nodes.

    Attributes
    ----------
    key_groups, weights : ndarray, shape (m,)
        Weights are whole where any `least` is above 0.
    domain : ndarray of int, shape (n,)
        The set that each node is in, -1 for none.
    least, most : ndarray, shape (domains,)
    """

    key_groups: IntArray
    weights: FloatArray
    domain: IntArray
    least: FloatArray
    most: FloatArray

    def held(self, assignment: IntArray) -> FloatArray:
        """The weight in each domain, shape (domains,)."""
        at = self.domain[assignment[self.key_groups]]
        return np.bincount(at[at >= 0], self.weights[at >= 0], self.most.size)

    @cached_property
    def heaviest(self) -> float:
        """The unit in which (5) counts what is too much."""
        return float(self.weights.max(initial=0.0)) or 1.0

    def excess(self, assignment: IntArray) -> float:
        """By how much rooms are exceeded, or fallen short of, in all: their part of (5)."""
        held = self.held(assignment)
        over = np.where(held > self.most * (1 + ROUNDING), held - self.most, 0.0)
        return float((over + np.maximum(self.least - held, 0.0)).sum()) / self.heaviest


@dataclass(frozen=True, eq=False)
class MoveBudget:
    """(4) The most that moves out of some nodes into some may weigh.

    Attributes
    ----------
    key_groups, weights : ndarray, shape (m,)
        Of the key groups that are on the nodes to leave.
    into : ndarray of bool, shape (n,)
    most : float
    less : tuple of ndarray, optional
        Items, nodes and weights: of items that stand for several key groups (`keyshift.models.rules.ruled`), what it weighs
        less that one goes to a node where some of its key groups are already.
    """

    key_groups: IntArray
    weights: FloatArray
    into: BoolArray
    most: float
    less: tuple[IntArray, IntArray, FloatArray] | None = None

    def spent(self, assignment: IntArray, current: IntArray) -> float:
        """The total weight of the moves."""
        to = assignment[self.key_groups]
        weight = float(self.weights[(to != current[self.key_groups]) & self.into[to]].sum())
        if self.less is None:
            return weight
        items, nodes, weights = self.less
        return weight - float(weights[assignment[items] == nodes].sum())

    def excess(self, assignment: IntArray, current: IntArray) -> float:
        """By how much the moves exceed it."""
        spent = self.spent(assignment, current)
        return spent - self.most if spent > self.most * (1 + ROUNDING) else 0.0


Form = Merged | Closed | Rooms | MoveBudget


@dataclass(frozen=True, eq=False)
class Lowered:
    """All rules of a problem as the four forms.

    Attributes
    ----------
    current : ndarray of int, shape (p,)
    merged : tuple of ndarray
        Disjoint sets of at least two key groups.
    closed : ndarray of bool, shape (p, n), or None
        None if every node is open to every key group. A node closed to one of merged key groups is closed to all of them.
    rooms, budgets : tuple
    """

    current: IntArray
    merged: tuple[IntArray, ...] = ()
    closed: BoolArray | None = None
    rooms: tuple[Rooms, ...] = ()
    budgets: tuple[MoveBudget, ...] = field(default=())

    @classmethod
    def of(cls, forms: Iterable[Form], current: IntArray, places: int) -> Lowered:
        """Join the forms of several rules."""
        forms = list(forms)
        merged = _joined([form.key_groups for form in forms if isinstance(form, Merged)], current.size)
        closed = None
        for form in forms:
            if isinstance(form, Closed):
                closed = np.zeros((current.size, places), dtype=bool) if closed is None else closed
                closed[form.key_groups] |= form.nodes
        if closed is not None:
            for together in merged:
                closed[together] = closed[together].any(axis=0)
        rooms = tuple(form for form in forms if isinstance(form, Rooms))
        budgets = tuple(form for form in forms if isinstance(form, MoveBudget))
        return cls(current, merged, closed, rooms, budgets)

    def __bool__(self) -> bool:
        return bool(self.merged or self.rooms or self.budgets or self.closed is not None)

    def no_worse(self, than: IntArray) -> Lowered:
        """The forms, each as far as an assignment keeps it: what shares a node there stays together.

        An assignment that keeps these breaks no row, and no pair, by more.
        """
        merged = [one[than[one] == i] for one in self.merged for i in np.unique(than[one])]
        closed = self.closed
        if closed is not None:
            closed = closed.copy()
            closed[np.arange(than.size), than] = False
        rooms = [(room, room.held(than)) for room in self.rooms]
        loose = [replace(r, least=np.minimum(r.least, h), most=np.maximum(r.most, h)) for r, h in rooms]
        return replace(self, merged=tuple(one for one in merged if one.size > 1), closed=closed, rooms=tuple(loose))

    def narrowed(self, space: MoveSpace) -> MoveSpace:
        """The move space without what is closed."""
        return space if self.closed is None else space.without(self.closed)

    @cached_property
    def alike(self) -> IntArray:
        """A label for each key group: those of one label are the same to every form, but for where they are now."""
        label = np.zeros(self.current.size, dtype=np.int64)
        parts = [(one, np.arange(one.size)) for one in self.merged]
        if self.closed is not None:
            codes = numbered_rows(self.closed)[1]
            parts.append((np.flatnonzero(self.closed.any(axis=1)), codes[self.closed.any(axis=1)]))
        rows: tuple[Rooms | MoveBudget, ...] = (*self.rooms, *self.budgets)
        for form in rows:
            parts.append((form.key_groups, np.unique(form.weights, return_inverse=True)[1]))
        fresh = 1
        for members, codes in parts:  # what a form tells apart parts, and leaves those that it does not name
            pair = label[members] * (int(codes.max(initial=0)) + 1) + codes
            label[members] = fresh + np.unique(pair, return_inverse=True)[1]
            fresh += members.size
        return np.unique(label, return_inverse=True)[1].ravel()

    @cached_property
    def linear(self) -> bool:
        """Whether there is more than a move space can say."""
        return bool(self.merged or self.rooms or self.budgets)

    def excess(self, assignment: IntArray) -> float:
        """By how much an assignment breaks the forms: (5), and by how much it exceeds budgets."""
        apart = sum(one.size - int(np.bincount(assignment[one]).max()) for one in self.merged)
        shut = 0 if self.closed is None else int(self.closed[np.arange(assignment.size), assignment].sum())
        rooms = sum(room.excess(assignment) for room in self.rooms)
        return float(apart + shut + rooms + sum(budget.excess(assignment, self.current) for budget in self.budgets))


class RowTally:
    """Sums of the forms' rows, kept up to date while single key groups move, for heuristics that ask before each move.

    Parameters
    ----------
    lowered : Lowered
    place : ndarray of int, shape (p,)
        Where key groups are at first.
    """

    def __init__(self, lowered: Lowered, place: IntArray) -> None:
        self.lowered, self.place = lowered, place.copy()
        self.tied = {k for members in lowered.merged for k in members.tolist()}
        self.rows: dict[int, list[tuple[Rooms, FloatArray, float]]] = {}
        for room in lowered.rooms:
            held = room.held(place)
            for k, weight in zip(room.key_groups.tolist(), room.weights.tolist(), strict=True):
                self.rows.setdefault(k, []).append((room, held, weight))
        self.budgets: dict[int, list[tuple[MoveBudget, FloatArray, float]]] = {}
        for budget in lowered.budgets:
            spent = np.array([budget.spent(place, lowered.current)])
            for k, weight in zip(budget.key_groups.tolist(), budget.weights.tolist(), strict=True):
                self.budgets.setdefault(k, []).append((budget, spent, weight))

    def open_to(self, k: int, nodes: int) -> BoolArray:
        """Where a key group may go by itself so that no row is broken, or broken more, shape (nodes,); it may always stay."""
        here, low = int(self.place[k]), self.lowered
        may = np.ones(nodes, dtype=bool) if low.closed is None else ~low.closed[k]
        may &= k not in self.tied
        for room, held, weight in self.rows.get(k, ()):
            at = room.domain
            full = (at >= 0) & (held + weight > room.most * (1 + ROUNDING))[at]
            short = at[here] >= 0 and held[at[here]] - weight < room.least[at[here]]
            may &= (at == at[here]) | ~(full | short)
        for budget, spent, weight in self.budgets.get(k, ()):
            counts = budget.into & (np.arange(nodes) != low.current[k])
            may &= ~counts | bool(counts[here]) | bool(spent[0] + weight <= budget.most * (1 + ROUNDING))
        may[here] = True
        return may

    def move(self, k: int, target: int) -> None:
        """Move a key group."""
        here, now = int(self.place[k]), int(self.lowered.current[k])
        for room, held, weight in self.rows.get(k, ()):
            for node, sign in ((here, -1), (target, +1)):
                if room.domain[node] >= 0:
                    held[room.domain[node]] += sign * weight
        for budget, spent, weight in self.budgets.get(k, ()):
            spent += weight * (int(target != now and budget.into[target]) - int(here != now and budget.into[here]))
        self.place[k] = target


def labels_of(sets: Iterable[IntArray], key_groups: int) -> IntArray:
    """A number for each key group, shape (p,): the same for those of a set, in the order of first members."""
    first = np.arange(key_groups)
    for members in sets:
        first[members] = members[0]
    return np.unique(first, return_inverse=True)[1].ravel().astype(np.int64)


def _joined(sets: list[IntArray], key_groups: int) -> tuple[IntArray, ...]:
    """Disjoint sets: those that share a key group are one."""
    sets = [one for one in sets if one.size > 1]
    if not sets:
        return ()
    from scipy.sparse.csgraph import connected_components

    first = np.concatenate([np.full(one.size - 1, one[0]) for one in sets])
    other = np.concatenate([one[1:] for one in sets])
    graph = sp.coo_array((np.ones(first.size), (first, other)), shape=(key_groups, key_groups))
    label = connected_components(graph, directed=False)[1]
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return tuple(np.sort(part) for part in parts if part.size > 1)

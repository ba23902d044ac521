"""The nodes' loads on the way from one assignment to another, and what rules have to say of every moment in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keyshift.models.problem import SLACK
from keyshift.models.rules.lowered import Lowered, labels_of
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

    @cached_property
    def mean(self) -> float:
        """Load per unit of capacity over the nodes that stay."""
        return float(self.load.sum() / self.capacity[~self.leaving].sum())

    def deviation(self, loads: FloatArray, nodes: IntArray | slice = np.s_[:]) -> FloatArray:
        """How far loads of some nodes, shape (..., n), are from the mean: upwards alone on nodes that leave."""
        away = loads / self.capacity[nodes] - self.mean
        return np.where(self.leaving[nodes], np.maximum(away, 0.0), np.abs(away))

    def distance(self, loads: FloatArray) -> FloatArray:
        """Load distance of some node loads, shape (..., n): both ways on nodes that stay, upwards on those that leave."""
        return self.deviation(loads).max(axis=-1)

    def distances(self, loads: FloatArray, moved: FloatArray, source: IntArray, target: IntArray) -> FloatArray:
        """Load distance of the nodes' loads after each of some moves alone, of loads `moved`, shape (e,)."""
        before = self.deviation(loads)
        top = np.argsort(-before)[:3, None]  # of three nodes, one at least is neither source nor target
        others = np.where((top != source) & (top != target), before[top], 0.0).max(axis=0)
        sent, taken = self.deviation(loads[source] - moved, source), self.deviation(loads[target] + moved, target)
        return np.maximum(others, np.maximum(sent, taken))


# The rules of a cluster on the way -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuledWay:
    r"""The rooms that several units of moves share, and could break together between the first move of a plan and the last.

    A key group counts where it comes from until it has moved, and where it goes to from the moment it begins: once in a domain
    that holds both. Key groups that rules keep together move as one. With :math:`h_r` the weight in a room, and :math:`in_{ur}`
    and :math:`out_{ur}` what a unit u of moves brings into it and takes out, a phase of units U keeps the rules, however its
    moves overlap, if for every room r

    .. math:: (1) \quad h_r + \sum_{u \in U} in_{ur} \le most_r, \qquad h_r - \sum_{u \in U} out_{ur} \ge least_r

    A room that is exceeded before the plan or after it must at least go no higher in between. Nothing else can break half-way:
    closed nodes and budgets of moves only tell the first state from the last.

    Attributes
    ----------
    unit : ndarray of int, shape (e,)
        The unit that each move belongs to.
    held, least, most : ndarray, shape (rooms,)
    touched : tuple of (rooms, in, out)
        Of each unit.
    """

    unit: IntArray
    held: FloatArray
    least: FloatArray
    most: FloatArray
    touched: tuple[tuple[IntArray, FloatArray, FloatArray], ...]

    @classmethod
    def of(cls, lowered: Lowered, current: IntArray, target: IntArray, moving: IntArray) -> RuledWay:
        """The rules' rooms on the way from one assignment to another; `moving` are the key groups that move."""
        unit = np.unique(labels_of(lowered.merged, current.size)[moving], return_inverse=True)[1]
        count = int(unit.max(initial=-1)) + 1
        of_key_group = np.full(current.size, -1)
        of_key_group[moving] = unit
        rows: list[tuple[float, float, float, FloatArray, FloatArray, IntArray]] = []
        for room in lowered.rooms:
            mine = of_key_group[room.key_groups]
            source, goal = (room.domain[where[room.key_groups]] for where in (current, target))
            crossing = (mine >= 0) & (source != goal)
            if len(set(mine[crossing].tolist())) < 2:
                continue
            before, after = room.held(current), room.held(target)
            for d in np.unique(np.concatenate([source[crossing], goal[crossing]])):
                if d < 0:
                    continue
                into, out = (
                    np.bincount(mine[at], room.weights[at], count)
                    for at in (crossing & (goal == d), crossing & (source == d))
                )
                units = np.flatnonzero((into > 0) | (out > 0))
                most = max(float(room.most[d]), before[d], after[d])
                least = min(float(room.least[d]), before[d], after[d])
                if units.size > 1 and (before[d] + into.sum() > most * (1 + SLACK) or before[d] - out.sum() < least):
                    rows.append((before[d], least, most, into[units], out[units], units))
        held, least, most = (np.array([row[part] for row in rows], dtype=float) for part in range(3))
        return cls(unit, held, least, most, _by_unit(rows, count))

    @property
    def units(self) -> int:
        """Units of moves."""
        return len(self.touched)

    def excess(self, held: FloatArray, low: FloatArray | None = None) -> FloatArray:
        """By how much rooms, shape (..., rooms), are exceeded, or fallen short of where they may hold less, in all."""
        low = held if low is None else low
        over = np.where(held > self.most * (1 + SLACK), held - self.most, 0.0)
        under = np.where(low < self.least * (1 - SLACK), self.least - low, 0.0)
        return np.asarray((over + under).sum(axis=-1))

    def after(self, held: FloatArray, units: Iterable[int]) -> FloatArray:
        """The weight in each room once some units have moved."""
        then = held.copy()
        for u in units:
            rooms, into, out = self.touched[u]
            then[rooms] += into - out
        return then

    def worst(self, phases: Iterable[IntArray]) -> float:
        """The most by which rooms are exceeded at any time, whatever the overlaps: (1); phases are lists of moves."""
        held, worst = self.held, 0.0
        for moves in phases:
            units = dict.fromkeys(self.unit[moves].tolist())
            then = self.after(held, units)
            if len(units) > 1:
                high, low = held.copy(), held.copy()
                for u in units:
                    rooms, into, out = self.touched[u]
                    high[rooms] += into
                    low[rooms] -= out
                worst = max(worst, float(self.excess(high, low)))
            worst = max(worst, float(self.excess(then)))
            held = then
        return worst


def _by_unit(
    rows: list[tuple[float, float, float, FloatArray, FloatArray, IntArray]], count: int
) -> tuple[tuple[IntArray, FloatArray, FloatArray], ...]:
    """The amounts that each unit brings into each of its rooms, and takes out."""
    found: list[list[tuple[int, float, float]]] = [[] for _ in range(count)]
    for number, (_, _, _, into, out, units) in enumerate(rows):
        for u, more, less in zip(units.tolist(), into.tolist(), out.tolist(), strict=True):
            found[u].append((number, more, less))
    made = [np.array(one, dtype=float).reshape(-1, 3).T for one in found]
    return tuple((rooms.astype(np.int64), into, out) for rooms, into, out in made)

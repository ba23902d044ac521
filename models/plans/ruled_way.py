r"""Rules on the way: the rooms that moves share, between the first move of a plan and the last.

A key group counts where it comes from until it has moved, and where it goes to from the moment it begins: once in a domain
that holds both. Key groups that rules keep together move as one. With :math:`h_r` the weight in a room, and :math:`in_{ur}`
and :math:`out_{ur}` what a unit u of moves brings into it and takes out, a phase of units U keeps the rules, however its
moves overlap, if for every room r

.. math:: (1) \quad h_r + \sum_{u \in U} in_{ur} \le most_r, \qquad h_r - \sum_{u \in U} out_{ur} \ge least_r

A room that is exceeded before the plan or after it must at least go no higher in between. Nothing else can break half-way:
closed nodes and budgets of moves only tell the first state from the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyshift.models.files.problem import pose
from keyshift.models.problem import Violation
from keyshift.models.rules.lowered import ROUNDING, Lowered
from keyshift.models.workload import FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class RuledWay:
    """The rooms that several units of moves share, and could break together.

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
        unit = _units(lowered, current.size, moving)
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
                if units.size > 1 and (before[d] + into.sum() > most * (1 + ROUNDING) or before[d] - out.sum() < least):
                    rows.append((before[d], least, most, into[units], out[units], units))
        held, least, most = (np.array([row[part] for row in rows], dtype=float) for part in range(3))
        return cls(unit, held, least, most, _by_unit(rows, count))

    @property
    def units(self) -> int:
        """Units of moves."""
        return len(self.touched)

    def excess(self, held: FloatArray) -> float:
        """By how much rooms are exceeded, or fallen short of, in all."""
        over = np.where(held > self.most * (1 + ROUNDING), held - self.most, 0.0)
        under = np.where(held < self.least * (1 - ROUNDING), self.least - held, 0.0)
        return float(over.sum() + under.sum())

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
                over = np.where(high > self.most * (1 + ROUNDING), high - self.most, 0.0)
                under = np.where(low < self.least * (1 - ROUNDING), self.least - low, 0.0)
                worst = max(worst, float(over.sum() + under.sum()))
            worst = max(worst, self.excess(then))
            held = then
        return worst


def broken_on_the_way(plan: Any, workload: Workload) -> list[Violation]:
    """Rules broken between a plan's first move and its last, beyond those it names; its problem is asked anew."""
    if not plan.parameters.get("rules") or len(plan) == 0:
        return []
    lowered = pose(plan.problem, workload, plan.parameters).lowered  # type: ignore[attr-defined]  # it has rules
    way = RuledWay.of(lowered, plan.current, plan.assignment, plan.key_group)
    worst = way.worst(np.array(phase.moves, dtype=np.int64) for phase in plan.phases)
    if worst <= plan.broken_rules * (1 + ROUNDING):
        return []
    said = f"rules are broken by {worst:g} on the way, the plan says by {plan.broken_rules:g}"
    return [Violation("rules", said, amount=worst - plan.broken_rules)]


def _units(lowered: Lowered, key_groups: int, moving: IntArray) -> IntArray:
    """A number for each move, the same for those of merged key groups."""
    label = np.arange(key_groups)
    for together in lowered.merged:
        label[together] = together[0]
    return np.unique(label[moving], return_inverse=True)[1]


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

"""Phases that keep rules: which moves may overlap, and which have to wait for others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.plans.way import RuledWay
from keyshift.models.rules.lowered import ROUNDING
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.plans.steps import OrderSettings


@dataclass(frozen=True, eq=False)
class Phases:
    """Moves by phase, by how much rooms are exceeded on the way, and what no order avoids."""

    moves: list[IntArray]
    broken: float
    bound: float


def ruled_phases(way: RuledWay, order: IntArray) -> Phases:
    """Phases in each of which moves may overlap at will without breaking a rule, or break rules as little as can be.

    A phase takes, in the given order, every unit of moves that (1) of `keyshift.models.plans.way` lets join. Where none
    may go first, the one that breaks least goes alone. Of up to `exact_up_to` units all orders are searched where that breaks
    anything (over sets of done units, O(2^u u)). Of more, it is proven best where no room is entered by two units and none has
    a least: then a move that can be made never stands in another's way, and whoever is stuck is stuck in every order.
    """
    units = list(dict.fromkeys(way.unit[order].tolist()))
    chosen, broken, bound = _greedy(way, units)
    if broken > 0 and way.units <= OrderSettings.now().exact_up_to:
        least, exact = _least(way)
        bound = least
        if broken > least * (1 + ROUNDING):
            chosen, broken = _in_order(way, exact), least
    members: list[list[int]] = [[] for _ in range(way.units)]
    for move in order.tolist():
        members[way.unit[move]].append(move)
    moves = [np.array([m for u in part for m in members[u]], dtype=np.int64) for part in chosen]
    return Phases(moves, broken, min(bound, broken))


def _joins(way: RuledWay, high: FloatArray, low: FloatArray, u: int) -> bool:
    rooms, into, out = way.touched[u]
    fits = (into == 0) | (high[rooms] + into <= way.most[rooms] * (1 + ROUNDING))
    stays = (out == 0) | (low[rooms] - out >= way.least[rooms] * (1 - ROUNDING))
    return bool((fits & stays).all())


def _greedy(way: RuledWay, waiting: list[int]) -> tuple[list[list[int]], float, float]:
    """Phases as long as they can be; by how much they break rooms; and what no order avoids."""
    held, worst, bound, phases = way.held, 0.0, 0.0, []
    while waiting:
        high, low = held.copy(), held.copy()
        phase, rest = [], []
        for u in waiting:
            if _joins(way, high, low, u):
                rooms, into, out = way.touched[u]
                high[rooms] += into
                low[rooms] -= out
                phase.append(u)
            else:
                rest.append(u)
        if not phase:
            breaks = {u: way.excess(way.after(held, [u])) for u in rest}
            phase = [min(rest, key=lambda u: breaks[u])]
            if worst == 0 and _slots(way):
                bound = breaks[phase[0]]
            rest.remove(phase[0])
        held = way.after(held, phase)
        worst = max(worst, way.excess(held))
        phases.append(phase)
        waiting = rest
    return phases, worst, bound


def _slots(way: RuledWay) -> bool:
    """Whether no room is entered by two units, and none is held from below."""
    entered = np.zeros(way.held.size, dtype=int)
    for rooms, into, _ in way.touched:
        entered[rooms] += into > 0
    lost = any((way.least[rooms][out > 0] > 0).any() for rooms, _, out in way.touched)
    return bool((entered <= 1).all()) and not lost


def _least(way: RuledWay) -> tuple[float, list[int]]:
    """The least that any order of single units breaks at its worst moment, and such an order."""
    net = np.zeros((way.held.size, way.units))
    for u, (rooms, into, out) in enumerate(way.touched):
        net[rooms, u] = into - out
    held = way.held[None, :]
    for u in range(way.units):
        held = np.concatenate([held, held + net[:, u]])
    over = np.where(held > way.most * (1 + ROUNDING), held - way.most, 0.0)
    under = np.where(held < way.least * (1 - ROUNDING), way.least - held, 0.0)
    excess = (over + under).sum(axis=1).tolist()
    worst, last = [0.0] * len(excess), [-1] * len(excess)
    for done in range(1, len(excess)):
        best = min((u for u in range(way.units) if done >> u & 1), key=lambda u: worst[done ^ (1 << u)])
        last[done], worst[done] = best, max(excess[done], worst[done ^ (1 << best)])
    order, done = [], len(excess) - 1
    while done:
        order.append(last[done])
        done ^= 1 << last[done]
    return worst[-1], order[::-1]


def _in_order(way: RuledWay, order: list[int]) -> list[list[int]]:
    """Phases of an order: the next unit joins where it may, else it begins another phase."""
    held, phases, joining = way.held, list[list[int]](), False
    high = low = held
    for u in order:
        if not (joining and _joins(way, high, low, u)):
            if phases:
                held = way.after(held, phases[-1])
            phases.append([])
            high, low = held.copy(), held.copy()
            joining = _joins(way, high, low, u)  # what breaks something goes alone
        rooms, into, out = way.touched[u]
        high[rooms] += into
        low[rooms] -= out
        phases[-1].append(u)
    return phases

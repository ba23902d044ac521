r"""The cheapest choice of a set of key groups for each node, by a dynamic program over all subsets: of up to twenty key groups.

Node i may take some sets S, at a cost of :math:`c_i(S)` and with :math:`m_i(S)` moves, of which there may be M. The least cost at
which the first i nodes hold just the key groups of T with m moves is

.. math:: f_i(T, m) = \min_{S \subseteq T} \; f_{i-1}(T \setminus S, \; m - m_i(S)) + c_i(S).

What one half of the nodes costs for T and the other half for the rest [Horowitz1974] is then added up. Within tight limits nodes
may take few sets, and beside a large T few key groups are left: the shorter list is gone through, so that it takes at most
:math:`n 3^p` steps for each number of moves, and mostly far fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.base.compiling import njit
from keyshift.models.workload import FloatArray, IntArray

ENTRIES, SOON = 2**23, 2**19
"""The most entries of tables with one for each node and set, and of those that are gone through before anything else."""


class FittingSets(NamedTuple):
    """The sets that a node may take."""

    bits: IntArray
    """A bit for each key group, shape (sets,)."""
    cost: FloatArray
    """What each costs, at least 0, shape (sets,)."""
    moves: IntArray
    """How many moves it is, shape (sets,)."""


def cheapest_cover(
    sets: Sequence[FittingSets], size: int, most: float, most_moves: int, most_steps: float, budget: Budget
) -> tuple[bool, list[int] | None]:
    """A set for each node, which together hold every key group once.

    Parameters
    ----------
    sets : sequence of FittingSets
        Of each node.
    size : int
        The number of all subsets, a power of 2.
    most, most_moves : float, int
        The most that all may cost, and move.
    most_steps : float
        Of each node.
    budget : Budget

    Returns
    -------
    answered : bool
        False where that took too many steps.
    chosen : list of int or None
        The bits of each node's set; None where there is no choice.
    """
    if any(one.bits.size == 0 for one in sets):
        return True, None
    least = np.array([one.cost.min() for one in sets])
    order = sorted(range(len(sets)), key=lambda i: sets[i].bits.size)
    halves, tables = (order[::2], order[1::2]), list[list[FloatArray]]()
    for half in halves:
        made, others = [np.full((most_moves + 1, size), np.inf)], float(least.sum())
        made[0][0, 0] = 0.0
        for i in half:
            others -= float(least[i])
            after = _with_node(made[-1], sets[i], most - others, most_steps, budget)
            if after is None:
                return False, None
            made.append(after)
        tables.append(made)
    first, second = tables[0][-1], np.minimum.accumulate(tables[1][-1], axis=0)
    both = first + second[::-1, ::-1]  # what is left of the moves, and of the key groups
    moves, held = np.unravel_index(int(both.argmin()), both.shape)
    if both[moves, held] > most:
        return True, None
    chosen = [0] * len(sets)
    left = most_moves - int(moves)
    left = int(tables[1][-1][: left + 1, size - 1 - held].argmin())
    for half, made, at in zip(halves, tables, ((int(moves), int(held)), (left, size - 1 - int(held))), strict=True):
        for i, before in zip(half[::-1], made[-2::-1], strict=True):
            some, (m, bits) = sets[i], at
            inside = np.flatnonzero(((some.bits & ~bits) == 0) & (some.moves <= m))
            least = before[m - some.moves[inside], bits ^ some.bits[inside]] + some.cost[inside]
            best = inside[int(least.argmin())]
            chosen[i] = int(some.bits[best])
            at = m - int(some.moves[best]), bits ^ chosen[i]
    return True, chosen


def _with_node(
    before: FloatArray, sets: FittingSets, most: float, most_steps: float, budget: Budget
) -> FloatArray | None:
    """f after one node more; None where it takes too many steps."""
    after, steps = np.full_like(before, np.inf), 0.0
    for moves in np.unique(sets.moves[sets.moves < len(before)]).tolist():
        some = sets.moves == moves
        bits, cost = sets.bits[some], sets.cost[some]
        table = np.full(before.shape[1], np.inf)
        table[bits] = cost
        for m in range(len(before) - moves):
            held = np.flatnonzero(before[m] <= most)
            if held.size * bits.size <= 2**17:  # sooner than a kernel is loaded
                first, second = np.nonzero((held[:, None] & bits) == 0)
                value = before[m, held[first]] + cost[second]
                np.minimum.at(after[m + moves], held[first] | bits[second], np.where(value <= most, value, np.inf))
                spent = 5.0 * held.size * bits.size
            else:
                spent = extend(before[m], bits, cost, table, most, after[m + moves], most_steps - steps)
            steps += spent
            budget.spend(500 + spent / 70)
            if steps > most_steps or budget.expired:
                return None
    least = after[0]
    for row in after[1:]:  # what costs no less with more moves is of no use
        row[row >= least] = np.inf
        least = np.minimum(least, row)
    return after


@njit(cache=True, nogil=True)
def extend(before, bits, cost, table, most, after, most_steps):
    """f after one node more, where it is less than in `after`; the steps it took, more than `most_steps` where it was left.

    `table` has the cost of every set, infinite for those that the node may not take.
    """
    full, steps = before.size - 1, 0
    for held in range(before.size):
        if before[held] > most:
            continue
        free, left = full ^ held, 1
        rest = free
        while rest > 0 and left < bits.size:
            rest &= rest - 1
            left *= 2
        if left < bits.size:
            some = free
            while True:
                value = before[held] + table[some]
                if value <= most and value < after[held | some]:
                    after[held | some] = value
                if some == 0:
                    break
                some = (some - 1) & free
            steps += left
        else:
            for s in range(bits.size):
                some = bits[s]
                if some & held == 0:
                    value = before[held] + cost[s]
                    if value <= most and value < after[held | some]:
                        after[held | some] = value
            steps += bits.size
        if steps > most_steps:
            return steps
    return steps

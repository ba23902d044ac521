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
    """The sets that a node may take, or what some nodes hold together."""

    bits: IntArray
    """A bit for each key group, shape (sets,)."""
    cost: FloatArray
    """What each costs, at least 0, shape (sets,)."""
    moves: IntArray
    """How many moves it is, shape (sets,)."""

    def take(self, some: np.ndarray) -> FittingSets:
        """Some of them."""
        return FittingSets(*(one[some] for one in self))


def cheapest_cover(
    sets: Sequence[FittingSets],
    size: int,
    most: float,
    most_moves: int,
    most_steps: float,
    budget: Budget,
    owed: tuple[IntArray, FloatArray] | None = None,
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
    owed : tuple of ndarray, optional
        The key groups that each node has now, as bits, and what each set of key groups costs at least where it has not been.

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
    halves, made = (order[::2], order[1::2]), list[list[FittingSets]]()
    for half in halves:
        none = np.zeros(1, dtype=np.int64)
        held, others, had = [FittingSets(none, np.zeros(1), none)], float(least.sum()), 0
        for i in half:
            others -= float(least[i])
            after = _with_node(held[-1], sets[i], size, most - others, most_moves, most_steps, budget)
            if after is None:
                return False, None
            if owed is not None:  # what these nodes had and do not hold costs something elsewhere
                had |= int(owed[0][i])
                after = after.take(after.cost + owed[1][had & ~after.bits] <= most)
            held.append(after)
        made.append(held)
    first, second = made[0][-1], made[1][-1]
    table = np.minimum.accumulate(_table(second, size, most_moves), axis=0)
    both = first.cost + table[most_moves - first.moves, size - 1 - first.bits]  # what is left of moves and key groups
    if not both.size or both[at := int(both.argmin())] > most:
        return True, None
    bits, moves = int(first.bits[at]), int(first.moves[at])
    left = int(table[: most_moves - moves + 1, size - 1 - bits].argmin())
    chosen = [0] * len(sets)
    for half, held, (taken, spent) in zip(halves, made, ((bits, moves), (size - 1 - bits, left)), strict=True):
        for i, before in zip(half[::-1], held[-2::-1], strict=True):
            some = sets[i]
            inside = np.flatnonzero(((some.bits & ~taken) == 0) & (some.moves <= spent))
            known, wanted = (_number(one, most_moves) for one in (before, some))
            wanted = taken * (most_moves + 1) + spent - wanted[inside]
            found = np.minimum(np.searchsorted(known, wanted), known.size - 1)
            costs = np.where(known[found] == wanted, before.cost[found], np.inf) + some.cost[inside]
            best = inside[int(costs.argmin())]
            chosen[i] = int(some.bits[best])
            taken, spent = taken ^ chosen[i], spent - int(some.moves[best])
    return True, chosen


def _number(sets: FittingSets, most_moves: int) -> IntArray:
    """A number for what is held in so many moves."""
    return sets.bits * (most_moves + 1) + sets.moves


def _table(sets: FittingSets, size: int, most_moves: int) -> FloatArray:
    """What every set costs with so many moves, infinite where there is none, shape (most_moves + 1, size)."""
    table = np.full((most_moves + 1, size), np.inf)
    table[sets.moves, sets.bits] = sets.cost
    return table


def _with_node(
    before: FittingSets, sets: FittingSets, size: int, most: float, most_moves: int, most_steps: float, budget: Budget
) -> FittingSets | None:
    """f after one node more, in order of their numbers; None where it takes too many steps."""
    pairs = before.bits.size * sets.bits.size
    if pairs <= 2**18:  # sooner than a kernel is loaded, and than tables are gone through
        first, second = np.nonzero((before.bits[:, None] & sets.bits) == 0)
        after = FittingSets(
            before.bits[first] | sets.bits[second], before.cost[first] + sets.cost[second],
            before.moves[first] + sets.moves[second],
        )  # fmt: skip
        fits = (after.cost <= most) & (after.moves <= most_moves)
        after, steps = after.take(fits), 5.0 * pairs
    else:
        steps, known, made = 0.0, _table(before, size, most_moves), np.full((most_moves + 1, size), np.inf)
        for moves in np.unique(sets.moves[sets.moves <= most_moves]).tolist():
            some = sets.moves == moves
            bits, cost = sets.bits[some], sets.cost[some]
            table = np.full(size, np.inf)
            table[bits] = cost
            for m in range(most_moves + 1 - moves):
                steps += extend(known[m], bits, cost, table, most, made[m + moves], most_steps - steps)
                if steps > most_steps:
                    break
        spent, held = np.nonzero(np.isfinite(made))
        after = FittingSets(held, made[spent, held], spent)
    budget.spend(500 + steps / 70)
    if steps > most_steps or budget.expired:
        return None
    number = _number(after, most_moves)
    order = np.lexsort((after.cost, number))
    first_of = np.diff(number[order], prepend=-1) > 0
    after = after.take(order[first_of])
    if most_moves == 0:
        return after
    least, useful = np.full(size, np.inf), np.zeros(after.bits.size, dtype=bool)
    for m in range(most_moves + 1):  # what costs no less with more moves is of no use
        at = np.flatnonzero(after.moves == m)
        at = at[after.cost[at] < least[after.bits[at]]]
        useful[at], least[after.bits[at]] = True, after.cost[at]
    return after.take(useful)


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

r"""A term of the search and the move that suits it: the sum of squares over many windows.

With the second moment :math:`C = Y' Y` of the loads of shape (m, p), and :math:`P_{ik} = \sum_{q \text{ on } i} C_{qk}`, a key
group k that goes from node a to b changes the sum of squares of all loads by

.. math:: (1) \quad 2 \, (P_{bk} - P_{ak} + C_{kk}),

whatever the number of windows m. All moves of one key group, and its swaps with all others, are weighed in O(p), each by its own
noise: a nanosecond or two for each, where a step that is drawn by itself takes a hundred.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit, overwrite, whole_below
from keyshift.models.base.compiling import uniform as draw
from keyshift.models.workload import FloatArray
from keyshift.solvers.rows import sum_rows
from keyshift.solvers.search.moves import send
from keyshift.solvers.search.program import Placing

DRAWN = 2048
"""Exponential numbers drawn beforehand, from which every step takes its noise at a random place."""


class SecondMoments(NamedTuple):
    """The second moment, and what follows from it where a search stands; the last three are room to reckon in."""

    moment: FloatArray
    """C, shape (p, p)."""
    move_cost: FloatArray
    """What each key group takes of the budget on each node, shape (n, p)."""
    budget: int
    """The row that limits the sum of these, -1 where there is none."""
    closed: FloatArray
    """Infinite where a key group may not run, else 0, shape (n, p)."""
    products: FloatArray
    """P, infinite where a key group may not run, shape (n, p)."""
    own: FloatArray
    """A key group's entry in the row of its own node, without itself, shape (p,)."""
    away: FloatArray
    """What each key group takes of the budget where it is, shape (p,)."""
    gained: FloatArray
    """By how much the sum of squares has changed since the search began, shape (1,)."""
    noise: FloatArray
    """Exponential random numbers, shape (DRAWN + p + n,)."""
    wide: FloatArray
    """Among how many key groups swaps are looked at now: where steps pass often, fewer, shape (1,)."""
    there: FloatArray
    """Entries of one key group in the rows of all nodes, shape (n,)."""
    cost: FloatArray
    """What it takes more of the budget on each node, shape (n,)."""
    worth: FloatArray
    """Half of what each step is worth, shape (p,)."""

    @classmethod
    def of(cls, placing: Placing, moment: FloatArray, move_cost: FloatArray, limited: bool) -> SecondMoments:
        """Those of a program's items; where the budget binds, it is the last of its rows about moves.

        Parameters
        ----------
        placing : Placing
        moment : ndarray, shape (p, p)
        move_cost : ndarray, shape (n, p)
            In the units of that row.
        limited : bool
        """
        it = placing.program
        n, p = it.enter.shape[1], it.current.size
        open_ = it.enter[it.kind].T | ((np.arange(n)[:, None] == it.current) & it.stay)
        budget = int(it.rows.offset[np.flatnonzero(it.rows.moves)[-1]]) if limited else -1
        return cls(
            moment, np.ascontiguousarray(move_cost), budget, np.where(open_, 0.0, np.inf), np.zeros((n, p)), np.zeros(p),
            np.zeros(p), np.zeros(1), np.zeros(DRAWN + p + n), np.zeros(1), np.zeros(n), np.zeros(n), np.zeros(p),
        )  # fmt: skip


@njit(**LEAF)
def sum_squares(rng, s, program, state):
    """All sums anew, from the places, and fresh noise."""
    place = state.placed.place
    state.broken[0] = sum_rows(state.held, place, program.rows)[0]
    for i in range(s.there.size):
        overwrite(s.products[i], s.closed[i])
    for k in range(place.size):
        row, of_k = s.products[place[k]], s.moment[k]
        for j in range(place.size):
            row[j] += of_k[j]
    for k in range(place.size):
        s.own[k] = s.products[place[k], k] - s.moment[k, k]
        s.away[k] = s.move_cost[place[k], k]
    for x in range(s.noise.size):
        s.noise[x] = -np.log(1.0 - draw(rng))
    s.gained[0], s.wide[0] = 0.0, float(place.size)


@njit(**LEAF)
def rise_of_squares(count, step, s, place):
    """By how much a step of so many shifts raises the sum of squares: (1) for each, after those before it."""
    rise = 0.0
    for x in range(count):
        k, target = step.who[x], step.where[x]
        source = place[k]
        change = s.products[target, k] - s.own[k]
        for e in range(x):  # those that have moved just before
            before, after, together = place[step.who[e]], step.where[e], s.moment[k, step.who[e]]
            change += together * (1.0 * (after == target) - 1.0 * (before == target))
            change -= together * (1.0 * (after == source) - 1.0 * (before == source))
        rise += 2.0 * change
    return rise


@njit(**LEAF)
def carry_squares(count, step, rise, s, place):
    """Carry a step out; its rows have been carried over."""
    for x in range(count):
        k, target = step.who[x], step.where[x]
        source = place[k]
        of_k, left, entered = s.moment[k], s.products[source], s.products[target]
        for j in range(place.size):
            left[j] -= of_k[j]
            entered[j] += of_k[j]
            s.own[j] += of_k[j] * (1.0 * (place[j] == target) - 1.0 * (place[j] == source))
        s.away[k] = s.move_cost[target, k]
    for x in range(count):
        k, target = step.who[x], step.where[x]
        s.own[k], place[k] = s.products[target, k] - s.moment[k, k], target
    s.gained[0] += rise


@njit(**LEAF)
def scan(s, k):
    """Set up the searches for a step of k: its product with each node's load, and what it would take of the budget."""
    for i in range(s.there.size):
        s.there[i] = s.products[i, k]
        s.cost[i] = s.move_cost[i, k] - s.away[k]


@njit(fastmath={"nnan", "nsz", "contract", "reassoc"}, **LEAF)
def best_swap(s, k, low, high, room, paid, heat, noise, place):
    """Of all moves of k and its swaps with low .. high - 1, the one that the noise lets through most easily: to where, with whom.

    A step that changes half of the sum by `change` passes where change < heat * noise, with noise exponentially distributed
    [Metropolis1953]. (-1, -1) where none does; who is -1 for a move.
    """
    a, p, limited = place[k], place.size, room < np.inf
    of_k, here, over, here_too = s.moment[k], s.products[a], max(-room, 0.0), s.move_cost[a]
    s.there[a] = np.inf
    least = 0.0
    for q in range(low, high):
        worth = s.there[place[q]] - s.own[k] + here[q] - s.own[q] - 2.0 * of_k[q] - heat * noise[q]
        if limited:
            cost = s.cost[place[q]] - s.away[q] + here_too[q]
            worth += paid * (max(cost - room, 0.0) - over)
        s.worth[q] = worth
        least = min(least, worth)
    target, other = -1, -1
    for i in range(s.there.size):
        worth = (
            s.there[i]
            - s.own[k]
            - heat * noise[p + i]
            + (paid * (max(s.cost[i] - room, 0.0) - over) if limited else 0.0)
        )
        if worth < least:
            least, target = worth, i
    if target < 0 and least < 0.0:
        other = low
        while s.worth[other] != least:
            other += 1
        target = place[other]
    return target, other


@njit(fastmath={"nnan", "nsz", "contract", "reassoc"}, **LEAF)
def best_return(s, k, b, low, high, room, paid, heat, noise, place, current):
    """The same for k going to node b while another key group returns to its current node, which frees budget."""
    a, over = place[k], max(-room, 0.0)
    if b == a:
        return -1, -1
    of_k, alone, left = s.moment[k], s.there[b] - s.own[k], room - s.cost[b]
    least = 0.0
    for q in range(low, high):
        c, d = place[q], current[q]
        both = 1.0 * (b == d) - 1.0 * (b == c) - 1.0 * (a == d) + 1.0 * (a == c)
        worth = alone + s.products[d, q] - s.own[q] + of_k[q] * both - heat * noise[q]
        worth += paid * (max(-s.away[q] - left, 0.0) - over)
        s.worth[q] = worth if c != d and q != k else np.inf
        least = min(least, s.worth[q])
    if least >= 0.0:
        return -1, -1
    other = low
    while s.worth[other] != least:
        other += 1
    return b, other


@njit(**LEAF)
def best_neighbour(rng, heat, price, s, step, program, state):
    """The best step of a key group that is drawn; how many shifts, 0 where none passes, and how far it may raise what counts."""
    place = state.placed.place
    p, nodes = place.size, s.there.size
    k, noise = whole_below(rng, p), s.noise[whole_below(rng, DRAWN) :]
    parts = p // int(s.wide[0])
    part = whole_below(rng, parts)
    low, high = part * p // parts, (part + 1) * p // parts
    room = program.rows.most[s.budget] - state.held[s.budget] if s.budget >= 0 else np.inf
    paid = 0.5 * min(price, 1e100)  # an infinite price cannot be multiplied by nothing
    scan(s, k)
    back = s.budget >= 0 and draw(rng) < 0.25
    if back:
        target, other = best_return(
            s, k, whole_below(rng, nodes), low, high, room, paid, 0.5 * heat, noise, place, program.current
        )
    else:
        target, other = best_swap(s, k, low, high, room, paid, 0.5 * heat, noise, place)
    if target < 0:
        s.wide[0] = min(1.02 * s.wide[0], float(p))
        return 0, 0.0
    s.wide[0] = max(0.97 * s.wide[0], min(16.0, float(p)))
    count = send(k, target, 0, step)
    if other < 0:
        return count, heat * noise[p + target]
    return send(other, program.current[other] if back else place[k], count, step), heat * noise[other]

"""The moves of the compiled local search, and what they read and write.

A move writes the shifts it wants into a `Proposal` and returns how many they are: 0 when the draw leads nowhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.kernels import uniform, whole_below
from keyshift.solvers.rows import RuleRows, giving_way

MOST = 8
"""Shifts of a move."""
CLUSTER = 4
"""Key groups that relocate together, at most: the shifts left are for those that go back to make room."""


class Goal(NamedTuple):
    """The worth of the t rows of collocated traffic together: less (15) of `CollocatedAllocation`, in shares of traffic."""

    apart: FloatArray
    """(14) were all traffic remote, shape (t,)."""
    most: FloatArray
    """The largest weight of each window."""
    worst: bool
    """Whether the worst window counts alone."""
    blend: float
    """In the search itself, the share of the mean: the worst windows alone say nothing of most moves."""


class ShiftData(NamedTuple):
    """The data that a search never changes: the instance, as in `keyshift.solvers.collocation.arrays.Arrays`."""

    current: IntArray
    allowed: BoolArray
    remote_load: FloatArray
    remote: FloatArray
    """Load of the whole system were all traffic remote, in each of k windows."""
    cost: FloatArray
    fixed: bool
    """Whether remote traffic costs nothing: then no move changes the limits."""
    goal: Goal
    indptr: IntArray
    neighbour: IntArray
    weight: FloatArray
    first: IntArray
    second: IntArray
    by_weight: IntArray
    """Pairs, each as often as its share of the traffic: heavy tails are met as often as they matter."""
    upper_share: FloatArray
    upper_extra: FloatArray
    lower_share: FloatArray
    lower_extra: FloatArray
    max_moves: int
    move_cost: FloatArray
    use: FloatArray
    capacity: FloatArray
    rows: RuleRows | None
    """The rules' rows: sums over key groups."""
    shares: FloatArray
    """Cumulative shares of joins and relocations, then the share of joins that exchange; the rest are swaps."""


class ShiftState(NamedTuple):
    """Where a search stands."""

    a: IntArray
    """The assignment, shape (p,)."""
    load: FloatArray
    """Shape (k, n)."""
    used: FloatArray
    on_node: FloatArray
    """Traffic of each key group with each node, shape (t, p, n)."""
    together: FloatArray
    """Collocated traffic, shape (t,)."""
    sums: FloatArray
    """Moves, cost of the moves; nodes at which something is broken, and by how much in all."""
    excess: FloatArray
    """By how much (7), (8) and (9) are broken at each node, shape (n,)."""
    movers: IntArray
    """The key groups that have moved, in front, shape (p,); `place` says where each stands there."""
    place: IntArray
    away: IntArray
    """How many they are, shape (1,)."""
    held: FloatArray | None
    """The sum in each of the rules' rows."""
    broken: FloatArray
    """By how much the rows are exceeded in all, shape (1,)."""


class Proposal(NamedTuple):
    """A proposed move: key group ``who[s]`` on node ``where[s]``, up to `MOST` of them."""

    who: IntArray
    where: IntArray
    lost: FloatArray
    """Traffic with the node that it leaves, and `won` with the one that it comes to, after the shifts before, shape (t, MOST)."""
    won: FloatArray


class Before(NamedTuple):
    """The state that a rejected proposal restores."""

    together: FloatArray
    sums: FloatArray
    excess: FloatArray
    """Of all nodes, or of the proposal's own, one after the other."""


@njit(**LEAF)
def join(rng, wanted, data, a):
    """One end of a pair goes to the node of the other; now and then somebody there comes the other way."""
    e = drawn_pair(rng, data)
    k, other = (data.first[e], data.second[e]) if uniform(rng) < 0.5 else (data.second[e], data.first[e])
    wanted.who[0], wanted.where[0] = k, a[other]
    if uniform(rng) < data.shares[2]:
        m = whole_below(rng, a.size)
        if m != k and m != other and a[m] == a[other]:
            wanted.who[1], wanted.where[1] = m, a[k]
            return 2
    return 1


@njit(**LEAF)
def drawn_pair(rng, data):
    """A pair: any, or by weight."""
    return (
        whole_below(rng, data.first.size)
        if uniform(rng) < 0.6
        else data.by_weight[whole_below(rng, data.by_weight.size)]
    )


@njit(**LEAF)
def relocate(rng, wanted, data, state):
    """A key group, or a cluster grown from a pair, goes to any node, or to that of all others where most of its traffic is."""
    a, nodes, draw = state.a, state.on_node.shape[2], uniform(rng)
    wanted.who[0], target, count = whole_below(rng, a.size), whole_below(rng, nodes), 1
    if draw < 0.3 and data.first.size > 0:
        e = drawn_pair(rng, data)
        wanted.who[0], wanted.who[1], count = data.first[e], data.second[e], 2
        while count < CLUSTER and uniform(rng) < 0.5:
            count = with_neighbour(rng, count, wanted, data)
    if draw < 0.7:
        most = -1.0
        for i in range(nodes):
            here = 0.0
            for s in range(count):
                for t in range(state.together.size):
                    here += state.on_node[t, wanted.who[s], i]
                if a[wanted.who[s]] == i:
                    here = -np.inf
            if here > most:
                target, most = i, here
    for s in range(count):
        wanted.where[s] = target
    return count


@njit(**LEAF)
def with_neighbour(rng, count, wanted, data):
    """One of a cluster brings a neighbour along, of two the one that it talks to more; how many they are then."""
    k = wanted.who[whole_below(rng, count)]
    low, degree = data.indptr[k], data.indptr[k + 1] - data.indptr[k]
    j, other = low + whole_below(rng, degree), low + whole_below(rng, degree)
    if data.weight[0, other] > data.weight[0, j]:
        j = other
    for s in range(count):
        if wanted.who[s] == data.neighbour[j]:
            return count
    wanted.who[count] = data.neighbour[j]
    return count + 1


@njit(**LEAF)
def swap(rng, wanted, a):
    """Two key groups exchange their nodes."""
    k, m = whole_below(rng, a.size), whole_below(rng, a.size)
    wanted.who[0], wanted.where[0], wanted.who[1], wanted.where[1] = k, a[m], m, a[k]
    return 2


@njit(**LEAF)
def lost_by_return(k, data, state):
    """The traffic that key group k no longer meets when it goes back."""
    lost = 0.0
    for t in range(state.together.size):
        lost += state.on_node[t, k, state.a[k]] - state.on_node[t, k, data.current[k]]
    return lost


@njit(**LEAF)
def make_room(rng, count, moves, wanted, data, state):
    """Where a move would be too many, others go back as well: of two, mostly who loses less by it."""
    if state.away[0] == 0:
        return 0
    while moves > data.max_moves:
        if count == wanted.who.size:
            return 0
        k, other = state.movers[whole_below(rng, state.away[0])], state.movers[whole_below(rng, state.away[0])]
        if uniform(rng) < 0.7 and lost_by_return(other, data, state) < lost_by_return(k, data, state):
            k = other
        for s in range(count):
            if wanted.who[s] == k:
                return 0
        wanted.who[count], wanted.where[count] = k, data.current[k]
        count, moves = count + 1, moves - 1
    return count


@njit(**LEAF)
def give_way(held, rng, count, wanted, data, a):
    """Where one key group fills a row of the rules beyond its most, another gives way; how many shifts then."""
    if held is None:
        return count
    if count != 1:
        return count
    other, to = giving_way(rng, wanted.who[0], wanted.where[0], held, a, data)
    if other < 0:
        return count
    wanted.who[1], wanted.where[1] = other, to
    return 2


@njit(**LEAF)
def propose(rng, wanted, data, state):
    """Draw a move; how many shifts it takes, 0 when the draw leads nowhere or the move is not allowed."""
    a, shares, draw = state.a, data.shares, uniform(rng)
    if draw < shares[0] and data.first.size > 0:
        count = join(rng, wanted, data, a)
    elif draw < shares[1]:
        count = relocate(rng, wanted, data, state)
    else:
        count = swap(rng, wanted, a)
    count = give_way(state.held, rng, count, wanted, data, a)
    moves = state.sums[0]
    for s in range(count):
        k, target = wanted.who[s], wanted.where[s]
        if not data.allowed[k, target] or target == a[k]:
            return 0
        moves += int(target != data.current[k]) - int(a[k] != data.current[k])
    return make_room(rng, count, moves, wanted, data, state) if moves > data.max_moves else count

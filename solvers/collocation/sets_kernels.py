"""Compiled depth-first search for the sets of key groups of most worth that a node can carry.

A set S is worth ``sum own[k] + sum talk[k, l]`` over its members and its pairs. The worth of a pair that is not decided is
split between its ends. Then no key group can bring more than its own worth, its talk with the set, and its part of the talk with
those neighbours that fit beside it; and no completion more than those key groups bring that fit together: knapsacks within
knapsacks [Caprara1999], relaxed to fractions, row by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray

DONE, PAUSED, FULL = 0, 1, 2


class SetData(NamedTuple):
    """Data that the search does not change."""

    own: FloatArray
    """The worth of each key group by itself, (p,)."""
    talk: FloatArray
    """The worth of each pair, (p, p), symmetric."""
    split: FloatArray
    """Each end's part of it: ``split[k, l] + split[l, k] == talk[k, l]``."""
    neighbours: IntArray
    """For each row and key group those it talks with, the most for their use first; -1 behind the last, (rows, p, p)."""
    use: FloatArray
    """Of each limit, in units of it, (rows, p)."""
    least: FloatArray
    """How much of the first limit a set uses at least; what else it must hold, (1 + windows,)."""
    weight: FloatArray
    """In these units, (windows, p)."""
    leaving: FloatArray
    """What leaving a key group out takes of the room, (2, p)."""
    room: FloatArray
    lean: float
    """Key groups are decided by their worth and so many times their neighbours' part."""


class SetSearch(NamedTuple):
    """Where the search stands: a row for each key group that was taken in."""

    worth: FloatArray
    """Of each key group with the set so far, (p + 1, p)."""
    part: FloatArray
    """No more comes from neighbours that are not decided, (p + 1, p)."""
    open: BoolArray
    """Not decided, (p + 1, p)."""
    free: FloatArray
    """What is left of each limit, (p + 1, rows)."""
    held: FloatArray
    """(p + 1, windows)."""
    left_out: FloatArray
    """(p + 1, 2)."""
    value: FloatArray
    """The set's worth so far, (p + 1,)."""
    chosen: IntArray
    """The key group that is tried in the set, and then outside, (p + 1,)."""
    bits: np.ndarray
    """The set so far, (p + 1,)."""
    at: IntArray
    """The row, -1 at the end; 1 where its set is new; how many were found; how many nodes the tree had."""
    wanted: FloatArray
    """Sets of less worth are not wanted, (1,)."""
    found: np.ndarray
    found_value: FloatArray
    rank: IntArray
    """The key groups that are not decided, those that bring most for their use first, (p + 1, p)."""
    listed: IntArray
    """How many these are, (p + 1,)."""
    total: FloatArray
    """Scratch: the most that each key group brings, (p,)."""
    rate: FloatArray
    """Scratch: what it brings for its use, (p,)."""


@njit(**LEAF)
def part_of_neighbours(k, open_, free, data):
    """The most that neighbours which are not decided bring to a key group: least over the limits."""
    best = np.inf
    for r in range(free.size):
        left, total = free[r] - data.use[r, k], 0.0
        for place in range(data.own.size):
            l = data.neighbours[r, k, place]
            if l < 0:
                break
            if open_[l]:
                needed = data.use[r, l]
                if needed > left:
                    total += data.split[k, l] * left / needed
                    break
                left -= needed
                total += data.split[k, l]
        best = min(best, total)
    return best


@njit(**LEAF)
def most_together(count, rank, use, free, need, state):
    """The most that key groups bring which fit together and use what they need, and the price of a unit at which they do."""
    total, rate = state.total, state.rate
    for j in range(count):
        k, place = rank[j], j
        own = total[k] / use[k] if use[k] > 0 else np.inf if total[k] > 0 else -np.inf
        rate[k] = own
        while place > 0 and rate[rank[place - 1]] < own:
            rank[place] = rank[place - 1]
            place -= 1
        rank[place] = k
    value, held, price = 0.0, 0.0, 0.0
    for j in range(count):
        k = rank[j]
        most = free if total[k] > 0 else need
        if total[k] <= 0 and held >= need:
            break
        if held + use[k] > most:
            return value + rate[k] * (most - held), rate[k]
        held += use[k]
        value += total[k]
        price = min(0.0, rate[k])
    return value, price


@njit(**LEAF)
def bound_of(depth, data, state):
    """A bound on the worth of all completions, the row of limits that gives it, and its price."""
    best, row, price = np.inf, 0, 0.0
    for r in range(data.use.shape[0]):
        need = data.least[0] - (1.0 - state.free[depth, 0]) if r == 0 else 0.0
        room = max(state.free[depth, r], 0.0)
        found, paid = most_together(state.listed[depth], state.rank[depth], data.use[r], room, need, state)
        if found < best:
            best, row, price = found, r, paid
    return state.value[depth] + best, row, price


@njit(**LEAF)
def leave_out(k, depth, data, state):
    """Decide that a key group is not in the set."""
    state.open[depth, k] = False
    for r in range(2):
        state.left_out[depth, r] += data.leaving[r, k]


@njit(**LEAF)
def can_go_on(depth, data, state):
    """Leave out the key groups that do not fit any more; whether the set's limits can still be kept."""
    count, rank = 0, state.rank[depth]
    for j in range(state.listed[depth]):
        k, fits = rank[j], state.open[depth, rank[j]]
        for r in range(data.use.shape[0]):
            fits = fits and data.use[r, k] <= state.free[depth, r]
        if fits:
            rank[count] = k
            count += 1
        elif state.open[depth, k]:
            leave_out(k, depth, data, state)
    state.listed[depth] = count
    kept = state.left_out[depth, 0] <= data.room[0] and state.left_out[depth, 1] <= data.room[1]
    for s in range(data.weight.shape[0]):
        reach = state.held[depth, s]
        for j in range(count):
            reach += data.weight[s, rank[j]]
        kept = kept and reach >= data.least[1 + s]
    return kept


@njit(**LEAF)
def is_set(depth, data, state):
    """Whether the key groups taken in are a set by themselves."""
    for r in range(2):
        left_out = state.left_out[depth, r]
        for j in range(state.listed[depth]):
            left_out += data.leaving[r, state.rank[depth, j]]
        if left_out > data.room[r]:
            return False
    enough = True
    for s in range(data.weight.shape[0]):
        enough = enough and state.held[depth, s] >= data.least[1 + s]
    return enough


@njit(**LEAF)
def take_in(k, depth, data, state):
    """Go on with a key group in the set, one row further."""
    after = depth + 1
    state.chosen[depth] = k
    state.value[after] = state.value[depth] + state.worth[depth, k]
    state.bits[after] = state.bits[depth] | (np.uint64(1) << np.uint64(k))
    for l in range(data.own.size):
        state.worth[after, l] = state.worth[depth, l] + data.talk[k, l]
        state.part[after, l] = state.part[depth, l]
        state.open[after, l] = state.open[depth, l]
        state.rank[after, l] = state.rank[depth, l]
    state.open[after, k] = False
    state.listed[after] = state.listed[depth]
    for r in range(data.use.shape[0]):
        state.free[after, r] = state.free[depth, r] - data.use[r, k]
    for s in range(data.weight.shape[0]):
        state.held[after, s] = state.held[depth, s] + data.weight[s, k]
    for r in range(2):
        state.left_out[after, r] = state.left_out[depth, r]
    state.at[0], state.at[1] = after, 1


@njit(**LEAF)
def next_key_group(depth, data, state):
    """The key group that is decided next; those that are in no wanted set are left out. -1: there is no such set."""
    if not can_go_on(depth, data, state):
        return -1
    if state.at[1] and state.value[depth] >= state.wanted[0] and is_set(depth, data, state):
        state.found[state.at[2]], state.found_value[state.at[2]] = state.bits[depth], state.value[depth]
        state.at[2] += 1
    state.at[1] = 0
    best, most, rank = -1, -np.inf, state.rank[depth]
    for again in range(2):  # with what was known of neighbours, then with what is known now
        for j in range(state.listed[depth]):
            k = rank[j]
            if again:
                state.part[depth, k] = part_of_neighbours(k, state.open[depth], state.free[depth], data)
            state.total[k] = state.worth[depth, k] + state.part[depth, k]
        bound, row, price = bound_of(depth, data, state)
        if bound < state.wanted[0]:
            return -1
        count, best, most = 0, -1, -np.inf
        for j in range(state.listed[depth]):
            k = rank[j]
            if bound + min(0.0, state.total[k] - price * data.use[row, k]) < state.wanted[0]:
                leave_out(k, depth, data, state)
                continue
            rank[count] = k
            count += 1
            promise = state.worth[depth, k] + data.lean * state.part[depth, k]
            if promise > most:
                best, most = k, promise
        state.listed[depth] = count
    return best


@njit(nogil=True, **LEAF)
def sets_above(most_nodes, data, state):
    """All sets of at least some worth: go on for so many nodes of the tree, or until no more can be noted down."""
    for _ in range(most_nodes):
        depth = state.at[0]
        if depth < 0:
            return DONE
        if state.at[2] == state.found.size:
            return FULL
        state.at[3] += 1
        k = next_key_group(depth, data, state)
        if k >= 0:
            take_in(k, depth, data, state)
            continue
        state.at[0] = depth - 1
        if depth > 0:
            leave_out(state.chosen[depth - 1], depth - 1, data, state)
    return PAUSED

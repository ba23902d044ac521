"""The annealing itself: see `keyshift.solvers.allocation.annealing.search`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.move_kernels import accept, propose
from keyshift.solvers.allocation.annealing.state_kernels import goes_nowhere, power, refresh, unchanged
from keyshift.solvers.random_kernels import uniform as draw
from keyshift.solvers.row_kernels import make_room, row_change

KEPT = 1e-6
"""Rows are exceeded by no less than this, or by what rounding adds."""


class Touched(NamedTuple):
    """The nodes that a move touches - at most four for each of two slots - and what it would do to them."""

    nodes: IntArray
    change: FloatArray
    extra: FloatArray
    fresh: FloatArray
    """Their values after the move."""


@njit(**LEAF)
def carry(k, node, sign, count, touched, data):
    """Note that key group k comes to (sign = 1) or leaves (-1) a node; how many nodes are noted then."""
    at = 0
    while at < count and touched.nodes[at] != node:
        at += 1
    if at == count:
        touched.nodes[at] = node
        touched.change[at] = 0.0
        for r in range(data.use.shape[0]):
            touched.extra[r, at] = 0.0
        count += 1
    touched.change[at] += sign * data.load[k]
    for r in range(data.use.shape[0]):
        touched.extra[r, at] += sign * data.use[r, k]
    return count


@njit(**LEAF)
def touch(steps, edit, touched, data, state):
    """Note all that a move changes; how many nodes, 0 where it breaks a limit or leads nowhere."""
    count, spent = 0, 0.0
    for s in range(steps):
        if edit.slots[s] < state.tally[0]:
            k = state.moves[0, edit.slots[s]]
            count = carry(k, data.current[k], 1.0, count, touched, data)
            count = carry(k, state.moves[1, edit.slots[s]], -1.0, count, touched, data)
            spent -= data.cost[k]
        k, target = edit.keys[s], edit.targets[s]
        if k >= 0:
            if goes_nowhere(k, target, data):
                return 0
            count = carry(k, data.current[k], -1.0, count, touched, data)
            count = carry(k, target, 1.0, count, touched, data)
            spent += data.cost[k]
    return 0 if spent > 0.0 and state.tally[1] + spent > data.max_cost else count


@njit(**LEAF)
def after(c, touched, data, state):
    """The value of a touched node after the move."""
    i = touched.nodes[c]
    v = state.dev[i] + touched.change[c] * data.weight[i]
    least = unchanged(i, v, data)
    v = max(max(v, 0.0) if data.draining[i] else abs(v), least)
    for r in range(data.use.shape[0]):
        over = state.used[r, i] + touched.extra[r, c] - data.room[r, i]
        if over > 0.0:
            v += data.bump + over / (data.room[r, i] if data.room[r, i] > 0 else 1.0)
    return v


@njit(**LEAF)
def at_least(level, value):
    """How many nodes have a value of a level or more."""
    count = 0
    for i in range(value.size):
        count += value[i] >= level
    return count


@njit(**LEAF)
def keep(best_moves, state):
    """Note the migrations as the best; the largest value of a node."""
    m = int(state.tally[0])
    for x in range(m):
        best_moves[0, x], best_moves[1, x] = state.moves[0, x], state.moves[1, x]
    best_moves[0, -1] = best_moves[1, -1] = m
    largest = state.value[0]
    for i in range(state.value.size):
        largest = max(largest, state.value[i])
    return largest


@njit(**LEAF)
def anneal(rng, iterations, doublings, hot, cold, best_moves, best_value, edit, touched, data, state):
    """Anneal sum((value / best_value) ** 2 ** doublings); `best_moves` keeps the migrations of least largest value.

    Temperatures are in units of one node at the best value. Returns the least largest value met, `best_value` when
    none was better; ``best_moves[:, -1]`` then holds how many migrations there are.
    """
    value = state.value
    refresh(data, state)
    inverse = 1.0 / max(best_value, 1e-9)  # small enough to tell, large enough for no power to overflow
    above = at_least(best_value, value)
    broken = power(data.bump * inverse, doublings)  # what a unit in excess of a row counts for
    temperature, cooling = hot, (cold / hot) ** (1.0 / max(1, iterations))
    for _ in range(iterations):
        temperature *= cooling
        steps = propose(rng, edit, data, state)
        if state.held.size and steps:
            steps = make_room(rng, steps, edit, data, state)
        count = touch(steps, edit, touched, data, state)
        if count == 0:
            continue
        rise = 0.0
        for c in range(count):
            touched.fresh[c] = after(c, touched, data, state)
            rise += power(touched.fresh[c] * inverse, doublings) - power(value[touched.nodes[c]] * inverse, doublings)
        if state.held.size:
            rise += broken * row_change(steps, edit, data, state)
        if rise > 0.0 and rise > -temperature * np.log(1.0 - draw(rng)):
            continue
        for c in range(count):
            i = touched.nodes[c]
            above += int(touched.fresh[c] >= best_value) - int(value[i] >= best_value)
            value[i] = touched.fresh[c]
        accept(steps, edit, data, state)
        if above == 0 and state.tally[1] <= data.max_cost and state.tally[2] < KEPT:  # a plan may begin beyond it
            best_value = keep(best_moves, state)
            above = at_least(best_value, value)
    return best_value

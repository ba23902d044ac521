"""Annealing over several windows: the moves of `annealing.move_kernels`, valued window by window.

Moves are drawn by one load for each key group, as over one window. Whether one is taken is a matter of the energy

    sum over windows s of  most[s] * max(norm[s] - level, 0),    norm[s] = (sum over nodes i of value[i, s] ** P) ** (1 / P)

with P a power of two: a smooth stand-in for (8) of `KeyGroupAllocation`, whose rows are the limit of large P. For the
worst window it is the sum of the powers themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.kernels import keep
from keyshift.solvers.allocation.annealing.move_kernels import accept, propose
from keyshift.solvers.allocation.annealing.state_kernels import excess, goes_nowhere, power, refresh
from keyshift.solvers.random_kernels import uniform as draw


class WindowData(NamedTuple):
    """The data that a search never changes."""

    loads: FloatArray
    """Shape (p, k)."""
    means: FloatArray
    most: FloatArray
    """The largest weight of each window in (8), shape (k,)."""
    worst: bool
    """Whether (8) is the worst window."""


class WindowState(NamedTuple):
    """Where a search stands."""

    dev: FloatArray
    """Deviations, shape (n, k)."""
    raised: FloatArray
    """Their powers, relative to the best distance, shape (n, k)."""
    total: FloatArray
    """Sums of the powers over the nodes, shape (k,)."""
    over: FloatArray
    """Penalties of broken capacities, shape (n,)."""


class TouchedWindows(NamedTuple):
    """The nodes that a move touches - at most four for each of two slots - and what it would do to them."""

    nodes: IntArray
    change: FloatArray
    """Shape (8, k)."""
    extra: FloatArray
    """Shape (r, 8)."""
    fresh: FloatArray
    """Their powers after the move, shape (8, k)."""
    total: FloatArray
    over: FloatArray


@njit(**LEAF)
def carry(k, node, sign, count, touched, data, wide):
    """Note that key group k comes to (sign = 1) or leaves (-1) a node; how many nodes are noted then."""
    at = 0
    while at < count and touched.nodes[at] != node:
        at += 1
    if at == count:
        touched.nodes[at] = node
        for s in range(wide.means.size):
            touched.change[at, s] = 0.0
        for r in range(data.use.shape[0]):
            touched.extra[r, at] = 0.0
        count += 1
    factor = sign * data.weight[node]
    for s in range(wide.means.size):
        touched.change[at, s] += factor * wide.loads[k, s]
    for r in range(data.use.shape[0]):
        touched.extra[r, at] += sign * data.use[r, k]
    return count


@njit(**LEAF)
def touch(steps, edit, touched, data, state, wide):
    """Note all that a move changes; how many nodes, 0 where it breaks a limit or leads nowhere."""
    count, spent = 0, 0.0
    for s in range(steps):
        k, target = edit.keys[s], edit.targets[s]
        if k >= 0 and goes_nowhere(k, target, data):
            return 0
    for s in range(steps):
        if edit.slots[s] < state.tally[0]:
            k = state.moves[0, edit.slots[s]]
            count = carry(k, data.current[k], 1.0, count, touched, data, wide)
            count = carry(k, state.moves[1, edit.slots[s]], -1.0, count, touched, data, wide)
            spent -= data.cost[k]
        k = edit.keys[s]
        if k >= 0:
            count = carry(k, data.current[k], -1.0, count, touched, data, wide)
            count = carry(k, edit.targets[s], 1.0, count, touched, data, wide)
            spent += data.cost[k]
    return 0 if spent > 0.0 and state.tally[1] + spent > data.max_cost else count


@njit(**LEAF)
def energy(total, over, level, unit, doublings, wide):
    """The energy of sums of powers, and what broken capacities add; in units of `unit`."""
    e = over
    for s in range(total.size):
        if wide.worst:
            e += total[s]
        else:
            norm = max(total[s], 0.0)
            for _ in range(doublings):
                norm = np.sqrt(norm)
            e += wide.most[s] * max(norm - level / unit, 0.0)
    return e


@njit(**LEAF)
def raised(v, draining, inverse, doublings):
    """The power of a deviation, upwards only when draining."""
    v = max(v, 0.0) if draining else abs(v)
    return power(v * inverse, doublings)


@njit(**LEAF)
def after(count, touched, inverse, doublings, data, state, here):
    """Note the powers after a move; what broken capacities count for then."""
    for s in range(touched.total.size):
        touched.total[s] = here.total[s]
    over = 0.0
    for c in range(count):
        i = touched.nodes[c]
        draining = data.draining[i]
        for s in range(touched.total.size):
            fresh = raised(here.dev[i, s] + touched.change[c, s], draining, inverse, doublings)
            touched.fresh[c, s] = fresh
            touched.total[s] += fresh - here.raised[i, s]
        v = 0.0
        for r in range(data.use.shape[0]):
            beyond = state.used[r, i] + touched.extra[r, c] - data.room[r, i]
            if beyond > 0.0:
                v += data.bump + beyond / (data.room[r, i] if data.room[r, i] > 0 else 1.0)
        touched.over[c] = v
        over += v - here.over[i]
    return over


@njit(**LEAF)
def restore(inverse, doublings, data, state, wide, here):
    """Sum everything anew: rounding drifts."""
    refresh(data, state)
    for s in range(wide.means.size):
        here.total[s] = 0.0
    for i in range(here.dev.shape[0]):
        for s in range(wide.means.size):
            here.dev[i, s] = -wide.means[s]
    for k in range(data.current.size):
        x = state.role[k]
        i = data.current[k] if x < 0 else state.moves[1, x]
        for s in range(wide.means.size):
            here.dev[i, s] += wide.loads[k, s] * data.weight[i]
    for i in range(here.dev.shape[0]):
        here.over[i] = excess(i, state.used, data)
        for s in range(wide.means.size):
            here.raised[i, s] = raised(here.dev[i, s], data.draining[i], inverse, doublings)
            here.total[s] += here.raised[i, s]


@njit(**LEAF)
def combined(largest, data, wide, here):
    """(8) for the deviations as they are: the least over t, which is one of the windows' distances, noted in `largest`, or 0."""
    for s in range(wide.means.size):
        largest[s] = 0.0
        for i in range(here.dev.shape[0]):
            v = here.dev[i, s]
            largest[s] = max(largest[s], v if data.draining[i] else abs(v))
    best = np.inf
    for at in range(-1, largest.size):
        t = largest[at] if at >= 0 else 0.0
        value = 0.0 if wide.worst else t
        for s in range(largest.size):
            value = max(value, largest[s]) if wide.worst else value + wide.most[s] * max(largest[s] - t, 0.0)
        best = min(best, value)
    return best


@njit(**LEAF)
def anneal(rng, schedule, best_moves, best_value, level, edit, touched, data, state, wide, here):
    """Anneal the energy; `best_moves` keeps the migrations of least (8). Returns that value.

    `schedule` holds steps, the doublings that make P, and the first and last temperature in units of the energy.
    """
    iterations, doublings, hot, cold = int(schedule[0]), int(schedule[1]), schedule[2], schedule[3]
    unit = max(best_value, 1e-9)
    inverse = 1.0 / unit
    restore(inverse, doublings, data, state, wide, here)
    over = 0.0
    for i in range(here.over.size):
        over += here.over[i]
    now = energy(here.total, over, level, unit, doublings, wide)
    least = now
    temperature, cooling = hot, (cold / hot) ** (1.0 / max(1, iterations))
    if over == 0.0 and state.tally[1] <= data.max_cost and combined(touched.total, data, wide, here) < best_value:
        keep(best_moves, state)
        best_value = combined(touched.total, data, wide, here)
    for _ in range(iterations):
        temperature *= cooling
        steps = propose(rng, edit, data, state)
        if steps == 0:
            continue
        count = touch(steps, edit, touched, data, state, wide)
        if count == 0:
            continue
        beyond = over + after(count, touched, inverse, doublings, data, state, here)
        then = energy(touched.total, beyond, level, unit, doublings, wide)
        rise = then - now
        if rise > 0.0 and rise > -temperature * np.log(1.0 - draw(rng)):
            continue
        for c in range(count):
            i = touched.nodes[c]
            here.over[i] = touched.over[c]
            for s in range(wide.means.size):
                here.dev[i, s] += touched.change[c, s]
                here.raised[i, s] = touched.fresh[c, s]
        for s in range(wide.means.size):
            here.total[s] = touched.total[s]
        now, over = then, beyond
        accept(steps, edit, data, state)
        if now < least and over < 1e-9 and state.tally[1] <= data.max_cost:
            least = now
            value = combined(touched.total, data, wide, here)
            if value < best_value:
                keep(best_moves, state)
                best_value = value
    return best_value

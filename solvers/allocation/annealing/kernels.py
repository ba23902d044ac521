r"""The annealing itself: see `keyshift.solvers.allocation.annealing.search`.

Whether a move is taken is a matter of the energy, a smooth stand-in for (8) of `KeyGroupAllocation`. Over the worst window it is

.. math:: \sum_s \sum_i (value_{is} / best)^P

with P a power of two. For the mean and CVaR, whose rows are the limit of large P, it is

.. math:: P \sum_s \bar w_s \max(norm_s - level / best, 0), \qquad norm_s = \Bigl(\sum_i (value_{is} / best)^P\Bigr)^{1/P}

so that a node at the best distance counts for about 1 there too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.move_kernels import accept, propose
from keyshift.solvers.allocation.annealing.state_kernels import (
    add,
    column_of,
    count_of,
    goes_nowhere,
    power,
    read,
    refresh,
    unchanged,
    write,
)
from keyshift.solvers.kernels import uniform as draw
from keyshift.solvers.rows import KEPT, make_room, mend, row_change


class Touched(NamedTuple):
    """The nodes that a move touches - at most four for each of two slots - and what it would do to them."""

    nodes: IntArray
    change: FloatArray
    """Load that comes and goes in each window, shape (8, k)."""
    extra: FloatArray
    fresh: FloatArray
    """Their values after the move, shape (8, k)."""
    raised: FloatArray
    """The powers of those, shape (8, k)."""
    rise: FloatArray
    """By what each window's sum of powers rises, shape (k,)."""
    sums: FloatArray
    """Each window's sum of powers, and its norm now and after the move, shape (3, k). Kernels for one window are told by the
    single dimension that it has there, and are compiled without the mean and CVaR."""


class Pass(NamedTuple):
    """Steps of annealing: how many, the doublings that make P, the first and last temperature, the t of CVaR."""

    steps: int
    doublings: int
    hot: float
    cold: float
    level: float


@njit(**LEAF)
def carry(k, node, sign, count, touched, data):
    """Note that key group k comes to (sign = 1) or leaves (-1) a node; how many nodes are noted then."""
    windows, at = count_of(data.windows), 0
    while at < count and touched.nodes[at] != node:
        at += 1
    if at == count:
        touched.nodes[at] = node
        for s in range(windows):
            write(0.0, touched.change, at, s)
        for r in range(data.use.shape[0]):
            touched.extra[r, at] = 0.0
        count += 1
    for s in range(windows):
        add(sign * read(data.load, k, column_of(s, data.windows)), touched.change, at, s)
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
def deviation_after(c, s, touched, data, state):
    """The deviation of a touched node in window s after the move."""
    i = touched.nodes[c]
    here = read(state.dev, i, column_of(s, data.windows))
    return here + read(touched.change, c, s) * data.weight[i]


@njit(**LEAF)
def after(c, touched, data, state):
    """Note the values of a touched node after the move."""
    i, windows = touched.nodes[c], count_of(data.windows)
    for s in range(windows):
        v = deviation_after(c, s, touched, data, state)
        write(max(v, 0.0) if data.draining[i] else abs(v), touched.fresh, c, s)
    least = unchanged(i, deviation_after(c, 0, touched, data, state), data)
    write(max(read(touched.fresh, c, 0), least), touched.fresh, c, 0)
    for r in range(data.use.shape[0]):
        over = state.used[r, i] + touched.extra[r, c] - data.room[r, i]
        if over > 0.0:
            penalty = data.bump + over / (data.room[r, i] if data.room[r, i] > 0 else 1.0)
            for s in range(windows):
                add(penalty, touched.fresh, c, s)


@njit(**LEAF)
def norm(total, doublings):
    """The root of a sum of powers."""
    root = max(total, 0.0)
    for _ in range(doublings):
        root = np.sqrt(root)
    return root


@njit(**LEAF)
def rise_of(count, inverse, level, doublings, sums, touched, data, state):
    """By how much a move raises the energy; notes what it does to the values, and to each window's sum."""
    windows, rise = count_of(data.windows), 0.0
    touched.rise[:] = 0.0
    for c in range(count):
        i = touched.nodes[c]
        after(c, touched, data, state)
        for s in range(windows):
            raised = power(read(touched.fresh, c, s) * inverse, doublings)
            write(raised, touched.raised, c, s)
            more = raised - read(state.raised, i, s)
            rise += more
            if data.windows is not None:
                touched.rise[s] += more
    if sums.ndim == 1:
        return rise
    return rise if data.worst else rise_of_norms(level, doublings, sums, touched, data)


@njit(**LEAF)
def rise_of_norms(level, doublings, sums, touched, data):
    """The same for the mean and CVaR."""
    rise = 0.0
    for s in range(touched.rise.size):
        sums[2, s] = norm(sums[0, s] + touched.rise[s], doublings)
        rise += data.most[s] * (max(sums[2, s] - level, 0.0) - max(sums[1, s] - level, 0.0))
    return rise * 2.0**doublings


@njit(**LEAF)
def take_over(sums, touched):
    """Note the sums and norms after a move."""
    if sums.ndim == 1:
        return
    for s in range(touched.rise.size):
        sums[0, s] += touched.rise[s]
        sums[1, s] = sums[2, s]


@njit(**LEAF)
def sum_up(inverse, doublings, sums, data, state):
    """Raise all values, and sum the powers of each window, anew."""
    for i in range(data.weight.size):
        for s in range(count_of(data.windows)):
            write(power(read(state.value, i, s) * inverse, doublings), state.raised, i, s)
    if sums.ndim == 1:
        return
    for s in range(sums.shape[1]):
        sums[0, s] = 0.0
        for i in range(data.weight.size):
            sums[0, s] += read(state.raised, i, s)
        sums[1, s] = norm(sums[0, s], doublings)


@njit(**LEAF)
def at_least(level, value, data):
    """How many times a node has a value of a level or more in a window."""
    count = 0
    for i in range(data.weight.size):
        for s in range(count_of(data.windows)):
            count += read(value, i, s) >= level
    return count


@njit(**LEAF)
def combined(sums, touched, data, state):
    """(8) for the values as they are."""
    largest = 0.0
    for s in range(count_of(data.windows)):
        touched.rise[s] = 0.0
        for i in range(data.weight.size):
            touched.rise[s] = max(touched.rise[s], read(state.value, i, s))
        largest = max(largest, touched.rise[s])
    if sums.ndim == 1:
        return largest
    return largest if data.worst else least_over_level(touched.rise, data.most)


@njit(**LEAF)
def least_over_level(distances, most):
    """The least over t, which is 0 or the distance in a window."""
    best = np.inf
    for at in range(-1, distances.size):
        t = distances[at] if at >= 0 else 0.0
        value = t
        for s in range(distances.size):
            value += most[s] * max(distances[s] - t, 0.0)
        best = min(best, value)
    return best


@njit(**LEAF)
def keep(best_moves, state):
    """Note the migrations as the best."""
    m = int(state.tally[0])
    for x in range(m):
        best_moves[0, x], best_moves[1, x] = state.moves[0, x], state.moves[1, x]
    best_moves[0, -1] = best_moves[1, -1] = m


@njit(**LEAF)
def anneal(rng, given, best_moves, best_value, edit, touched, data, state):
    """Anneal the energy; `best_moves` keeps the migrations of the least (8).

    Temperatures are in units of one node at the best value. Returns the least value met, `best_value` when
    none was better; ``best_moves[:, -1]`` then holds how many migrations there are.
    """
    value, doublings = state.value, given.doublings
    refresh(data, state)
    inverse = 1.0 / max(best_value, 1e-9)  # small enough to tell, large enough for no power to overflow
    sum_up(inverse, doublings, touched.sums, data, state)
    above, energy, least = at_least(best_value, value, data), 0.0, 0.0
    level = given.level * inverse
    broken = power(data.bump * inverse, doublings)  # what a unit in excess of a row counts for
    temperature, cooling = given.hot, (given.cold / given.hot) ** (1.0 / max(1, given.steps))
    for _ in range(given.steps):
        temperature *= cooling
        steps = mend(state.held, rng, edit, data, state)
        if steps == 0:
            steps = propose(rng, edit, data, state)
        steps = make_room(state.held, rng, steps, edit, data, state)
        count = touch(steps, edit, touched, data, state)
        if count == 0:
            continue
        rise = rise_of(count, inverse, level, doublings, touched.sums, touched, data, state)
        if state.held is None:
            if rise > 0.0 and rise > -temperature * np.log(1.0 - draw(rng)):
                continue
        else:
            allowed = -temperature * np.log(1.0 - draw(rng))
            if rise > allowed and state.tally[2] < KEPT:  # rows that all hold cannot make it better
                continue
            rise += broken * row_change(state.held, steps, edit, data, state)
            if rise > max(allowed, 0.0):
                continue
        for c in range(count):
            i = touched.nodes[c]
            for s in range(count_of(data.windows)):
                fresh, before = read(touched.fresh, c, s), read(value, i, s)
                above += int(fresh >= best_value) - int(before >= best_value)
                write(fresh, value, i, s)
                write(read(touched.raised, c, s), state.raised, i, s)
        accept(steps, edit, data, state)
        take_over(touched.sums, touched)
        energy += rise
        promising = above == 0 if data.worst else energy <= least  # below the t of CVaR all is one plateau
        if (
            promising and state.tally[1] <= data.max_cost and (state.held is None or state.tally[2] < KEPT)
        ):  # a plan may begin beyond it
            least = energy
            met = combined(touched.sums, touched, data, state)
            if met < best_value:
                keep(best_moves, state)
                best_value = met
                above = at_least(best_value, value, data)
    return best_value

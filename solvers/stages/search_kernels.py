"""The compiled loop of the search within kept limits: one state for every measure that a problem may put first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import njit
from keyshift.solvers.kernels import overwrite, uniform, whole_below
from keyshift.solvers.rows import RuleRows, shift, sum_rows

REMOTE, DISTANCE, SPREAD, DRAINING, BROKEN, UNDRAINED, LINEAR = 0, 1, 2, 3, 4, 5, 6
"""Places of the measures: remote share of the traffic, load distance, sum of the two deviations, load on draining
nodes, by how much rules are broken that give way, key groups on draining nodes, and from LINEAR on the sums over key groups that
are not on their `anchor`."""
MOST_SHIFTS = 8
"""Key groups that one step moves, at most."""
LOOK = 2000
"""Key groups that are looked at for one that has moved."""


class KeptRows(NamedTuple):
    """The rows of rules, and where key groups are now, as `keyshift.solvers.rows` takes them."""

    rows: RuleRows
    current: np.ndarray


class StageData(NamedTuple):
    """Loads in means, traffic as a share of all, in the arrays that the loop reads."""

    current: np.ndarray  # (p,)
    allowed: np.ndarray  # (p, n)
    load: np.ndarray  # (p,), were all traffic remote
    indptr: np.ndarray  # (p + 1,), symmetric adjacency
    neighbour: np.ndarray
    weight: np.ndarray
    numbers: np.ndarray  # load of all traffic, share and rest of the mean
    capacity: np.ndarray  # (n,)
    kept: np.ndarray  # (n,)
    bands: np.ndarray  # (4, n): share of all load and rest, above and below
    use: np.ndarray  # (resources, p)
    room: np.ndarray  # (resources, n)
    anchor: np.ndarray  # (q, p)
    away: np.ndarray  # (q, p)
    mate: np.ndarray  # (p,), who moves with whom: the next of a ring
    kept_rows: KeptRows
    soft_rows: KeptRows


class StageState(NamedTuple):
    """Where every key group is, and every sum that follows from it."""

    place: np.ndarray  # (p,)
    load: np.ndarray  # (n,)
    used: np.ndarray  # (resources, n)
    values: np.ndarray  # (LINEAR + q,)
    sums: np.ndarray  # collocated share, excess over bands and rooms, energy of the load distance, excess over rows
    held: np.ndarray  # what each row holds
    soft: np.ndarray


@njit(cache=True)
def search(data, state, best, limits, goal, heats, rng, steps):
    """Anneal one measure and never let another rise above its limit; returns the best value, which `best` has.

    `heats` are the first and the last temperature, in the unit of the measure.
    """
    fill(data, state)
    for m in range(limits.size):  # what rounding adds to a limit that is met exactly
        limits[m] = max(limits[m], state.values[m]) * (1 + 1e-13) + 1e-13
    overwrite(best, state.place)
    found, most_excess, most_broken = state.values[goal], state.sums[1] + 1e-12, state.sums[3] + 1e-9
    who, where = np.empty(MOST_SHIFTS, np.int64), np.empty(MOST_SHIFTS, np.int64)
    values, sums = np.empty(limits.size), np.empty(state.sums.size)
    heat = heats[0]
    cooling = (heats[1] / heats[0]) ** (1.0 / max(steps, 1))
    for _ in range(steps):
        heat *= cooling
        count = propose_within(data, state, limits, goal, rng, who, where)
        if count == 0:
            continue
        overwrite(values, state.values)
        overwrite(sums, state.sums)
        before = energy(state, goal)
        for s in range(count):
            back = state.place[who[s]]
            put(data, state, who[s], where[s])
            where[s] = back
        judge(data, state)
        ok = state.sums[1] <= most_excess and state.sums[3] <= most_broken
        for m in range(limits.size):
            ok = ok and (state.values[m] <= limits[m])
        if ok:
            rise = energy(state, goal) - before
            ok = rise <= 0 or uniform(rng) < np.exp(-rise / heat)
        if not ok:
            for s in range(count - 1, -1, -1):
                put(data, state, who[s], where[s])
            overwrite(state.values, values)
            overwrite(state.sums, sums)
        elif state.values[goal] < found - 1e-13:
            found = state.values[goal]
            overwrite(best, state.place)
    return found


@njit(cache=True)
def energy(state, goal):
    """The energy that is annealed: the measure, and for a largest deviation a little of all others."""
    return state.values[goal] + (state.sums[2] if goal in (DISTANCE, SPREAD) else 0.0)


@njit(cache=True)
def fill(data, state):
    """Every sum anew, from the places."""
    p, q = state.place.size, data.anchor.shape[0]
    state.load[:] = 0.0
    state.used[:] = 0.0
    state.values[:] = 0.0
    state.sums[:] = 0.0
    for k in range(p):
        i = state.place[k]
        state.load[i] += data.load[k]
        state.values[UNDRAINED] += int(not data.kept[i])
        for r in range(data.use.shape[0]):
            state.used[r, i] += data.use[r, k]
        for m in range(q):
            if i != data.anchor[m, k]:
                state.values[LINEAR + m] += data.away[m, k]
        for j in range(data.indptr[k], data.indptr[k + 1]):
            if state.place[data.neighbour[j]] == i:
                state.sums[0] += data.weight[j] / 2
                state.load[i] -= data.numbers[0] * data.weight[j] / 2
    state.sums[3] = sum_rows(state.held, state.place, data.kept_rows)
    state.values[BROKEN] = sum_rows(state.soft, state.place, data.soft_rows)
    judge(data, state)


@njit(cache=True)
def put(data, state, k, target):
    """Move one key group and bring the sums up to date that do not need all nodes."""
    source = state.place[k]
    if source == target:
        return
    lost, won = 0.0, 0.0
    for j in range(data.indptr[k], data.indptr[k + 1]):
        at = state.place[data.neighbour[j]]
        if at == source:
            lost += data.weight[j]
        elif at == target:
            won += data.weight[j]
    state.sums[0] += won - lost
    state.load[source] -= data.load[k] - data.numbers[0] * lost
    state.load[target] += data.load[k] - data.numbers[0] * won
    for r in range(data.use.shape[0]):
        state.used[r, source] -= data.use[r, k]
        state.used[r, target] += data.use[r, k]
    state.values[UNDRAINED] += int(data.kept[source]) - int(data.kept[target])
    for m in range(data.anchor.shape[0]):
        anchor = data.anchor[m, k]
        state.values[LINEAR + m] += data.away[m, k] * (int(target != anchor) - int(source != anchor))
    state.sums[3] += shift(state.held, k, source, target, data.kept_rows)
    state.values[BROKEN] += shift(state.soft, k, source, target, data.soft_rows)
    state.place[k] = target


@njit(cache=True)
def judge(data, state):
    """The measures of the loads, and by how much bands and rooms are exceeded."""
    n = data.capacity.size
    total = state.load.sum()
    mean = data.numbers[1] * total + data.numbers[2]
    upper, lower, draining, excess, squares = -np.inf, -np.inf, 0.0, 0.0, 0.0
    for i in range(n):
        deviation = state.load[i] / data.capacity[i] - mean
        upper = max(upper, deviation)
        if data.kept[i]:
            lower = max(lower, -deviation)
            squares += deviation * deviation
        else:
            draining += state.load[i]
            squares += max(deviation, 0.0) ** 2
        excess += max(state.load[i] - data.bands[0, i] * total - data.bands[1, i], 0.0)
        excess += max(data.bands[2, i] * total + data.bands[3, i] - state.load[i], 0.0)
        for r in range(data.use.shape[0]):
            excess += max(state.used[r, i] - data.room[r, i], 0.0) / (1.0 + data.room[r, i])
    state.values[REMOTE] = 1.0 - state.sums[0]
    state.values[DISTANCE] = max(upper, lower, 0.0)
    state.values[SPREAD] = upper + lower
    state.values[DRAINING] = draining
    state.sums[1] = excess
    state.sums[2] = 0.1 * np.sqrt(squares / n)


@njit(cache=True)
def propose_within(data, state, limits, goal, rng, who, where):
    """Write shifts into `who`, `where`; return how many (0: nothing sensible was drawn).

    A key group goes to any node, or to that of one it talks to; alone, or with the one it talks to most; two such
    swap; or they go back. Where too many have moved, others go back with them.
    """
    p, n = data.allowed.shape
    k = whole_below(rng, p)
    draw = uniform(rng)
    going_back = draw < 0.2 or (goal >= LINEAR and draw < 0.5)
    if going_back:
        k = moved_one(data, state, rng)
        if k < 0:
            return 0
    partner = companion(data, state, k) if uniform(rng) < 0.6 else -1
    i = state.place[k]
    if going_back:
        count = send(who, where, 0, k, data.current[k])
        if partner >= 0:
            count = send(who, where, count, partner, data.current[partner])
    elif draw < 0.6:
        target = whole_below(rng, n)
        if uniform(rng) < 0.4 and data.indptr[k + 1] > data.indptr[k]:
            j = data.indptr[k] + whole_below(rng, data.indptr[k + 1] - data.indptr[k])
            target = state.place[data.neighbour[j]]
        count = send(who, where, 0, k, target)
        if partner >= 0:
            count = send(who, where, count, partner, target)
    else:
        m = whole_below(rng, p)
        j = state.place[m]
        count = send(who, where, send(who, where, 0, k, j), m, i)
        if partner >= 0:
            count = send(who, where, count, partner, j)
            other = companion(data, state, m)
            if other >= 0:
                count = send(who, where, count, other, i)
    count = with_mates(data, who, where, count)
    moves = state.values[LINEAR]
    for s in range(count):
        if not data.allowed[who[s], where[s]]:
            return 0
        here, there = state.place[who[s]], where[s]
        moves += int(there != data.current[who[s]]) - int(here != data.current[who[s]])
    while moves > limits[LINEAR] and count < MOST_SHIFTS - 1:
        k = moved_one(data, state, rng)
        if k < 0 or not data.allowed[k, data.current[k]]:
            return 0
        partner = companion(data, state, k) if uniform(rng) < 0.7 else -1
        for s in range(count):
            if who[s] == k or who[s] == partner:
                return 0
        count = send(who, where, count, k, data.current[k])
        moves -= 1
        if partner >= 0 and state.place[partner] != data.current[partner]:
            count = send(who, where, count, partner, data.current[partner])
            moves -= 1
    return with_mates(data, who, where, count)


@njit(cache=True)
def with_mates(data, who, where, count):
    """Send with each who moves with it; 0 where they are too many."""
    s = 0
    while s < count:
        k = data.mate[who[s]]
        known = k == who[s]
        for t in range(count):
            known = known or who[t] == k
        if not known and count == MOST_SHIFTS:
            return 0
        if not known:
            count = send(who, where, count, k, where[s])
        s += 1
    return count


@njit(cache=True)
def send(who, where, count, k, target):
    """Note one shift more."""
    who[count], where[count] = k, target
    return count + 1


@njit(cache=True)
def companion(data, state, k):
    """Of the key groups on its node the one that k talks to most; -1 without one."""
    found, most = -1, 0.0
    for j in range(data.indptr[k], data.indptr[k + 1]):
        if data.weight[j] > most and state.place[data.neighbour[j]] == state.place[k]:
            found, most = data.neighbour[j], data.weight[j]
    return found


@njit(cache=True)
def moved_one(data, state, rng):
    """A key group that has moved, looked for from a random place on; -1 when there is none near."""
    p = state.place.size
    k = whole_below(rng, p)
    for _ in range(min(p, LOOK)):
        if state.place[k] != data.current[k]:
            return k
        k = k + 1 if k + 1 < p else 0
    return -1

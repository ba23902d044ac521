"""The compiled loop of the search for little movement: loads in units of the upper limit, state in units of its mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import njit
from keyshift.solvers.random_kernels import uniform


class MoveData(NamedTuple):
    """The data of the loop."""

    load: np.ndarray  # (p, windows)
    state: np.ndarray  # (p,)
    current: np.ndarray  # (p,), -1 where the node is not used any more
    nodes: np.ndarray  # those in use
    lower: float


@njit(cache=True, error_model="numpy")
def outside(row, lower):
    """By how much a node's loads are outside the limits, summed over the windows."""
    excess = 0.0
    for t in range(row.size):
        if row[t] > 1.0:
            excess += row[t] - 1.0
        elif row[t] < lower:
            excess += lower - row[t]
    return excess


@njit(cache=True, error_model="numpy")
def put(data, place, sums, excess, k, target):
    """Move one key group; returns the change of all excess and of the state moved."""
    source = place[k]
    change = -excess[source] - excess[target]
    for t in range(data.load.shape[1]):
        sums[source, t] -= data.load[k, t]
        sums[target, t] += data.load[k, t]
    excess[source], excess[target] = outside(sums[source], data.lower), outside(sums[target], data.lower)
    place[k] = target
    back = data.current[k]
    return change + excess[source] + excess[target], data.state[k] * ((target != back) * 1.0 - (source != back) * 1.0)


@njit(cache=True, error_model="numpy")
def propose(data, place, rng):
    """Draw key group k for node b, and q for node d (q = -1: k alone): a move, a swap, or a move against a return."""
    p, n = place.size, data.nodes.size
    k, draw = int(uniform(rng) * p), uniform(rng)
    if place[k] != data.current[k] and data.current[k] >= 0 and draw < 0.5:
        b = data.current[k]
    else:
        b = data.nodes[int(uniform(rng) * n)]
    if draw < 0.25 or (draw >= 0.5 and draw < 0.6):
        return k, b, -1, -1
    q = int(uniform(rng) * p)
    if draw >= 0.8:
        return k, place[q], q, place[k]
    return k, b, q, (data.current[q] if place[q] != data.current[q] and data.current[q] >= 0 else place[k])


@njit(cache=True, error_model="numpy", nogil=True)
def anneal(data, place, prices, heats, steps, slack, rng):
    """Simulated annealing; while the heat falls, the price of excess rises.

    Returns the placement of least movement among those within the limits by `slack` - of least excess, if none was - with
    its excess and movement. O(windows) a step.
    """
    place = place.copy()
    p = place.size
    sums = np.zeros((int(max(data.nodes.max(), place.max())) + 1, data.load.shape[1]))
    moved = 0.0
    for k in range(p):
        moved += data.state[k] * (place[k] != data.current[k])
        for t in range(sums.shape[1]):
            sums[place[k], t] += data.load[k, t]
    excess = np.zeros(sums.shape[0])
    for i in data.nodes:
        excess[i] = outside(sums[i], data.lower)
    total = excess.sum()
    best, least, fewest = place.copy(), max(total, slack), moved
    heat, cooling = heats[0], (heats[1] / heats[0]) ** (1.0 / max(steps, 1))
    price, dearer = prices[0], (prices[1] / prices[0]) ** (1.0 / max(steps, 1))
    for _ in range(steps):
        heat *= cooling
        price *= dearer
        k, b, q, d = propose(data, place, rng)
        a = place[k]
        if a == b or q == k:
            continue
        c = place[q] if q >= 0 else -1
        over, cost = put(data, place, sums, excess, k, b)
        if q >= 0 and c != d:
            more, also = put(data, place, sums, excess, q, d)
            over, cost = over + more, cost + also
        rise = cost + price * over
        if rise > 0 and uniform(rng) >= np.exp(-rise / heat):
            if q >= 0 and c != d:
                put(data, place, sums, excess, q, c)
            put(data, place, sums, excess, k, a)
            continue
        moved += cost
        total = 0.0
        for i in data.nodes:
            total += excess[i]
        if max(total, slack) < least or (total <= slack and moved < fewest - 1e-9 * abs(fewest)):
            best[:] = place
            least, fewest = max(total, slack), moved
    return best, least, fewest

"""Compiled inner loops of the local search. Loads are (p, m) rows by key group; `sums` are node loads, (n, m)."""

from __future__ import annotations

import numpy as np
from numba import njit

from keyshift.models.workload import FloatArray, IntArray

F = FloatArray
Z = IntArray


@njit(cache=True)
def dot(a: F, b: F) -> float:
    """Inner product of two vectors."""
    total = 0.0
    for t in range(a.size):
        total += a[t] * b[t]
    return total


@njit(cache=True)
def place_greedily(load: F, order: Z, nodes: int, state: F, current: Z, budget: float) -> Z:
    """Place key groups in the given order, each where it adds least to the sum of squares.

    The rise is 2 y.L + y.y, so that the node of least y.L wins. A key group that the budget no longer lets move
    stays where it is.
    """
    p, m = load.shape
    sums = np.zeros((nodes, m))
    chosen = np.empty(p, dtype=np.int64)
    left = budget
    for k in order:
        if current[k] >= 0 and state[k] > left:
            best = current[k]
        else:
            best, least = 0, np.inf
            for i in range(nodes):
                rise = dot(load[k], sums[i])
                if rise < least:
                    best, least = i, rise
            if best != current[k]:
                left -= state[k]
        chosen[k] = best
        for t in range(m):
            sums[best, t] += load[k, t]
    return chosen


@njit(cache=True)
def second_moment_rows(moment: F, chosen: Z, nodes: int) -> F:
    """rows[i, k] = sum of moment[k, q] over q on node i."""
    p = chosen.size
    rows = np.zeros((nodes, p))
    for k in range(p):
        for j in range(p):
            rows[chosen[k], j] += moment[k, j]
    return rows


@njit(cache=True)
def _shift(moment: F, rows: F, chosen: Z, k: int, target: int) -> None:
    """Put k on another node."""
    source = chosen[k]
    for j in range(chosen.size):
        rows[source, j] -= moment[k, j]
        rows[target, j] += moment[k, j]
    chosen[k] = target


@njit(cache=True)
def _propose(chosen: Z, current: Z, nodes: int, limited: bool, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw key group k for node b, and q for node d (q = -1: k alone): a move, a swap, or a move against a return."""
    p = chosen.size
    k = int(rng.random() * p)
    draw = rng.random()
    if draw < 0.3:
        return k, int(rng.random() * nodes), -1, -1
    q = int(rng.random() * p)
    if limited and draw < 0.6:
        return k, int(rng.random() * nodes), q, current[q]  # q returns, which frees budget
    return k, chosen[q], q, chosen[k]


@njit(cache=True)
def pair_change(moment: F, rows: F, chosen: Z, k: int, b: int, q: int, d: int) -> float:
    """Change of the sum of squares when k goes to node b and, unless q is -1, q to node d."""
    a = chosen[k]
    change = 0.0
    if b != a:
        change = 2.0 * (rows[b, k] - rows[a, k] + moment[k, k])
    if q >= 0 and d != chosen[q]:
        c = chosen[q]
        change += 2.0 * (rows[d, q] - rows[c, q] + moment[q, q])
        if b != a:  # each was reckoned with the other still in its place
            change += 2.0 * moment[k, q] * (1.0 * (b == d) - 1.0 * (b == c) - 1.0 * (a == d) + 1.0 * (a == c))
    return change


@njit(cache=True, nogil=True)
def anneal(
    moment: F, chosen: Z, nodes: int, state: F, current: Z, budget: float,
    price: float, hot: float, cold: float, steps: int, rng: np.random.Generator,
) -> tuple[Z, float]:  # fmt: skip
    """Simulated annealing by moves and swaps on the uncentred second-moment matrix; the best placement seen.

    State beyond the budget may be moved on the way, at a price for each unit that rises from a tenth to ten times
    `price`: to exchange one large key group for several smaller ones takes more than one step. A candidate costs O(1), an
    accepted one O(p). Returns the best placement within the budget and its change of the sum of squares
    against the start (<= 0).
    """
    p = chosen.size
    chosen = chosen.copy()
    rows = second_moment_rows(moment, chosen, nodes)
    spent, total = 0.0, 0.0
    for k in range(p):
        total += state[k]
        if chosen[k] != current[k]:
            spent += state[k]
    limited = budget < total
    best, gained, least = chosen.copy(), 0.0, 0.0
    factor = (cold / hot) ** (1.0 / max(steps, 1))
    heat, paid = hot, 0.1 * price
    dearer = 100.0 ** (1.0 / max(steps, 1))
    for _ in range(steps):
        heat *= factor
        paid *= dearer
        k, b, q, d = _propose(chosen, current, nodes, limited, rng)
        if q == k or b < 0 or (q >= 0 and d < 0) or (b == chosen[k] and (q < 0 or d == chosen[q])):
            continue
        cost = state[k] * (1.0 * (b != current[k]) - 1.0 * (chosen[k] != current[k]))
        if q >= 0:
            cost += state[q] * (1.0 * (d != current[q]) - 1.0 * (chosen[q] != current[q]))
        change = pair_change(moment, rows, chosen, k, b, q, d)
        rise = change + paid * (max(spent + cost - budget, 0.0) - max(spent - budget, 0.0))
        if rise > 0 and rng.random() >= np.exp(-rise / heat):
            continue
        if b != chosen[k]:
            _shift(moment, rows, chosen, k, b)
        if q >= 0 and d != chosen[q]:
            _shift(moment, rows, chosen, q, d)
        spent += cost
        gained += change
        if gained < least - 1e-12 * abs(least) and spent <= budget:
            least = gained
            best[:] = chosen
    return best, least


@njit(cache=True, nogil=True)
def descend(
    load: F, chosen: Z, sums: F, state: F, current: Z, spent: float, budget: float, order: Z
) -> tuple[float, float]:
    """One sweep of best-improvement moves over the key groups in the given order, O(p n m).

    Changes `chosen` and `sums`; returns the fall of the sum of squares and the state moved now.
    """
    fall = 0.0
    for k in order:
        a = chosen[k]
        own = dot(load[k], load[k])
        here = dot(load[k], sums[a]) - own
        best, least = a, here - 1e-12 * abs(here)
        for i in range(sums.shape[0]):
            cost = state[k] * ((i != current[k]) - 1.0 * (a != current[k]))
            if i != a and (cost <= 0 or spent + cost <= budget):
                there = dot(load[k], sums[i])
                if there < least:
                    best, least = i, there
        if best != a:
            fall += 2.0 * (here - least)
            spent += state[k] * ((best != current[k]) - 1.0 * (a != current[k]))
            for t in range(load.shape[1]):
                sums[a, t] -= load[k, t]
                sums[best, t] += load[k, t]
            chosen[k] = best
    return fall, spent


@njit(cache=True, nogil=True)
def swap_alike(
    load: F, chosen: Z, sums: F, state: F, current: Z, spent: float, budget: float, ranked: Z, reach: int,
    tries: int, rng: np.random.Generator,
) -> tuple[float, float]:  # fmt: skip
    """Try random swaps of key groups that stand within `reach` of each other in a ranking by size; O(m) each.

    Exchanging two of nearly equal size shifts a node's load by their small difference: the fine adjustment that
    moves cannot make. Changes `chosen` and `sums`; returns the fall and the state moved now.
    """
    p, m = load.shape
    fall = 0.0
    for _ in range(tries):
        r = int(rng.random() * p)
        s = r + 1 + int(rng.random() * reach)
        if s >= p:
            continue
        k, q = ranked[r], ranked[s]
        a, b = chosen[k], chosen[q]
        if a == b:
            continue
        cost = state[k] * ((b != current[k]) - 1.0 * (a != current[k]))
        cost += state[q] * ((a != current[q]) - 1.0 * (b != current[q]))
        if cost > 0 and spent + cost > budget:
            continue
        change, size = 0.0, 0.0
        for t in range(m):
            d = load[k, t] - load[q, t]
            change += d * (sums[b, t] - sums[a, t] + d)
            size += abs(d) * (sums[b, t] + sums[a, t])
        if change >= -1e-14 * size:
            continue
        fall -= 2.0 * change
        spent += cost
        chosen[k], chosen[q] = b, a
        for t in range(m):
            d = load[k, t] - load[q, t]
            sums[a, t] -= d
            sums[b, t] += d
    return fall, spent

"""Compiled inner loops of the local search. Loads are (p, m) rows by key group; `sums` are node loads, (n, m)."""

from __future__ import annotations

import numpy as np

from keyshift.models.base.compiling import njit
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
def place_greedily(load: F, order: Z, chosen: Z, sums: F, state: F, current: Z, left: float) -> float:
    """Place key groups in the given order, each where it adds least to the sum of squares.

    The rise is 2 y.L + y.y, so that the node of least y.L wins. A key group that what is left of the budget does not let move
    stays where it is. Changes `chosen` and `sums`; returns what is left then.
    """
    m = load.shape[1]
    for k in order:
        if current[k] >= 0 and state[k] > left:
            best = current[k]
        else:
            best, least = 0, np.inf
            for i in range(sums.shape[0]):
                rise = dot(load[k], sums[i])
                if rise < least:
                    best, least = i, rise
            if best != current[k]:
                left -= state[k]
        chosen[k] = best
        for t in range(m):
            sums[best, t] += load[k, t]
    return left


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

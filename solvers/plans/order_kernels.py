"""Compiled orders of moves: which goes first so that no node is overloaded and every stop leaves a good state."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit
from keyshift.solvers.plans.schedule_kernels import Transfers


@njit(cache=True, nogil=True)
def overload_at(p: Transfers, level: np.ndarray, j: int) -> float:
    """By what share of its limit the target would be overloaded while a transfer runs; 0 where it has room."""
    worst = 0.0
    i = p.target[j]
    for r in range(level.shape[0]):
        if np.isfinite(p.limit[r, i]):
            worst = max(worst, (level[r, i] + p.usage[r, j]) / p.limit[r, i] - 1)
    return worst


@njit(cache=True, nogil=True)
def least_overload(p: Transfers, count: int) -> tuple[float, np.ndarray]:
    """The order, one transfer at a time, whose worst overload is least; all 2^count sets of done transfers.

    Returns
    -------
    float, int64 array
        The overload, and for every set the last transfer on a best way to it (-1 where there is none).
    """
    sets = 1 << count
    worst = np.full(sets, np.inf)
    last = np.full(sets, -1, np.int64)
    worst[0] = 0.0
    level = np.empty_like(p.level)
    for done in range(sets):
        level[:] = p.level
        for j in range(count):
            if done >> j & 1:
                level[:, p.source[j]] -= p.usage[:, j]
                level[:, p.target[j]] += p.usage[:, j]
        for j in range(count):
            if done >> j & 1 == 0:
                then = done | (1 << j)
                reached = max(worst[done], overload_at(p, level, j))
                if reached < worst[then]:
                    worst[then] = reached
                    last[then] = j
    return worst[sets - 1], last


@njit(cache=True, nogil=True)
def distance(loads: np.ndarray, capacity: np.ndarray, leaving: np.ndarray, mean: float) -> float:
    """Load distance: both ways on nodes that stay, upwards only on nodes that leave."""
    worst = 0.0
    for i in range(loads.size):
        deviation = loads[i] / capacity[i] - mean
        if leaving[i]:
            worst = max(worst, deviation)
        else:
            worst = max(worst, abs(deviation))
    return worst


@njit(cache=True, nogil=True)
def gentle_order(
    p: Transfers,
    loads: np.ndarray,
    load: np.ndarray,
    nodes: tuple[np.ndarray, np.ndarray, float],
    allowed: float,
    wide: int,
) -> np.ndarray:
    """Always the move that leaves the best state, among those that overload no node by more than is allowed.

    Parameters
    ----------
    loads : float64 (n,)
        Loads of the nodes before the plan; changed on the way.
    load : float64 (e,)
    nodes : capacity (n,), leaving (n,), mean
    allowed : float
        Overload, as a share of a limit, that counts as none.
    wide : int
        Waiting moves looked at in a step, from the first on: with all of them the order costs O(e^2 n).
    """
    capacity, leaving, mean = nodes
    count = load.size
    level = p.level.copy()
    waiting = np.arange(count)
    left = count
    order = np.empty(count, np.int64)
    for step in range(count):
        best, best_over, best_distance = -1, np.inf, np.inf
        for position in range(min(left, wide)):
            j = waiting[position]
            over = max(allowed, overload_at(p, level, j))
            if over > best_over:
                continue
            loads[p.source[j]] -= load[j]
            loads[p.target[j]] += load[j]
            here = distance(loads, capacity, leaving, mean)
            loads[p.source[j]] += load[j]
            loads[p.target[j]] -= load[j]
            if over < best_over or here < best_distance:
                best, best_over, best_distance = position, over, here
        j = waiting[best]
        order[step] = j
        loads[p.source[j]] -= load[j]
        loads[p.target[j]] += load[j]
        level[:, p.source[j]] -= p.usage[:, j]
        level[:, p.target[j]] += p.usage[:, j]
        left -= 1
        waiting[best] = waiting[left]
    return order

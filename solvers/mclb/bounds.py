"""Combinatorial bounds for MCLB: what indivisible key groups force on each window, budget or not."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.mclb.problem import MCLB
from keyshift.models.workload import FloatArray
from keyshift.solvers.safe_bounds import EPSILON


def combinatorial_bound(problem: MCLB, *, budget: Budget, seed: int = 0) -> Answer:
    """Window by window, the least variance that the largest key groups allow; O(m p log p), a bound only.

    See `window_bounds`. The windows are bounded one by one, as if each could have a placement of its own.
    """
    core = problem.core
    return Answer(None, window_bound(core.load.T, core.nodes) / core.nodes)


def window_bound(load: FloatArray, nodes: int) -> float:
    """The safe sum of the bounds of all windows, for loads of shape (m, p): n times a bound on the imbalance."""
    return safe_sum(window_bounds(load, nodes), load, nodes)


def window_bounds(load: FloatArray, nodes: int) -> FloatArray:
    r"""Least sum of squared deviations in each window, shape (m,), for loads of shape (m, p).

    Sort a window's key groups, :math:`y_1 \ge y_2 \ge \dots`. Whatever the placement, its j fullest nodes together
    carry at least :math:`y_1 + \dots + y_j`, and the fullest alone at least
    :math:`\max_g \sum_{r=0}^{g} y_{gn+1-r}`, since of the gn + 1 largest some g + 1 share a node. Among all load
    vectors with these top sums and the given total there is a least majorised one: fill the fullest node to its
    least, then set y_j aside while it exceeds the mean of what is left, then level. The sum of squares is
    Schur-convex, so that no placement is below. Where all loads of a window are whole multiples of a unit, r units
    that n nodes cannot share evenly leave :math:`r (n - r) / n` squared units.
    """
    m, p = load.shape
    largest = -np.sort(-load, axis=1)
    total = load.sum(axis=1)
    if nodes == 1:
        return np.zeros(m)
    first = np.maximum(_fullest(largest, nodes), total / nodes)
    filled = min(p, nodes)  # with fewer key groups than nodes the others are empty
    # Top sums: at least first for j = 1, and the j largest key groups for any j.
    top = np.maximum(np.cumsum(largest[:, :filled], axis=1), first[:, None])
    loads = np.zeros((m, nodes))
    taken = np.zeros(m)
    for j in range(filled):
        # The least j-th load that keeps every later top sum reachable with loads no larger than it.
        ahead = (top[:, j:] - taken[:, None]) / np.arange(1, filled - j + 1)
        loads[:, j] = np.maximum(ahead.max(axis=1), (total - taken) / (nodes - j))
        taken = taken + loads[:, j]
    return np.maximum(np.square(loads - (total / nodes)[:, None]).sum(axis=1), _uneven(load, nodes))


def _uneven(load: FloatArray, nodes: int) -> FloatArray:
    """The remainder of each window that whole loads cannot share evenly; 0 where they are not whole."""
    whole = (load == np.rint(load)).all(axis=1) & (load.sum(axis=1) < 2.0**53)
    units = np.where(whole[:, None], load, 0.0).astype(np.int64)
    unit = np.maximum(np.gcd.reduce(units, axis=1), 1)
    over = (units.sum(axis=1) // unit) % nodes
    return np.asarray(np.square(unit.astype(np.float64)) * over * (nodes - over) / nodes)


def _fullest(largest: FloatArray, nodes: int) -> FloatArray:
    """A lower bound on the fullest node of each window: the pigeonhole among the gn + 1 largest key groups."""
    p = largest.shape[1]
    best = largest[:, 0].copy()
    for g in range(1, (p - 1) // nodes + 1):
        last = g * nodes  # position of the (gn + 1)-th
        np.maximum(best, largest[:, last - g : last + 1].sum(axis=1), out=best)
    return best


def safe_sum(squares: FloatArray, load: FloatArray, nodes: int) -> float:
    """The sum of per-window bounds for loads of shape (m, p), less what rounding can have added.

    The root of a window's bound is a distance between load vectors, each entry of which is wrong by no more than
    `doubt`: the distance is wrong by no more than sqrt(nodes) times as much.
    """
    m, p = load.shape
    doubt = EPSILON * (64 + nodes + p / nodes) * load.sum(axis=1)
    distance = np.maximum(np.sqrt(squares) - np.sqrt(nodes) * doubt, 0.0)
    return float(np.square(distance).sum()) * (1 - EPSILON * (m + 8))

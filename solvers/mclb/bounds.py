"""Bounds for MCLB: what indivisible key groups force on each window, budget or not, and the continuous relaxation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Whole
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.workload import FloatArray
from keyshift.solvers.safe_bounds import EPSILON
from keyshift.solvers.threads import one_blas_thread

SHARES = 10_000_000
"""Shares of key groups on nodes that the continuous relaxation takes on, some 50 bytes each."""


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
    load = np.ascontiguousarray(load)
    largest = np.sort(load, axis=1)[:, ::-1]
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
    units = load[whole].astype(np.int64)
    unit = np.maximum(np.gcd.reduce(units, axis=1), 1)
    over = (units.sum(axis=1) // unit) % nodes
    uneven = np.zeros(whole.size)
    uneven[whole] = np.square(unit.astype(np.float64)) * over * (nodes - over) / nodes
    return uneven


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
    `error_bound`: the distance is wrong by no more than sqrt(nodes) times as much.
    """
    m, p = load.shape
    error_bound = EPSILON * (64 + nodes + p / nodes) * load.sum(axis=1)
    distance = np.maximum(np.sqrt(squares) - np.sqrt(nodes) * error_bound, 0.0)
    return float(np.square(distance).sum()) * (1 - EPSILON * (m + 8))


# The continuous relaxation: a convex quadratic program over shares, by Frank and Wolfe's method ----------------------


def qp_bound(problem: MCLB, *, budget: Budget, seed: int = 0, steps: Whole = 3000) -> Answer:
    """The least imbalance when key groups may be split over nodes, within the movement budget; a bound only.

    Without a budget it is 0: a share 1/n of everything on every node balances all windows. With one, each step
    takes O(p n m).

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Unused: no random numbers.
    steps : int, default 3000
        At most this many steps.

    Notes
    -----
    Source: Frank, Wolfe, *An algorithm for quadratic programming*, 1956; Jaggi, *Revisiting Frank-Wolfe*, 2013. The bound
    does not rest on convergence: at any shares x the tangent plane of h lies below h, and its least value over shares
    within the budget is a fractional knapsack, solved by sorting and bounded by its multiplier.
    """
    core = problem.core
    windows = window_bound(core.load.T, core.nodes)
    if (shares := core.load.shape[0] * core.nodes) > SHARES:
        said = f"{shares:,} shares of key groups are too many, more than {SHARES:,}: this is the bound window by window"
        return Answer(None, windows / core.nodes, message=said)
    squares = deque(shared_squares(core, budget, steps), maxlen=1)
    return Answer(None, max([windows, *squares]) / core.nodes, budget.why if budget.expired else "completed")


def shared_squares(core: Core, budget: Budget, steps: int = 3000, gap: float = 1e-4) -> Iterator[float]:
    """Safe lower bounds on n times the imbalance over shares of key groups within the budget, ever higher ones."""
    p, n = core.load.shape[0], core.nodes
    if not core.limited or n == 1 or p * n > SHARES:
        return
    unit = float(np.sqrt(np.square(core.load).sum() / p)) or 1.0
    load = core.load / unit
    mean = load.sum(axis=0) / n
    shares = np.full((p, n), 1.0 / n)
    placed = core.current >= 0
    shares[placed] = 0.0
    shares[np.flatnonzero(placed), core.current[placed]] = 1.0
    best = 0.0
    for step in range(steps):
        with one_blas_thread():
            away = shares.T @ load - mean  # (n, m)
            slope = 2.0 * load @ away.T  # (p, n)
        value = float(np.square(away).sum())
        vertex, least = knapsack(core, slope)
        here = float((slope * shares).sum())
        sizes = value + np.abs(slope).max(axis=1).sum() * 2 + np.square(mean).sum()
        error_bound = EPSILON * (p + core.load.shape[1] + 16) * sizes
        best = max(best, value - here + least - error_bound)
        budget.spend(slope.size * mean.size / 50)
        yield max(0.0, best * unit**2 * (1 - 8 * EPSILON))
        if budget.expired or value - best <= gap * value:
            break
        with one_blas_thread():
            towards = (vertex - shares).T @ load
        curve = float(np.square(towards).sum())
        if curve == 0.0:
            break
        length = min(1.0, max(0.0, (here - float((slope * vertex).sum())) / (2.0 * curve)))
        if length == 0.0 and step > 0:
            break
        shares += length * (vertex - shares)


def knapsack(core: Core, slope: FloatArray) -> tuple[FloatArray, float]:
    """The shares of least slope within the budget, and a safe lower bound on that least.

    Moving key group k to its best node gains g_k at a cost of s_k: take them by gain per state until the budget is used,
    the last one in part. With that last ratio r as multiplier, sum_k min(stay_k, best_k + r s_k) - r B is a lower bound
    whatever the rounding of r.
    """
    p = slope.shape[0]
    rows = np.arange(p)
    target = slope.argmin(axis=1)
    best = slope[rows, target]
    placed = core.current >= 0
    stay = np.where(placed, slope[rows, core.current], best)
    gain = stay - best
    moving = np.flatnonzero((gain > 0) & (core.state > 0))
    order = moving[np.argsort(-gain[moving] / core.state[moving], kind="stable")]
    used = np.cumsum(core.state[order])
    whole = int(np.searchsorted(used, core.budget, side="right"))
    share = np.where((gain > 0) & (core.state > 0), 0.0, 1.0)
    share[order[:whole]] = 1.0
    ratio = 0.0
    if whole < order.size:
        k = order[whole]
        before = float(used[whole - 1]) if whole else 0.0
        share[k] = (core.budget - before) / core.state[k]
        ratio = float(gain[k] / core.state[k])
    shares = np.zeros_like(slope)
    shares[rows, target] = share
    rest = np.flatnonzero(share < 1.0)
    shares[rest, core.current[rest]] += 1.0 - share[rest]
    priced = np.minimum(stay, best + ratio * core.state)
    return shares, float(priced.sum()) - ratio * core.budget

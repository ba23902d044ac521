"""How few exceptions a routing table can have: counted node by node, with the few large keys placed exactly."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.routing import MixedRouting
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers import highs
from keyshift.solvers.safe_bounds import LinearProgram

LARGE = 0.02
"""Keys above this share of the highest limit are placed one by one."""
MOST_LARGE = 40
TANGENTS = 48
"""Lines under each node's count."""
WORD = 1e-4
"""This many entries are taken off a solver's dual bound."""


def fewest_entries(problem: MixedRouting, budget: Budget, seed: int = 0, most: int | None = None) -> int:
    r"""A lower bound on the table's size that any answer needs, whatever moves.

    Large keys k in B, placed by :math:`x_{ki}`, bring :math:`X_i = \sum_k c_k x_{ki}` to node i. Of the other keys that hash
    to i, as many must leave as bring their load down to what the limit leaves; taking the largest first and the last one in
    part gives :math:`g_i(X_i)`, convex and piecewise linear, no more than the entries that they cost:

    .. math:: \min \; \sum_i y_i + \sum_{k \in B} \sum_{i \ne h_k} x_{ki} \quad \text{subject to} \quad
              \sum_i x_{ki} = 1, \;\; X_i \le (1 + \theta_{max}) \bar L q_i, \;\; y_i \ge g_i(X_i)

    with :math:`g_i` replaced by tangents. Where those that leave go is left out, and so is the lower side of the limits.

    Parameters
    ----------
    most : int, optional
        Where divisible large keys need more entries already, that figure is returned: weak duality, nobody's word.

    Notes
    -----
    Else the figure rests on HiGHS's dual bound, rounded up after `WORD` is taken off.
    """
    load, home, limit = problem.workload.last_load, problem.home, problem.upper + problem.slack
    order = np.argsort(-load, kind="stable")
    large = order[: min(MOST_LARGE, int((load > LARGE * limit.max()).sum()))]
    small = np.ones(load.size, dtype=bool)
    small[large] = False
    program = _program(load, home, limit, large, small)
    if most is not None:
        relaxed, _ = highs.relaxation_bound(program, budget, seed)
        if relaxed is not None and math.ceil(relaxed - WORD) > most:
            return math.ceil(relaxed - WORD)
    # With presolve, HiGHS 1.14 "proves" 4 where the optimum is 1.04, on two nodes and six keys (see the tests).
    result = highs.minimise(program, budget, seed=seed, options={"presolve": "off"})
    if not np.isfinite(result.bound):
        return 0
    return max(0, math.ceil(result.bound - WORD))


def _program(load: FloatArray, home: IntArray, limit: FloatArray, large: IntArray, small: np.ndarray) -> LinearProgram:
    """Columns: x[k, i] row by row, then y[i]."""
    n, count = limit.size, large.size
    columns = count * n + n
    rows, lower, upper = [], [], []
    for k in range(count):  # every large key runs somewhere
        rows.append(sp.csr_array((np.ones(n), (np.zeros(n, int), k * n + np.arange(n))), shape=(1, columns)))
        lower.append(1.0)
        upper.append(1.0)
    for i in range(n):
        mine, places = np.sort(load[small & (home == i)])[::-1], np.arange(count) * n + i
        weights = load[large]
        unit = max(float(limit.max()), 1e-300)
        rows.append(sp.csr_array((weights / unit, (np.zeros(count, int), places)), shape=(1, columns)))
        lower.append(-np.inf)
        upper.append(float(limit[i]) / unit)
        for slope, at in _tangents(mine, float(limit[i])):  # y_i >= at + slope X_i
            row = np.zeros(columns)
            row[places], row[count * n + i] = -slope * weights, 1.0
            rows.append(sp.csr_array(row[None, :]))
            lower.append(at)
            upper.append(np.inf)
    cost = np.concatenate([(np.arange(n)[None, :] != home[large][:, None]).astype(float).ravel(), np.ones(n)])
    return LinearProgram(
        cost, 0.0, sp.csr_array(sp.vstack(rows)), np.array(lower), np.array(upper), np.zeros(columns),
        np.concatenate([np.ones(count * n), np.full(n, float(load.size))]),
        np.concatenate([np.ones(count * n, dtype=bool), np.zeros(n, dtype=bool)]),
    )  # fmt: skip


def _tangents(falling: FloatArray, limit: float) -> list[tuple[float, float]]:
    """Lines under the fewest keys that must leave a node, as (slope, value at X = 0).

    With T the load of the keys, they must shed T - limit + X; after the j largest have left, the next of load l sheds
    at most l a key: j + (T - limit + X - sum of the j largest) / l bounds the count from below for every X.
    """
    falling = falling[falling > 0]
    if falling.size == 0:
        return []
    shed = np.concatenate([[0.0], np.cumsum(falling)])
    excess = float(shed[-1]) - limit
    chosen = np.unique(np.concatenate([[0], np.geomspace(1, falling.size, TANGENTS).astype(int) - 1]))
    return [(1.0 / falling[j], float(j + (excess - shed[j]) / falling[j])) for j in chosen if falling[j] > 0]

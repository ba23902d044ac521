"""Steps of a plan: an order of moves that overloads no node, cut so that after every phase the state is a good one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.plans.way import Way
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.plans.fast import compiled
from keyshift.solvers.plans.order_kernels import gentle_order, least_overload, overload_at

EXACT_UP_TO = 14
"""Moves up to which all orders are searched for the least overload."""
WIDE = 3e8
"""Figures looked at for an order: with more moves, fewer of those that wait are looked at in each step."""


@dataclass(frozen=True, eq=False)
class Order:
    """An order of the moves, by what share of a limit it overloads some node, and what no order avoids."""

    order: IntArray
    overload: float
    bound: float


def order_of(problem: TransferScheduling, way: Way, load: FloatArray) -> Order:
    """Order the moves so that nodes are overloaded least, and so that the state on the way is good.

    One transfer at a time never needs more room than many: whatever schedule meets the limits, the order of its ends
    does. For up to `EXACT_UP_TO` moves the least overload is found among all orders (over sets of done moves,
    O(2^e e)); for more, every step takes the move that overloads least and leaves the smallest load distance, and nothing
    is proven.

    Parameters
    ----------
    problem : TransferScheduling
        Of all moves.
    way : Way
    load : ndarray, shape (e,)
    """
    arrays, count = compiled(problem), problem.transfers
    allowed, bound, order = 0.0, 0.0, None
    if problem.limited and count <= EXACT_UP_TO:
        allowed, last = least_overload(arrays, count)
        allowed, order = float(allowed), _walk(last, count)
        bound = allowed
    wide = int(min(count, max(50, WIDE / max(1, count * way.nodes))))
    nodes = (way.capacity, way.leaving, way.mean)
    gentle = gentle_order(arrays, way.before.copy(), load, nodes, allowed, wide)
    overload = overload_of(problem, gentle)
    if order is None or overload <= allowed * (1 + 1e-9) + 1e-12:
        return Order(gentle, overload, min(bound, overload))
    return Order(order, allowed, bound)


def overload_of(problem: TransferScheduling, order: IntArray) -> float:
    """The worst overload when moves go one at a time in an order, as a share of a limit."""
    arrays = compiled(problem)
    level, worst = problem.held.copy(), 0.0
    if not problem.limited:
        return 0.0
    for j in order.tolist():
        worst = max(worst, float(overload_at(arrays, level, j)))
        level[:, problem.source[j]] -= problem.usage[:, j]
        level[:, problem.target[j]] += problem.usage[:, j]
    return worst


def _walk(last: IntArray, count: int) -> IntArray:
    order, done = [], (1 << count) - 1
    while done:
        order.append(int(last[done]))
        done ^= 1 << order[-1]
    return np.array(order[::-1], dtype=np.int64)


def cut(order: IntArray, problem: TransferScheduling, way: Way, load: FloatArray, most: int | None) -> list[IntArray]:
    """Cut an order into phases of limited length, each of which leaves a load distance no worse than the start.

    A phase is as long as allowed and ends at the last good state in reach; where none is in reach, at the next one there
    is. The end of the plan is the last phase's, good or not.
    """
    if most is None or order.size <= most:
        return [order] if order.size else []
    loads, distances = way.before.copy(), np.empty(order.size)
    for position, j in enumerate(order.tolist()):
        loads[problem.source[j]] -= load[j]
        loads[problem.target[j]] += load[j]
        distances[position] = way.distance(loads)
    start = float(way.distance(way.before))
    good = np.flatnonzero(distances <= start * (1 + 1e-12) + 1e-12 * abs(way.mean))
    phases, begin = [], 0
    while begin < order.size:
        within = good[(good >= begin) & (good < begin + most)]
        beyond = good[good >= begin + most]
        last = order.size - 1 if not within.size and not beyond.size else int(within[-1] if within.size else beyond[0])
        if order.size - begin <= most:
            last = order.size - 1
        phases.append(order[begin : last + 1])
        begin = last + 1
    return phases

"""The small keys rounded around large ones whose nodes are given: each overloaded node sheds what it must, and hardly more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import CompactKeys
from keyshift.models.workload import IntArray
from keyshift.solvers.routing import rounding_kernels as kernels

PRICES = np.concatenate([[0.0], 4.0 ** np.arange(-4, 9)])
"""What an entry is taken to cost, in median states: from no matter to all that matters."""


def rounded(problem: MixedRouting, keys: CompactKeys, placed: tuple[IntArray, IntArray]) -> Iterator[IntArray]:
    """Assignments with some records at given nodes, the cheapest first; they may need too many entries, or too much room.

    At each price of an entry every node sheds what it has too much, the cheapest by unit of load first, and a key only
    where it fits; what leaves goes where most room is. No guarantee; O(r log r + n times the keys that leave) a price.
    """
    record, node = placed
    at, n = keys.current.copy(), problem.workload.nodes
    at[record] = node
    used = np.bincount(at, keys.load * keys.count, n)
    limit, enough = problem.upper + 0.5 * problem.slack, 0.25 * problem.slack
    small = np.ones(keys.size, dtype=bool)
    small[record] = False
    positive = keys.state[small & (keys.state > 0)]
    unit = float(np.median(positive)) if positive.size else 1.0
    by_node = [np.flatnonzero(small & (at == i)) for i in range(n)]
    plans = {}
    for price in PRICES * unit:
        taken = np.zeros(keys.size, dtype=np.int64)
        for i in np.flatnonzero(used > limit):
            on = by_node[i]
            with np.errstate(divide="ignore", invalid="ignore"):
                worth = (keys.state[on] + np.where(keys.home[on] == i, price, -price)) / keys.load[on]
            order = on[np.lexsort((-keys.load[on], worth))]
            kernels.shed(order, keys.load, keys.count, used[i] - limit[i], enough, taken)
        plans[taken.tobytes()] = taken
    for taken in sorted(plans.values(), key=lambda taken: float(keys.state @ taken)):
        yield _carried_out(problem, keys, at, taken, used - np.bincount(at, keys.load * taken, n))


def _carried_out(problem: MixedRouting, keys: CompactKeys, at: IntArray, taken: IntArray, used: np.ndarray) -> IntArray:
    movers = np.flatnonzero(taken)
    movers = movers[np.argsort(-keys.load[movers], kind="stable")]
    to = np.empty(int(taken.sum()), dtype=np.int64)
    kept, limit = problem.workload.kept, problem.upper + 0.5 * problem.slack
    kernels.place(movers, keys.load, taken, at, keys.home, kept, limit, used, to)
    every, gone = np.arange(keys.size), np.repeat(movers, taken[movers])
    return keys.expand(
        np.concatenate([every, gone]), np.concatenate([at, to]), np.concatenate([keys.count - taken, np.ones_like(to)])
    )

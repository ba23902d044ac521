"""The small keys rounded around large ones whose nodes are given: each overloaded node sheds what it must, and hardly more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from keyshift.models import Budget
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import CompactKeys
from keyshift.models.workload import IntArray
from keyshift.solvers.routing import rounding_kernels as kernels

PRICES = np.concatenate([[0.0], 4.0 ** np.arange(-4, 9)])
"""What an entry is taken to cost, in median states: from no matter to all that matters."""


ROUNDS = 8
"""How often keys that found no room stay instead, and others leave for them."""


def rounded(
    problem: MixedRouting, keys: CompactKeys, placed: tuple[IntArray, IntArray], budget: Budget
) -> Iterator[IntArray]:
    """Assignments with some records at given nodes, the cheapest first; they may need too many entries, or too much room.

    At each price of an entry every node sheds what it has too much, the cheapest by unit of load first, and a key only
    where it fits; what leaves goes home or where most room is. What finds no room there stays, and the node sheds others. No
    guarantee; O(r log r + n times the keys that leave) a price.
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
    full = {int(i): np.flatnonzero(small & (at == i)) for i in np.flatnonzero(used > limit)}
    plans: dict[bytes, tuple[IntArray, IntArray]] = {}
    for price, few in product(PRICES * unit, (False, True)):
        orders = {i: _cheapest_first(keys, on, i, price) for i, on in full.items()}
        stays = np.zeros(keys.size, dtype=bool)
        for _ in range(ROUNDS):
            taken = np.zeros(keys.size, dtype=np.int64)
            for i, order in orders.items():
                kernels.shed(order[~stays[order]], keys.load, keys.count, used[i] - limit[i], enough, few, taken)
            gone = _heaviest_first(keys, taken)
            if budget.expired or (name := gone.tobytes()) in plans:
                break
            to, room = np.empty_like(gone), used - np.bincount(at, keys.load * taken, n)
            kernels.place(gone, keys.load, at, keys.home, problem.workload.kept, limit, room, to)
            plans[name] = gone, to
            misfits = gone[to < 0]
            stays[misfits] = problem.workload.kept[at[misfits]]
            if not stays[misfits].any():
                break
    for gone, to in sorted(plans.values(), key=lambda plan: float(keys.state[plan[0]].sum())):
        every, rest = np.arange(keys.size), keys.count - np.bincount(gone, minlength=keys.size)
        node = np.concatenate([at, np.where(to < 0, at[gone], to)])
        yield keys.expand(np.concatenate([every, gone]), node, np.concatenate([rest, np.ones_like(to)]))


def _cheapest_first(keys: CompactKeys, on: IntArray, i: int, price: float) -> IntArray:
    """The records of node i by what a unit of load costs to move away; among equals the heaviest first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = (keys.state[on] + np.where(keys.home[on] == i, price, -price)) / keys.load[on]
    return on[np.lexsort((-keys.load[on], worth))]


def _heaviest_first(keys: CompactKeys, taken: IntArray) -> IntArray:
    """The record of each key that leaves."""
    movers = np.flatnonzero(taken)
    movers = movers[np.argsort(-keys.load[movers], kind="stable")]
    return np.repeat(movers, taken[movers])

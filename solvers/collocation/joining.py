"""Joins by falling gain: the search for collocated allocations that are too large to be annealed.

The annealing has the traffic of each key group with each node in memory, O(p n) numbers; this one has what the instance has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.collocation.arrays import Arrays

FALL, LEVELS = 0.75, 30
"""Each level takes gains from this share of the one before's, so many levels in a descent."""


class Joins(NamedTuple):
    """An assignment, what it takes of each limit, and the arrays of the instance."""

    place: IntArray
    held: FloatArray
    """Load of each node in each window, shape (k, n)."""
    used: FloatArray
    spent: FloatArray
    """Moves and their cost, in units of its limit, shape (2,)."""
    tie: FloatArray
    """Scratch: traffic of one key group with each node, shape (n,)."""
    current: IntArray
    kind: IntArray
    enter: BoolArray
    load: FloatArray
    use: FloatArray
    upper: FloatArray
    lower: FloatArray
    capacity: FloatArray
    move_cost: FloatArray
    max_moves: int
    indptr: IntArray
    neighbour: IntArray
    weight: FloatArray


@njit(**LEAF)
def may_go(k, target, it):
    """Whether a key group may go to a node: limits on moves, loads and resources are kept there and where it leaves."""
    source, home = it.place[k], it.current[k]
    if target != home:
        if not it.enter[it.kind[k], target]:
            return False
        if source == home and (it.spent[0] >= it.max_moves or it.spent[1] + it.move_cost[k] > 1.0):
            return False
    for s in range(it.load.shape[0]):
        if it.held[s, target] + it.load[s, k] > it.upper[s, target]:
            return False
        if it.held[s, source] - it.load[s, k] < it.lower[s, source]:
            return False
    for r in range(it.use.shape[0]):  # noqa: SIM110  # compiled
        if it.used[r, target] + it.use[r, k] > it.capacity[r, target]:
            return False
    return True


@njit(**LEAF)
def go(k, target, it):
    """Put a key group on a node."""
    source, home = it.place[k], it.current[k]
    for s in range(it.load.shape[0]):
        it.held[s, source] -= it.load[s, k]
        it.held[s, target] += it.load[s, k]
    for r in range(it.use.shape[0]):
        it.used[r, source] -= it.use[r, k]
        it.used[r, target] += it.use[r, k]
    more = (1.0 if target != home else 0.0) - (1.0 if source != home else 0.0)
    it.spent[0] += more
    it.spent[1] += more * it.move_cost[k]
    it.place[k] = target


@njit(cache=True, error_model="numpy", nogil=True)
def join_from(order, least, it):
    """Each key group goes where most of its traffic is, if that gains more than `least`; how many went, and the largest gain."""
    went, largest = 0, 0.0
    for x in range(order.size):
        k = order[x]
        source, best = it.place[k], -1
        for e in range(it.indptr[k], it.indptr[k + 1]):
            it.tie[it.place[it.neighbour[e]]] += it.weight[e]
        own = it.tie[source]
        most = own + least
        for e in range(it.indptr[k], it.indptr[k + 1]):
            i = it.place[it.neighbour[e]]
            if i != source and it.tie[i] - own > largest:
                largest = it.tie[i] - own
            if i != source and it.tie[i] > most and may_go(k, i, it):
                best, most = i, it.tie[i]
        for e in range(it.indptr[k], it.indptr[k + 1]):
            it.tie[it.place[it.neighbour[e]]] = 0.0
        if best >= 0:
            go(k, best, it)
            went += 1
    return went, largest


@njit(**LEAF)
def room_on(i, it):
    """How far a node is below its upper limits, in the window where that is least."""
    room = np.inf
    for s in range(it.load.shape[0]):
        room = min(room, it.upper[s, i] - it.held[s, i])
    return room


@njit(**LEAF)
def neediest(open_nodes, it):
    """The node that may be entered and is farthest below a lower limit, else that with most room; whether it is below."""
    best, most, worst, need = open_nodes[0], -np.inf, open_nodes[0], 0.0
    for x in range(open_nodes.size):
        i = open_nodes[x]
        room = room_on(i, it)
        if room > most:
            best, most = i, room
        for s in range(it.load.shape[0]):
            if it.lower[s, i] - it.held[s, i] > need:
                worst, need = i, it.lower[s, i] - it.held[s, i]
    return (worst, True) if need > 0.0 else (best, False)


@njit(cache=True, error_model="numpy", nogil=True)
def leave_full(order, open_nodes, it):
    """Key groups leave nodes above their limits, in this order, and come to nodes below theirs, each to where most room is."""
    target, short = neediest(open_nodes, it)
    for x in range(order.size):
        k = order[x]
        source = it.place[k]
        if source != target and (short or room_on(source, it) < 0.0) and may_go(k, target, it):
            go(k, target, it)
            target, short = neediest(open_nodes, it)


def joined(
    problem: CollocatedAllocation, data: Arrays, start: IntArray | None, budget: Budget, seed: int
) -> IntArray | None:
    """The best assignment that joins find from the start, by default from where everything runs now.

    Where that breaks limits, key groups first leave nodes above theirs, those with least traffic there before the others; None
    where that does not suffice.

    A descent takes the largest gains first: of few moves, those that gain most. The next one goes on from the best, its key
    groups in another order, until one gains little. No guarantee; a level takes O(p + pairs).
    """
    base = problem.workload.current if start is None else start
    plain = data.serialisation.max() == 0 and not problem.rules  # else what a step changes is not about two nodes alone
    if plain and not kept(problem, base, None):
        it = _from(problem, data, base)
        ends = np.repeat(np.arange(data.key_groups), np.diff(data.indptr))
        own = np.bincount(ends, it.weight * (it.place[data.neighbour] == it.place[ends]), data.key_groups)
        leave_full(np.argsort(own, kind="stable"), np.flatnonzero(problem.allocation.space.open), it)
        base = it.place
    if not kept(problem, base, None):
        return None
    best, value = base.copy(), problem.objective(base)
    if not plain:
        return best
    rng, gained = np.random.default_rng([seed, 91]), True
    while gained and not budget.expired:
        it = _from(problem, data, best)
        order = rng.permutation(data.key_groups)
        least = 0.0
        for level in range(LEVELS):
            went, largest = join_from(order, max(least, 1e-12), it)
            budget.spend(10.0 * order.size)
            if level == 0 and not budget.expired:
                it = _from(problem, data, best)  # that pass said how large gains are
                least = largest
            least = 0.0 if level == LEVELS - 2 else least * FALL
            if budget.expired or (least == 0.0 and went == 0):
                break
        gained = kept(problem, it.place, None) and problem.objective(it.place) < value * (1 - 1e-4)
        if kept(problem, it.place, None) and problem.objective(it.place) < value:
            best, value = it.place.copy(), problem.objective(it.place)
            budget.report(objective=value, note="joins")
    return best


def _from(problem: CollocatedAllocation, data: Arrays, assignment: IntArray) -> Joins:
    """What joins keep in step, from an assignment on."""
    space, away = problem.allocation.space, assignment != data.current
    held = np.array([np.bincount(assignment, row, data.nodes) for row in data.remote_load])
    spent = np.array([away.sum(), data.cost_share[away].sum()], dtype=float)
    return Joins(
        assignment.astype(np.int64), held, data.used(assignment), spent, np.zeros(data.nodes), data.current, space.kind,
        space.enter,
        data.remote_load, data.use, data.upper, data.lower, data.room, data.cost_share, data.max_moves, data.indptr,
        data.neighbour, data.mean_weight,
    )  # fmt: skip

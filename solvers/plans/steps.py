"""Steps of a plan: an order of moves that overloads no node, cut so that after every phase the state is a good one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.compiling import njit
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.plans.way import RuledWay, Way
from keyshift.models.rules.lowered import ROUNDING
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.plans.fast import Transfers, compiled, hold

EXACT = 14
"""The most moves whose orders are all examined: O(2^e e)."""


@dataclass(frozen=True, eq=False)
class Order:
    """An order of the moves, by what share of a limit it overloads some node, and what no order avoids."""

    order: IntArray
    overload: float
    bound: float


def order_of(problem: TransferScheduling, way: Way, load: FloatArray) -> Order:
    """Order the moves so that nodes are overloaded least, and so that the state on the way is good.

    One transfer at a time never needs more room than many: whatever schedule meets the limits, the order of its ends
    does. For up to `EXACT` moves the least overload is found among all orders (over sets of done moves,
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
    if problem.limited and count <= EXACT:
        allowed, order = best_order(_overloads(problem))
        bound = allowed
    # Figures looked at for an order: with more moves, fewer of those that wait are looked at in each step.
    wide = int(min(count, max(50, 3e8 / max(1, count * way.nodes))))
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


def _sets(count: int) -> IntArray:
    """All sets of so many things as rows of 0 and 1; the number of the row has the same bits, shape (2^count, count)."""
    return np.arange(1 << count)[:, None] >> np.arange(count) & 1


def _overloads(p: TransferScheduling) -> FloatArray:
    """By what share of its limit the target of each transfer is overloaded once a set is done, shape (2^e, e)."""
    done = _sets(p.transfers)
    found = np.empty(done.shape)
    for j, i in enumerate(p.target.tolist()):
        change = p.usage * ((p.target == i) * 1.0 - (p.source == i))
        level = p.held[:, i] + p.usage[:, j] + done @ change.T
        found[:, j] = (level / p.limit[:, i] - 1).max(axis=1, initial=0.0)
    return found


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


# Compiled orders of moves: which goes first so that no node is overloaded and every stop leaves a good state -----------


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
def best_order(costs: np.ndarray) -> tuple[float, np.ndarray]:
    """The order of all whose largest cost is least, and that cost; O(2^count count).

    Parameters
    ----------
    costs : float64 (2^count, count)
        Of each that comes when a set, by its bits, is done; at least 0.
    """
    sets, count = costs.shape
    worst, last = np.full(sets, np.inf), np.zeros(sets, np.int64)
    worst[0] = 0.0
    for done in range(sets):
        for j in range(count):
            then = done | (1 << j)
            reached = max(worst[done], costs[done, j])
            if then != done and reached < worst[then]:
                worst[then], last[then] = reached, j
    order, done = np.empty(count, np.int64), sets - 1
    for at in range(count - 1, -1, -1):
        order[at] = last[done]
        done ^= 1 << order[at]
    return worst[-1], order


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
        hold(p, level, j, p.source[j], -1.0)
        hold(p, level, j, p.target[j], 1.0)
        left -= 1
        waiting[best] = waiting[left]
    return order


# Phases that keep rules: which moves may overlap, and which have to wait for others ----------------------------------


@dataclass(frozen=True, eq=False)
class Phases:
    """Moves by phase, by how much rooms are exceeded on the way, and what no order avoids."""

    moves: list[IntArray]
    broken: float
    bound: float


def ruled_phases(way: RuledWay, order: IntArray) -> Phases:
    """Phases in each of which moves may overlap at will without breaking a rule, or break rules as little as can be.

    A phase takes, in the given order, every unit of moves that (1) of `keyshift.models.plans.way` lets join. Where none
    may go first, the one that breaks least goes alone. Of up to `EXACT` units all orders are searched where that breaks
    anything (over sets of done units, O(2^u u)). Of more, it is proven best where no room is entered by two units and none has
    a least: then a move that can be made never stands in another's way, and whoever is stuck is stuck in every order.
    """
    units = list(dict.fromkeys(way.unit[order].tolist()))
    chosen, broken, bound = _greedy(way, units)
    if broken > 0 and way.units <= EXACT:
        net = np.zeros((way.units, way.held.size))
        for u, (rooms, into, out) in enumerate(way.touched):
            net[u, rooms] = into - out
        excess = way.excess(way.held + _sets(way.units) @ net)
        bound, exact = best_order(excess[np.arange(excess.size)[:, None] | 1 << np.arange(way.units)])
        if broken > bound * (1 + ROUNDING):
            chosen, broken = _greedy(way, exact.tolist(), strict=True)[0], bound
    members: list[list[int]] = [[] for _ in range(way.units)]
    for move in order.tolist():
        members[way.unit[move]].append(move)
    moves = [np.array([m for u in part for m in members[u]], dtype=np.int64) for part in chosen]
    return Phases(moves, broken, min(bound, broken))


def _joins(way: RuledWay, high: FloatArray, low: FloatArray, u: int) -> bool:
    rooms, into, out = way.touched[u]
    fits = (into == 0) | (high[rooms] + into <= way.most[rooms] * (1 + ROUNDING))
    stays = (out == 0) | (low[rooms] - out >= way.least[rooms] * (1 - ROUNDING))
    return bool((fits & stays).all())


def _greedy(way: RuledWay, waiting: list[int], strict: bool = False) -> tuple[list[list[int]], float, float]:
    """Phases as long as they can be, `strict` in the order given; by how much they break rooms; what no order avoids."""
    held, worst, bound, phases = way.held, 0.0, 0.0, []
    while waiting:
        high, low = held.copy(), held.copy()
        phase, rest = [], []
        for u in waiting:
            if not (strict and rest) and _joins(way, high, low, u):
                rooms, into, out = way.touched[u]
                high[rooms] += into
                low[rooms] -= out
                phase.append(u)
            else:
                rest.append(u)
        if not phase:
            breaks = {u: float(way.excess(way.after(held, [u]))) for u in rest[: 1 if strict else None]}
            phase = [min(breaks, key=breaks.__getitem__)]
            if worst == 0 and _slots(way):
                bound = breaks[phase[0]]
            rest.remove(phase[0])
        held = way.after(held, phase)
        worst = max(worst, float(way.excess(held)))
        phases.append(phase)
        waiting = rest
    return phases, worst, bound


def _slots(way: RuledWay) -> bool:
    """Whether no room is entered by two units, and none is held from below."""
    entered = np.zeros(way.held.size, dtype=int)
    for rooms, into, _ in way.touched:
        entered[rooms] += into > 0
    lost = any((way.least[rooms][out > 0] > 0).any() for rooms, _, out in way.touched)
    return bool((entered <= 1).all()) and not lost

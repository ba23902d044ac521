"""A plan's order of moves, its phases, and their schedules: nothing overloaded that need not be, every stop a good state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from keyshift.models import Budget
from keyshift.models.base.compiling import njit
from keyshift.models.plans.transfers import RuledWay, TransferScheduling, Way
from keyshift.models.rules.lowered import ROUNDING
from keyshift.models.workload import BoolArray, FloatArray, IntArray

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
    count = problem.transfers
    allowed, bound, order = 0.0, 0.0, None
    if problem.limited and count <= EXACT:
        allowed, order = best_order(_overloads(problem))
        bound = allowed
    gentle = _gentle_order(problem, way, load, allowed)
    overload = overload_of(problem, gentle)
    if order is None or overload <= allowed * (1 + 1e-9) + 1e-12:
        return Order(gentle, overload, min(bound, overload))
    return Order(order, allowed, bound)


def overload_of(problem: TransferScheduling, order: IntArray) -> float:
    """The worst overload when moves go one at a time in an order, as a share of a limit."""
    level, worst = problem.held.copy(), 0.0
    for j in order.tolist() if problem.limited else ():
        worst = max(worst, float(_overload(problem, level, np.array([j]))[0]))
        level[:, problem.source[j]] -= problem.usage[:, j]
        level[:, problem.target[j]] += problem.usage[:, j]
    return worst


def _overload(p: TransferScheduling, level: FloatArray, moves: IntArray) -> FloatArray:
    """By what share of its limit the target of each move would be overloaded while it alone runs; 0 where it has room."""
    at = p.target[moves]
    found: FloatArray = ((level[:, at] + p.usage[:, moves]) / p.limit[:, at] - 1).max(axis=0, initial=0.0)
    return found


def _gentle_order(p: TransferScheduling, way: Way, load: FloatArray, allowed: float) -> IntArray:
    """Always the move that leaves the best state, among those that overload no node by more than is allowed."""
    count, loads, level = p.transfers, way.before.copy(), p.held.copy()
    # Moves looked at for an order: with more of them, fewer of those that wait are looked at in each step.
    wide = int(max(50, 1e8 / max(1, count)))
    waiting, order, work = np.arange(count), np.empty(count, dtype=np.int64), np.zeros(way.nodes)
    for step in range(count):
        look = waiting[: min(wide, count - step)]
        u, v = p.source[look], p.target[look]
        over = np.maximum(allowed, _overload(p, level, look))
        here = way.distances(loads, load[look], u, v)
        # Of equally good ones the one whose ends have least to do so far: a phase of them is short.
        best = int(np.lexsort((np.maximum(work[u], work[v]), here, over))[0])
        order[step] = j = look[best]
        work[[p.source[j], p.target[j]]] += p.seconds[j]
        loads[p.source[j]] -= load[j]
        loads[p.target[j]] += load[j]
        level[:, p.source[j]] -= p.usage[:, j]
        level[:, p.target[j]] += p.usage[:, j]
        waiting[best] = waiting[count - step - 1]
    return order


def _subsets(count: int) -> IntArray:
    """All sets of so many things as rows of 0 and 1; the number of the row has the same bits, shape (2^count, count)."""
    return np.arange(1 << count)[:, None] >> np.arange(count) & 1


def _overloads(p: TransferScheduling) -> FloatArray:
    """By what share of its limit the target of each transfer is overloaded once a set is done, shape (2^e, e)."""
    done = _subsets(p.transfers)
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


# Phases that keep rules: which moves may overlap, and which have to wait for others ----------------------------------


@dataclass(frozen=True, eq=False)
class Phases:
    """Moves by phase, by how much rooms are exceeded on the way, and what no order avoids."""

    moves: list[IntArray]
    broken: float
    bound: float


def ruled_phases(way: RuledWay, order: IntArray) -> Phases:
    """Phases in each of which moves may overlap at will without breaking a rule, or break rules as little as can be.

    A phase takes, in the given order, every unit of moves that (1) of `keyshift.models.plans.transfers` lets join. Where none
    may go first, the one that breaks least goes alone. Of up to `EXACT` units all orders are searched where that breaks
    anything (over sets of done units, O(2^u u)). Of more, it is proven best where no room is entered by two units and none has
    a least: then a move that can be made never stands in another's way, and a move that is stuck is stuck in every order.
    """
    units = list(dict.fromkeys(way.unit[order].tolist()))
    chosen, broken, bound = _greedy(way, units)
    if broken > 0 and way.units <= EXACT:
        net = np.zeros((way.units, way.held.size))
        for u, (rooms, into, out) in enumerate(way.touched):
            net[u, rooms] = into - out
        excess = way.excess(way.held + _subsets(way.units) @ net)
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
        phase, rest = list[int](), list[int]()
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


# Schedules of phases: lists that learn from what ended late -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Schedule:
    """Starts of the transfers, the end of the last one, and a proven lower bound on it."""

    starts: FloatArray
    seconds: float
    bound: float

    @property
    def optimal(self) -> bool:
        """Whether nothing shorter is possible."""
        return self.seconds <= self.bound * (1 + 1e-9)


def fast_schedule(
    problem: TransferScheduling,
    budget: Budget | None = None,
    seed: int = 0,
    order: IntArray | None = None,
) -> Schedule:
    """A short schedule, with a lower bound.

    List schedules (Graham 1969; for transfers Coffman et al. 1985): whenever both ends of a waiting transfer have room,
    the one of highest priority starts. Priorities begin as the work of the busier end, so that the busiest node never
    waits for what can wait, and are then changed where the schedule hurts: transfers that end after the bound call
    for higher priorities at their ends (squeaky wheel, Joslin and Clements 1999). The best schedule of all tries
    is kept; without limits it is never longer than a list schedule's guarantee (`TransferScheduling`).

    Parameters
    ----------
    problem : TransferScheduling
    budget : Budget, optional
    seed : int, default 0
    order : ndarray of int, optional
        An order that meets the limits one transfer at a time; needed where the problem has limits.
    """
    bound = lower_bound(problem)
    if problem.transfers == 0:
        return Schedule(np.empty(0), 0.0, 0.0)
    p, rng, budget = problem, np.random.default_rng(seed), budget or Budget()
    held, usage, limit = (np.ascontiguousarray(part, dtype=float) for part in (p.held, p.usage, p.limit))
    data = (p.source, p.target, p.seconds, p.parallel, held, usage, limit)
    starts = np.empty(p.transfers)
    best = Schedule(starts, np.inf, bound)
    if order is not None:
        seconds = schedule(order, starts, True, *data)
        best = Schedule(starts.copy(), seconds, bound)
    work = _work(p)
    learnt = np.maximum(work[p.source], work[p.target]) / work.max() + 0.1 * p.seconds / p.seconds.max()
    kept, since = learnt.copy(), 0
    # Transfers started over all list schedules: large plans get fewer of them.
    for attempt in range(min(1_000, max(20, int(300_000 / p.transfers)))):
        if best.optimal or (attempt > 0 and budget.expired):
            break
        noise = 1 + 0.1 * rng.standard_normal(p.transfers) if attempt else 1.0
        seconds = schedule(np.argsort(-learnt * noise, kind="stable"), starts, False, *data)
        since += 1
        if seconds < best.seconds:
            best, kept, since = Schedule(starts.copy(), seconds, bound), learnt.copy(), 0
        elif since > 40:
            learnt, since = kept.copy(), 0
        late = starts + p.seconds > bound * (1 + 1e-9)
        learnt[late] *= 1 + 0.3 * rng.random(int(late.sum()))
    return best


def _work(p: TransferScheduling) -> FloatArray:
    """Seconds of all transfers of each node."""
    return np.bincount(np.r_[p.source, p.target], weights=np.r_[p.seconds, p.seconds], minlength=p.nodes)


# How long a plan must take at least: the longest transfer, the busiest node, the busiest set of nodes ------------------


def lower_bound(problem: TransferScheduling) -> float:
    r"""Seconds that no schedule goes below, limits on the way left out.

    At a node at most m transfers run at once, and among the nodes of a set I, with both ends in it, at most
    :math:`\lfloor m |I| / 2 \rfloor`. Transfers of which at most f run at once fit f machines, so that all bounds on
    the makespan of f parallel machines hold for them (`machine_bound`). Singletons give the busiest node, odd sets the
    bound of Edmonds for edge colouring; of those, the sets of the ten busiest nodes are looked at.
    """
    if problem.transfers == 0:
        return 0.0
    m, p = problem.parallel, problem.seconds
    best = float(p.max())
    for i in range(problem.nodes):
        best = max(best, machine_bound(p[(problem.source == i) | (problem.target == i)], m))
    for inside in _sets(problem):
        best = max(best, machine_bound(p[inside[problem.source] & inside[problem.target]], m * int(inside.sum()) // 2))
    # Sums of floats are off by less.
    return best * (1 - 1e-12)


def machine_bound(seconds: FloatArray, machines: int) -> float:
    r"""A lower bound on the makespan of jobs on parallel machines.

    The total over the number of machines f; and for every h, of the :math:`h f + 1` longest jobs some machine gets
    h + 1, at least the h + 1 shortest of them.
    """
    if seconds.size == 0:
        return 0.0
    falling = np.sort(seconds)[::-1]
    sums = np.concatenate([[0.0], np.cumsum(falling)])
    h = np.arange((falling.size - 1) // machines + 1)
    jobs = h * machines + 1
    return max(float(sums[-1]) / machines, float((sums[jobs] - sums[jobs - h - 1]).max()))


def _sets(problem: TransferScheduling) -> Iterator[BoolArray]:
    """Sets of at least three of the ten busiest nodes, which may bound more than their nodes do."""
    work = _work(problem)
    busy = np.argsort(-work, kind="stable")[: min(10, int((work > 0).sum()))].tolist()
    for size in range(3, len(busy) + 1):
        # With an even m, m |I| / 2 is whole: a set that others send to says no more than its nodes' own bounds.
        for nodes in combinations(busy, size) if problem.parallel % 2 or size == len(busy) else ():
            inside = np.zeros(work.size, dtype=bool)
            inside[list(nodes)] = True
            yield inside


# The compiled loop ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def schedule(
    order: np.ndarray, starts: np.ndarray, strict: bool, source: np.ndarray, target: np.ndarray, seconds: np.ndarray,
    parallel: int, held: np.ndarray, usage: np.ndarray, limit: np.ndarray,
) -> float:  # fmt: skip
    """Start transfers as early as possible; of those that could start at a moment, the first in the list goes first.

    Parameters
    ----------
    order : int64 (e,)
        The list.
    starts : float64 (e,)
        Filled in.
    strict : bool
        Whether a transfer also waits for all that are before it in the list. An order that meets the limits one transfer
        at a time then always ends; else no transfer waits that could start.
    source, target, seconds, parallel, held, usage, limit
        As in `TransferScheduling`.

    Returns
    -------
    float
        The end of the last transfer; infinite where the limits leave every waiting transfer without room.
    """
    count = order.size
    free = np.full(held.shape[1], parallel)
    level, most = held.copy(), limit * (1 + 1e-12)
    waiting, active = order.copy(), np.empty(count, np.int64)
    left, running, now, last = count, 0, 0.0, 0.0
    while left > 0:
        kept = 0
        for at in range(left):
            j = waiting[at]
            u, v = source[j], target[j]
            starting = free[u] > 0 and free[v] > 0 and not (strict and kept > 0)
            for r in range(level.shape[0]):
                starting = starting and level[r, v] + usage[r, j] <= most[r, v]
            if not starting:
                waiting[kept] = j
                kept += 1
                continue
            starts[j] = now
            last = max(last, now + seconds[j])
            free[u] -= 1
            free[v] -= 1
            level[:, v] += usage[:, j]
            active[running] = j
            running += 1
        left = kept
        if running == 0:
            return np.inf
        now = np.inf
        for j in active[:running]:
            now = min(now, starts[j] + seconds[j])
        kept = 0
        for j in active[:running]:
            if starts[j] + seconds[j] <= now * (1 + 1e-12):
                free[source[j]] += 1
                free[target[j]] += 1
                level[:, source[j]] -= usage[:, j]
            else:
                active[kept] = j
                kept += 1
        running = kept
    return last

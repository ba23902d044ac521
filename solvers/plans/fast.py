"""Fast schedules for plans of any size: list schedules whose list learns from what ended late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.compiling import njit
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.workload import BoolArray, FloatArray, IntArray


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


def compiled(problem: TransferScheduling) -> Transfers:
    """The problem as plain arrays."""
    return Transfers(
        np.ascontiguousarray(problem.source, dtype=np.int64),
        np.ascontiguousarray(problem.target, dtype=np.int64),
        np.ascontiguousarray(problem.seconds, dtype=np.float64),
        int(problem.parallel),
        np.ascontiguousarray(problem.held, dtype=np.float64),
        np.ascontiguousarray(problem.usage, dtype=np.float64),
        np.ascontiguousarray(problem.limit, dtype=np.float64),
    )


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
    search = _Search(problem, bound, np.random.default_rng(seed))
    if order is not None:
        search.try_in_order(order)
    search.run(budget or Budget())
    return Schedule(search.best_starts, search.best, bound)


class _Search:
    def __init__(self, problem: TransferScheduling, bound: float, rng: np.random.Generator) -> None:
        self.problem, self.arrays, self.bound, self.rng = problem, compiled(problem), bound, rng
        self.best, self.best_starts = np.inf, np.zeros(problem.transfers)
        self.starts = np.empty(problem.transfers)

    def try_in_order(self, order: IntArray) -> None:
        """Keep the schedule of an order that is known to meet the limits."""
        self._keep(ordered_schedule(order, self.arrays, self.starts))

    def run(self, budget: Budget) -> None:
        """List schedules with learning priorities until the bound is met, or tries or time run out."""
        p = self.problem
        bases = (self._busiest_first(), self._spread())
        learnt, kept, since = bases[0], bases[0].copy(), 0
        # Transfers started over all list schedules: large plans get fewer of them.
        for attempt in range(min(1_000, max(20, int(300_000 / p.transfers)))):
            if self.best <= self.bound * (1 + 1e-9) or (attempt > 0 and budget.expired):
                return
            if attempt < len(bases):
                learnt = bases[attempt].copy()
            noise = 1.0 if attempt < len(bases) else 1 + 0.1 * self.rng.standard_normal(p.transfers)
            order = np.argsort(-learnt * noise, kind="stable")
            if self._keep(list_schedule(order, self.arrays, self.starts)):
                kept, since = learnt.copy(), 0
            else:
                since += 1
            if since > 40 or attempt == len(bases) - 1:
                learnt, since = kept.copy(), 0
            late = self.starts + p.seconds > self.bound * (1 + 1e-9)
            learnt[late] *= 1 + 0.3 * self.rng.random(int(late.sum()))

    def _busiest_first(self) -> FloatArray:
        """Work of the busier end, then length: the busiest node never waits for what can wait."""
        p = self.problem
        work = np.bincount(p.source, weights=p.seconds, minlength=p.nodes)
        work += np.bincount(p.target, weights=p.seconds, minlength=p.nodes)
        return np.maximum(work[p.source], work[p.target]) / work.max() + 0.1 * p.seconds / p.seconds.max()

    def _spread(self) -> FloatArray:
        """The transfers between each two nodes spread evenly over the time, as a fluid would flow: for large plans."""
        p = self.problem
        pair = np.minimum(p.source, p.target) * p.nodes + np.maximum(p.source, p.target)
        order = np.lexsort((-p.seconds, pair))
        totals = np.bincount(pair, weights=p.seconds)
        run = np.cumsum(p.seconds[order])
        first = np.searchsorted(pair[order], pair[order])
        begun = run - p.seconds[order]
        share = np.empty(p.transfers)
        share[order] = (run - begun[first] - 0.5 * p.seconds[order]) / totals[pair[order]]
        return 1.5 - share

    def _keep(self, seconds: float) -> bool:
        if not seconds < self.best:
            return False
        self.best, self.best_starts = seconds, self.starts.copy()
        return True


# How long a plan must take at least: the longest transfer, the busiest node, the busiest set of nodes ------------------


def lower_bound(problem: TransferScheduling) -> float:
    r"""Seconds that no schedule goes below, limits on the way left out.

    At a node at most m transfers run at once, and among the nodes of a set I, with both ends in it, at most
    :math:`\lfloor m |I| / 2 \rfloor`. Transfers of which at most f run at once fit f machines, so that all bounds on
    the makespan of f parallel machines hold for them (`machine_bound`). Singletons give the busiest node, odd sets the
    bound of Edmonds for edge colouring; of large sets some are looked at: triples, and the busiest nodes.
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
    """Sets of at least three nodes that may bound more than their nodes do."""
    n = problem.nodes
    work = np.bincount(problem.source, weights=problem.seconds, minlength=n)
    work += np.bincount(problem.target, weights=problem.seconds, minlength=n)
    busy = np.argsort(-work, kind="stable")[: int((work > 0).sum())]
    chosen: Iterator[tuple[int, ...]]
    if busy.size <= 10:
        chosen = (s for size in range(3, busy.size + 1) for s in combinations(busy.tolist(), size))
    else:
        prefixes = (tuple(busy[:size].tolist()) for size in range(3, busy.size + 1))
        triples = combinations(busy.tolist(), 3) if busy.size <= 30 else iter(())
        chosen = (s for group in (prefixes, triples) for s in group)
    for nodes in chosen:
        if problem.parallel % 2 == 0 and len(nodes) < busy.size:
            continue  # m |I| / 2 is whole: no more than the nodes' own bounds say
        inside = np.zeros(n, dtype=bool)
        inside[list(nodes)] = True
        yield inside


# The compiled loops --------------------------------------------------------------------------------------------------


EPSILON = 1e-12


class Transfers(NamedTuple):
    """Transfer scheduling as plain arrays: e transfers, n nodes, r resources.

    source, target : int64 (e,); seconds : float64 (e,); parallel : int;
    level, limit : float64 (r, n); usage : float64 (r, e).
    """

    source: np.ndarray
    target: np.ndarray
    seconds: np.ndarray
    parallel: int
    level: np.ndarray
    usage: np.ndarray
    limit: np.ndarray


@njit(cache=True, nogil=True)
def fits(p: Transfers, level: np.ndarray, j: int) -> bool:
    """Whether the target of a transfer has room for it."""
    i = p.target[j]
    for r in range(level.shape[0]):  # noqa: SIM110  # compiled: a loop is faster than a generator
        if level[r, i] + p.usage[r, j] > p.limit[r, i] * (1 + EPSILON):
            return False
    return True


@njit(cache=True, nogil=True)
def hold(p: Transfers, level: np.ndarray, j: int, i: int, sign: float) -> None:
    """What node i holds with a transfer (sign = 1), or without it (-1)."""
    for r in range(level.shape[0]):
        level[r, i] += sign * p.usage[r, j]


@njit(cache=True, nogil=True)
def by_node(order: np.ndarray, p: Transfers) -> tuple[np.ndarray, np.ndarray]:
    """The transfers of each node, first in the list first: positions, and where each node's begin."""
    nodes = p.level.shape[1]
    first = np.zeros(nodes + 1, np.int64)
    for j in order:
        first[p.source[j] + 1] += 1
        first[p.target[j] + 1] += 1
    for i in range(nodes):
        first[i + 1] += first[i]
    fill = first[:-1].copy()
    held = np.empty(2 * order.size, np.int64)
    for position in range(order.size):
        j = order[position]
        for i in (p.source[j], p.target[j]):
            held[fill[i]] = position
            fill[i] += 1
    return held, first


@njit(cache=True, nogil=True)
def list_schedule(order: np.ndarray, p: Transfers, starts: np.ndarray) -> float:  # noqa: C901  # a compiled loop is one function
    """Never let a transfer wait that could start; among those that could, the first in the list goes first.

    Returns
    -------
    float
        The end of the last transfer; infinite where the limits leave every waiting transfer without room.
    """
    nodes, count = p.level.shape[1], order.size
    held, first = by_node(order, p)
    head = first[:-1].copy()
    free = np.full(nodes, p.parallel)
    level = p.level.copy()
    waiting = np.ones(count, np.bool_)
    active = np.empty(count, np.int64)
    fresh = np.arange(nodes)
    running, begun, now, last = 0, 0, 0.0, 0.0
    while begun < count:
        while True:  # start what can, first in the list first; only at nodes where something has changed
            best = count
            for i in fresh:
                if free[i] == 0:
                    continue
                while head[i] < first[i + 1] and not waiting[held[head[i]]]:
                    head[i] += 1
                for at in range(head[i], first[i + 1]):
                    position = held[at]
                    if position >= best:
                        break
                    j = order[position]
                    if waiting[position] and free[p.source[j]] > 0 and free[p.target[j]] > 0 and fits(p, level, j):
                        best = position
                        break
            if best == count:
                break
            j = order[best]
            waiting[best] = False
            starts[j] = now
            last = max(last, now + p.seconds[j])
            free[p.source[j]] -= 1
            free[p.target[j]] -= 1
            hold(p, level, j, p.target[j], 1.0)
            active[running] = j
            running += 1
            begun += 1
        if running == 0:
            return np.inf
        now = _next_end(active[:running], starts, p.seconds)
        left, changed = 0, 0
        touched = np.empty(2 * running, np.int64)
        for a in range(running):
            j = active[a]
            if starts[j] + p.seconds[j] <= now * (1 + EPSILON):
                free[p.source[j]] += 1
                free[p.target[j]] += 1
                hold(p, level, j, p.source[j], -1.0)
                touched[changed], touched[changed + 1] = p.source[j], p.target[j]
                changed += 2
            else:
                active[left] = j
                left += 1
        running = left
        fresh = np.unique(touched[:changed])
    return last


@njit(cache=True, nogil=True)
def _next_end(active: np.ndarray, starts: np.ndarray, seconds: np.ndarray) -> float:
    earliest = np.inf
    for j in active:
        earliest = min(earliest, starts[j] + seconds[j])
    return earliest


@njit(cache=True, nogil=True)
def ordered_schedule(order: np.ndarray, p: Transfers, starts: np.ndarray) -> float:
    """Start the transfers in exactly this order, each as early as the ones before it allow.

    Some order gives a schedule of least length, with limits or without; an order that meets the limits one transfer
    at a time always ends.

    Returns
    -------
    float
        The end of the last transfer; infinite where the order does not meet the limits.
    """
    nodes = p.level.shape[1]
    free = np.full(nodes, p.parallel)
    level = p.level.copy()
    active = np.empty(order.size, np.int64)
    running, now, last = 0, 0.0, 0.0
    for j in order:
        while free[p.source[j]] == 0 or free[p.target[j]] == 0 or not fits(p, level, j):
            if running == 0:
                return np.inf
            now = _next_end(active[:running], starts, p.seconds)
            left = 0
            for a in range(running):
                k = active[a]
                if starts[k] + p.seconds[k] <= now * (1 + EPSILON):
                    free[p.source[k]] += 1
                    free[p.target[k]] += 1
                    hold(p, level, k, p.source[k], -1.0)
                else:
                    active[left] = k
                    left += 1
            running = left
        starts[j] = now
        last = max(last, now + p.seconds[j])
        free[p.source[j]] -= 1
        free[p.target[j]] -= 1
        hold(p, level, j, p.target[j], 1.0)
        active[running] = j
        running += 1
    return last

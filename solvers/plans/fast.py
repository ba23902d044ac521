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
    p, arrays, rng, budget = problem, compiled(problem), np.random.default_rng(seed), budget or Budget()
    starts = np.empty(p.transfers)
    best = Schedule(starts, np.inf, bound)
    if order is not None:
        seconds = schedule(order, arrays, starts, True)
        best = Schedule(starts.copy(), seconds, bound)
    work = _work(p)
    learnt = np.maximum(work[p.source], work[p.target]) / work.max() + 0.1 * p.seconds / p.seconds.max()
    kept, since = learnt.copy(), 0
    # Transfers started over all list schedules: large plans get fewer of them.
    for attempt in range(min(1_000, max(20, int(300_000 / p.transfers)))):
        if best.optimal or (attempt > 0 and budget.expired):
            break
        noise = 1 + 0.1 * rng.standard_normal(p.transfers) if attempt else 1.0
        seconds = schedule(np.argsort(-learnt * noise, kind="stable"), arrays, starts, False)
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
    return sum(np.bincount(end, weights=p.seconds, minlength=p.nodes) for end in (p.source, p.target))


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
def schedule(order: np.ndarray, p: Transfers, starts: np.ndarray, strict: bool) -> float:
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

    Returns
    -------
    float
        The end of the last transfer; infinite where the limits leave every waiting transfer without room.
    """
    count = order.size
    free = np.full(p.level.shape[1], p.parallel)
    level = p.level.copy()
    waiting, active = order.copy(), np.empty(count, np.int64)
    left, running, now, last = count, 0, 0.0, 0.0
    while left > 0:
        kept = 0
        for at in range(left):
            j = waiting[at]
            if (strict and kept > 0) or free[p.source[j]] == 0 or free[p.target[j]] == 0 or not fits(p, level, j):
                waiting[kept] = j
                kept += 1
                continue
            starts[j] = now
            last = max(last, now + p.seconds[j])
            free[p.source[j]] -= 1
            free[p.target[j]] -= 1
            hold(p, level, j, p.target[j], 1.0)
            active[running] = j
            running += 1
        left = kept
        if running == 0:
            return np.inf
        now = np.inf
        for j in active[:running]:
            now = min(now, starts[j] + p.seconds[j])
        kept = 0
        for j in active[:running]:
            if starts[j] + p.seconds[j] <= now * (1 + EPSILON):
                free[p.source[j]] += 1
                free[p.target[j]] += 1
                hold(p, level, j, p.source[j], -1.0)
            else:
                active[kept] = j
                kept += 1
        running = kept
    return last

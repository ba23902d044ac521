"""LLFD, MinTable, MinMig, Mixed and MixedBF ([Fang2016], section III): which phases each runs; and Readj ([Gedik2014])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from keyshift.heuristics.routing.three_phases import RoutingPlan, RoutingPlanner
from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import njit
from keyshift.models.base.guards import Count, Finite, NonNegative, Whole, real
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import CompactKeys, discretised
from keyshift.models.workload import FloatArray

DOUBLED = 8
"""Trials of Mixed after which n at least doubles, so that their number is logarithmic in the table's size."""


def llfd_plan(problem: MixedRouting, *, everything: bool = False, keys: CompactKeys | None = None) -> RoutingPlan:
    """Phase II by load, then LLFD (algorithm 1); with ``everything``, LLFD places all keys anew.

    Theorem 1 (equal nodes, a perfect assignment exists, no key reaches the mean): theta, one-sided, is at most the
    larger of theta_max and (1 - 1/n) / 3. The paper proves it for ``everything``, where LLFD is Graham's LPT rule; it
    holds from any start and for any psi, too (proof in the lesson *Hash plus exceptions*). O(p log p + |C| n).
    """
    return RoutingPlanner(problem, "load", keys=keys).run(everything=everything)


def min_table_plan(
    problem: MixedRouting, *, keys: CompactKeys | None = None, spare: FloatArray | None = None
) -> RoutingPlan:
    """Move every entry back, then psi = heaviest first (algorithm 2). No guarantee; O(p log p + |C| n)."""
    planner = RoutingPlanner(problem, "load", keys=keys, spare=spare)
    return planner.run(planner.table_size)


def min_mig_plan(
    problem: MixedRouting, *, beta: float = 1.5, keys: CompactKeys | None = None, spare: FloatArray | None = None
) -> RoutingPlan:
    """Move nothing back, psi = largest load**beta / state first (algorithm 3). No guarantee; O(p log p + |C| n)."""
    return RoutingPlanner(problem, "gamma", beta, keys, spare).run(0)


def mixed_plan(
    problem: MixedRouting,
    *,
    beta: float = 1.5,
    keys: CompactKeys | None = None,
    spare: FloatArray | None = None,
    budget: Budget | None = None,
) -> RoutingPlan:
    """Move n entries back, smallest state first, with n growing until the new table fits (algorithm 4).

    No guarantee; O(p log p) once and O(p + |C| n) a trial, with O(log N_A) trials.

    Departures from the print: n = size - A_max is an amount still missing, not a total, and need not end the loop:
    here n grows by it, and after eight trials at least doubles. When all N_A entries are back and the table
    still does not fit, MinTable's plan is taken if its table is smaller.
    """
    planner = RoutingPlanner(problem, "gamma", beta, keys, spare)
    n, trials = 0, 0
    while True:
        plan = planner.run(n)
        trials += 1
        excess = plan.table_size - problem.table_limit
        if excess <= 0 or n >= planner.table_size or (budget is not None and budget.expired):
            break
        n = min(planner.table_size, n + (max(excess, n) if trials >= DOUBLED else excess))
    if excess > 0:
        last = min_table_plan(problem, keys=keys, spare=spare)
        trials += 1
        plan = last if last.table_size < plan.table_size else plan
    return replace(plan, trials=trials)


def mixed_bf_plan(
    problem: MixedRouting,
    *,
    beta: float = 1.5,
    trials: int | None = None,
    keys: CompactKeys | None = None,
    spare: FloatArray | None = None,
    budget: Budget | None = None,
) -> RoutingPlan:
    """Mixed with every n = 0, 1, ..., N_A, and the best plan of all. No guarantee; O((p + |C| n) N_A).

    Parameters
    ----------
    trials : int, optional
        Try only this many values of n, evenly spread; None tries all, until the budget ends.
    """
    planner = RoutingPlanner(problem, "gamma", beta, keys, spare)
    every = np.arange(planner.table_size + 1)
    if trials is not None and trials < every.size:
        every = np.unique(np.linspace(0, planner.table_size, trials).round().astype(np.int64))
    best, done = None, 0
    for n in every:
        plan = planner.run(int(n))
        done += 1
        best = plan if best is None or plan.rank < best.rank else best
        if budget is not None and budget.expired:
            break
    assert best is not None
    return replace(best, trials=done, details={"to_try": float(every.size)})


def compact_plan(problem: MixedRouting, degree: int, make: Callable[..., RoutingPlan], **options: Any) -> RoutingPlan:
    """RoutingPlan on discretised records, and aim lower where the true loads turn out above a limit.

    A record's keys differ a little, so that a node planned to its limit may end above it. Then the plan is made anew,
    that much below the limit, at most five times in all. What still misses says so, as every plan does.

    Parameters
    ----------
    degree : int
        R, a power of two.
    make : callable
        One of the plans above.
    """
    keys = discretised(problem.workload, degree)
    spare = np.zeros(problem.workload.nodes)
    best: RoutingPlan | None = None
    for _ in range(5):
        plan = make(problem, keys=keys, spare=spare, **options)
        over = np.where(problem.workload.kept, plan.loads - problem.upper, 0.0)
        held = bool(over.max() <= problem.slack)
        if best is None or held or plan.rank < best.rank:
            best = plan
        if plan.forced or held:
            break
        spare = spare + 1.1 * np.maximum(over, 0.0)
    assert best is not None
    return best


# What the catalogue names ---------------------------------------------------------------------------------------


def llfd(problem: MixedRouting, *, budget: Budget, seed: int = 0, everything: bool = False) -> Answer:
    """See `llfd_plan`. Draws no random numbers; ties go to the lower index."""
    return llfd_plan(problem.averaged(), everything=everything).answer()


def min_table(problem: MixedRouting, *, budget: Budget, seed: int = 0, compact: Count | None = None) -> Answer:
    """See `min_table_plan`; ``compact=R`` is `compact_plan`. Draws no random numbers."""
    return _answer(problem, compact, min_table_plan)


def min_mig(
    problem: MixedRouting, *, budget: Budget, seed: int = 0, beta: Finite = 1.5, compact: Count | None = None
) -> Answer:
    """See `min_mig_plan`; ``compact=R`` is `compact_plan`. Draws no random numbers."""
    return _answer(problem, compact, min_mig_plan, beta=beta)


def mixed(
    problem: MixedRouting, *, budget: Budget, seed: int = 0, beta: Finite = 1.5, compact: Count | None = None
) -> Answer:
    """See `mixed_plan`; ``compact=R`` is `compact_plan`. Draws no random numbers."""
    return _answer(problem, compact, mixed_plan, beta=beta, budget=budget)


def mixed_bf(
    problem: MixedRouting,
    *,
    budget: Budget,
    seed: int = 0,
    beta: Finite = 1.5,
    trials: Count | None = None,
    compact: Count | None = None,
) -> Answer:
    """See `mixed_bf_plan`; ``compact=R`` is `compact_plan`. Draws no random numbers."""
    answer = _answer(problem, compact, mixed_bf_plan, beta=beta, trials=trials, budget=budget)
    if answer.details["trials"] < answer.details["to_try"]:
        answer.termination = budget.why
    return answer


def _answer(problem: MixedRouting, degree: int | None, make: Callable[..., RoutingPlan], **options: Any) -> Answer:
    """The plan on the full key space, or on discretised records; over k windows, of the mean load."""
    problem = problem.averaged()
    plan = make(problem, **options) if degree is None else compact_plan(problem, degree, make, **options)
    return plan.answer()


# Readj ([Gedik2014]), as [Fang2016] describes and compares it ---------------------------------------------------------


ROUNDS = 10_000


SIGMAS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Thresholds that are tried when none is given; the paper also reports the best of a few."""


def readj_plan(
    problem: MixedRouting, *, sigma: float, rounds: int = ROUNDS, budget: Budget | None = None
) -> RoutingPlan:
    """Move keys back to their hash where it has room, then move and swap heavy keys off the most loaded node.

    1. Every key in the table goes back to its hash, the heaviest first, unless that node would exceed its limit.
    2. While the most loaded node exceeds its limit: of all moves of one of its keys with load >= sigma * mean to
       another node, and all swaps of such a key with a lighter one elsewhere, the one that leaves the higher of the two
       nodes lowest is made, if that is an improvement; among equals, the one of least state.

    No guarantee; a round takes O(t_i (t + n)) for t such keys, t_i of them on the node. The table's size is not
    controlled.

    Parameters
    ----------
    sigma : float
        Share of the mean node load from which on a key takes part in step 2, >= 0.

    Notes
    -----
    Source: [Fang2016], sections V and VI, after [Gedik2014], which should be checked: its text was not at hand. The print
    names the moves, not their order or the rule of choice: those above are ours. Keys on a
    draining node that cannot go back go to the least loaded node first, which is ours as well.
    """
    w = problem.workload
    threshold = real("sigma", sigma, optional=False) * w.mean_load
    limit = problem.upper + 0.5 * problem.slack
    at = w.current.copy()
    used = np.bincount(at, weights=w.last_load, minlength=w.nodes)
    by_load = np.argsort(-w.last_load, kind="stable")
    listed = by_load[(w.current != problem.home)[by_load]]
    back = move_back(listed, w.last_load, problem.home, at, used, limit, w.kept)
    stranded = by_load[w.draining[at][by_load]]
    vacate(stranded, w.last_load, at, used, w.capacity, w.kept)
    tracked = by_load[: int(np.searchsorted(-w.last_load[by_load], -max(threshold, 1e-300), side="right"))]
    done = 0
    while done < rounds and not (budget is not None and budget.expired):
        if not one_round(tracked, w.last_load, w.state, w.current, at, used, limit, w.capacity, w.kept):
            break
        done += 1
    return RoutingPlan(problem, at, used, moved_back=int(back), details={"rounds": done, "sigma": float(sigma)})


def readj(
    problem: MixedRouting, *, budget: Budget, seed: int = 0, sigma: NonNegative | None = None, rounds: Whole = ROUNDS
) -> Answer:
    """See `readj_plan`; without ``sigma``, the best of `SIGMAS`. Draws no random numbers."""
    best: RoutingPlan | None = None
    for value in SIGMAS if sigma is None else (sigma,):
        plan = readj_plan(problem.averaged(), sigma=value, rounds=rounds, budget=budget)
        if best is None or plan.rank < best.rank:
            best = plan
        if budget.expired:
            break
    assert best is not None
    answer = best.answer()
    if budget.expired:
        answer.termination = budget.why
    return answer


# Readj's loops, compiled: keys by index, n nodes -----------------------------------------------------------------------


@njit(cache=True)
def move_back(listed, load, home, at, used, limit, kept):
    """Send keys back to their hash while it has room; how many went."""
    count = 0
    for k in listed:
        h = home[k]
        if kept[h] and used[h] + load[k] <= limit[h]:
            used[at[k]] -= load[k]
            used[h] += load[k]
            at[k] = h
            count += 1
    return count


@njit(cache=True)
def vacate(stranded, load, at, used, capacity, kept):
    """Send keys to the least loaded node."""
    for k in stranded:
        best = -1
        for d in range(used.size):
            if kept[d] and (best < 0 or used[d] / capacity[d] < used[best] / capacity[best]):
                best = d
        used[at[k]] -= load[k]
        used[best] += load[k]
        at[k] = best


@njit(cache=True)
def _cost(k, to, state, current):
    """State moved by a plan that puts key k there."""
    return state[k] if to != current[k] else 0.0


@njit(cache=True)
def one_round(tracked, load, state, current, at, used, limit, capacity, kept):  # noqa: C901  # a compiled loop is one function
    """Make the best move or swap that relieves the most overloaded node; whether there was one."""
    i = -1
    for d in range(used.size):
        if kept[d] and used[d] > limit[d] and (i < 0 or used[d] / capacity[d] > used[i] / capacity[i]):
            i = d
    if i < 0:
        return False
    height = used[i] / capacity[i]
    best_height, best_cost, best_key, best_to, best_swap = height * (1 - 1e-12), np.inf, -1, -1, -1
    for k in tracked:
        if at[k] != i:
            continue
        for j in range(used.size):
            if not kept[j] or j == i:
                continue
            after = max((used[i] - load[k]) / capacity[i], (used[j] + load[k]) / capacity[j])
            cost = _cost(k, j, state, current) - _cost(k, i, state, current)
            if after < best_height or (after == best_height and cost < best_cost):
                best_height, best_cost, best_key, best_to, best_swap = after, cost, k, j, -1
        for other in tracked:
            j = at[other]
            if j == i or load[other] >= load[k]:
                continue
            change = load[k] - load[other]
            after = max((used[i] - change) / capacity[i], (used[j] + change) / capacity[j])
            cost = _cost(k, j, state, current) - _cost(k, i, state, current)
            cost += _cost(other, i, state, current) - _cost(other, j, state, current)
            if after < best_height or (after == best_height and cost < best_cost):
                best_height, best_cost, best_key, best_to, best_swap = after, cost, k, j, other
    if best_key < 0:
        return False
    change = load[best_key]
    at[best_key] = best_to
    if best_swap >= 0:
        change -= load[best_swap]
        at[best_swap] = i
    used[i] -= change
    used[best_to] += change
    return True

"""Readj ([Gedik2014]), as [Fang2016] describes and compares it."""

from __future__ import annotations

import numpy as np

from keyshift.heuristics.routing.three_phases import RoutingPlan
from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import njit
from keyshift.models.base.guards import NonNegative, Whole, real
from keyshift.models.routing import MixedRouting

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

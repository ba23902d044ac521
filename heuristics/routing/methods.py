"""LLFD, MinTable, MinMig, Mixed and MixedBF (paper 4, section III): which phases each runs, in what order."""

from __future__ import annotations

import numpy as np

from keyshift.heuristics.routing.plan import Plan, Planner
from keyshift.models import Answer, Budget, InputError
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import CompactKeys

GROW_AFTER = 8
"""Trials of Mixed after which n at least doubles, so that their number is logarithmic in the table's size."""


def llfd_plan(problem: MixedRouting, *, everything: bool = False, keys: CompactKeys | None = None) -> Plan:
    """Phase II by load, then LLFD (algorithm 1); with ``everything``, LLFD places all keys anew.

    Theorem 1 (a perfect assignment exists, no key reaches the mean): theta <= (1 - 1/n) / 3, proven for
    ``everything``, where LLFD is Graham's LPT rule. O(p log p + |C| n).
    """
    return Planner(problem, "load", keys=keys).run(everything=everything)


def min_table_plan(problem: MixedRouting, *, keys: CompactKeys | None = None) -> Plan:
    """Move every entry back, then psi = heaviest first (algorithm 2). No guarantee; O(p log p + |C| n)."""
    planner = Planner(problem, "load", keys=keys)
    return planner.run(planner.table_size)


def min_mig_plan(problem: MixedRouting, *, beta: float = 1.5, keys: CompactKeys | None = None) -> Plan:
    """Move nothing back, psi = largest load**beta / state first (algorithm 3). No guarantee; O(p log p + |C| n)."""
    return Planner(problem, "gamma", beta, keys).run(0)


def mixed_plan(
    problem: MixedRouting, *, beta: float = 1.5, keys: CompactKeys | None = None, budget: Budget | None = None
) -> Plan:
    """Move n entries back, smallest state first, with n growing until the new table fits (algorithm 4).

    No guarantee; O(p log p) once and O(p + |C| n) a trial, with O(log N_A) trials.

    Departures from the print: n = size - A_max is an amount still missing, not a total, and need not end the loop:
    here n grows by it, and after `GROW_AFTER` trials at least doubles. When all N_A entries are back and the table
    still does not fit, MinTable's plan is taken if its table is smaller.
    """
    planner = Planner(problem, "gamma", beta, keys)
    n, trials = 0, 0
    while True:
        plan = planner.run(n)
        trials += 1
        excess = plan.table_size - problem.table_limit
        if excess <= 0 or n >= planner.table_size or (budget is not None and budget.expired):
            break
        n = min(planner.table_size, n + (max(excess, n) if trials >= GROW_AFTER else excess))
    if excess > 0:
        last = min_table_plan(problem, keys=keys)
        trials += 1
        plan = last if last.table_size < plan.table_size else plan
    return Plan(problem, plan.assignment, plan.estimated, plan.forced, plan.moved_back, trials)


def mixed_bf_plan(
    problem: MixedRouting,
    *,
    beta: float = 1.5,
    trials: int | None = None,
    keys: CompactKeys | None = None,
    budget: Budget | None = None,
) -> Plan:
    """Mixed with every n = 0, 1, ..., N_A, and the best plan of all. No guarantee; O((p + |C| n) N_A).

    Parameters
    ----------
    trials : int, optional
        Try only so many values of n, evenly spread; None tries all, until the budget ends.
    """
    planner = Planner(problem, "gamma", beta, keys)
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
    return Plan(
        problem,
        best.assignment,
        best.estimated,
        best.forced,
        best.moved_back,
        done,
        {"table_values": float(every.size)},
    )


# What the catalogue names ---------------------------------------------------------------------------------------


def llfd(problem: MixedRouting, *, budget: Budget, seed: int = 0, everything: bool = False) -> Answer:
    """See `llfd_plan`. Draws no random numbers; ties go to the lower index."""
    return llfd_plan(problem, everything=everything).answer()


def min_table(problem: MixedRouting, *, budget: Budget, seed: int = 0, compact: int | None = None) -> Answer:
    """See `min_table_plan`; ``compact=R`` plans on discretised records. Draws no random numbers."""
    return min_table_plan(problem, keys=_keys(problem, compact)).answer()


def min_mig(
    problem: MixedRouting, *, budget: Budget, seed: int = 0, beta: float = 1.5, compact: int | None = None
) -> Answer:
    """See `min_mig_plan`; ``compact=R`` plans on discretised records. Draws no random numbers."""
    return min_mig_plan(problem, beta=beta, keys=_keys(problem, compact)).answer()


def mixed(
    problem: MixedRouting, *, budget: Budget, seed: int = 0, beta: float = 1.5, compact: int | None = None
) -> Answer:
    """See `mixed_plan`; ``compact=R`` plans on discretised records. Draws no random numbers."""
    return mixed_plan(problem, beta=beta, keys=_keys(problem, compact), budget=budget).answer()


def mixed_bf(
    problem: MixedRouting,
    *,
    budget: Budget,
    seed: int = 0,
    beta: float = 1.5,
    trials: int | None = None,
    compact: int | None = None,
) -> Answer:
    """See `mixed_bf_plan`; ``compact=R`` plans on discretised records. Draws no random numbers."""
    answer = mixed_bf_plan(problem, beta=beta, trials=trials, keys=_keys(problem, compact), budget=budget).answer()
    if answer.details["trials"] < answer.details["table_values"]:
        answer.termination = budget.why
    return answer


def _keys(problem: MixedRouting, degree: int | None) -> CompactKeys | None:
    """Records of discretised keys, or None for the full key space."""
    if degree is None:
        return None
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"compact = {degree} must be a power of two, the degree of discretisation R")
    from keyshift.models.routing.hlhe import discretised

    return discretised(problem.workload, degree)

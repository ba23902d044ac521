"""Key splitting and placement by the declarative model: HiGHS, the LP bound, and the universal bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.ranges import Threads
from keyshift.models.splitting import KeySplitting
from keyshift.models.splitting.items import Items
from keyshift.solvers import highs
from keyshift.solvers.splitting.flow import DOUBT, fractional_flow, next_possible_load, whole_flow

PAIRS_PER_SECOND = 10_000
"""So many variables the model must be able to take up in the time left, or it is not begun."""


def items_of(problem: KeySplitting) -> Items:
    """What is placed: messages, or whole keys where keys must stay in one place."""
    return Items.of_keys(problem) if problem.one_place else Items.of_messages(problem)


def solve_milp(
    problem: KeySplitting, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The integer program over groups of like items, by HiGHS, from a warm start.

    With whole keys it is makespan scheduling with restricted assignment, and the bound of the maximum flow - what
    splitting could reach - is its lower limit from the outset.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.

    Notes
    -----
    The bound is HiGHS's dual bound less its doubt (`solvers.highs.DOUBT`), rounded up to a load that can occur.
    """
    least = 0.0
    if problem.one_place and not budget.expired:
        messages = Items.of_messages(problem)
        least = (whole_flow if problem.weights is None else fractional_flow)(messages, budget.part(0.3)).bound
        if start is not None and problem.objective(start) - least <= problem.tolerance:
            return Answer(start, least, "optimal")
    return search(items_of(problem), start, least, budget, seed, threads)


def search(
    items: Items, start: np.ndarray | None, least: float, budget: Budget, seed: int = 0, threads: int = 1
) -> Answer:
    """Run HiGHS on the model of some items, knowing a feasible assignment and a lower bound."""
    if budget.expired or items.pairs[0].size > PAIRS_PER_SECOND * budget.remaining:
        return Answer(start, least, budget.why)
    from keyshift.models.splitting.pyomo_model import SplittingPyomo

    problem = items.problem

    def bound(proven: float) -> float:
        return max(least, next_possible_load(items, proven) if math.isfinite(proven) else proven)

    settings: dict[str, Any] = {"seed": seed, "threads": threads, "report": budget.report}
    answer = highs.solve(
        SplittingPyomo(items, least), budget, start, bound=bound, infeasible="a message has no candidate", **settings
    )
    if answer.termination == "infeasible":
        return Answer(start, least, "gap", f"{answer.message}, and errs")
    found = answer.assignment
    if start is not None and found is not None and problem.objective(start) < problem.objective(found):
        answer.assignment = start
    return answer


def lp_bound(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment. It may divide messages, and split keys."""
    from keyshift.models.splitting.pyomo_model import SplittingPyomo

    items = Items.of_messages(problem)
    program, _ = highs.compile_model(SplittingPyomo(items).model)
    bound, termination = highs.relaxation_bound(program, budget, seed)
    if bound is None:
        return Answer(None, None, budget.why)
    ended: Termination = "completed" if termination == "optimal" else budget.why
    return Answer(None, next_possible_load(items, max(0.0, bound)), ended)


def universal_bound(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    r"""The bound that no hashing escapes: :math:`\max(p_1 m / d, m / W)`, whatever the candidates.

    With whole keys d = 1, and it is the max(p1 m, m / W) of paper 3. With speeds, a key can do no better than the d
    fastest workers, all keys together no better than all. With weights, a message weighs on one worker.
    """
    known, speeds = problem.histogram, np.sort(problem.speeds)[::-1]
    spread = problem.workers if problem.choices is None else min(problem.choices, problem.workers)
    spread = 1 if problem.one_place else spread
    heaviest = 1.0 if problem.weights is None else float(problem.weights.max())
    parts = (
        math.fsum(known.weight) / math.fsum(speeds),
        float(known.weight.max()) / math.fsum(speeds[:spread]),
        heaviest / float(speeds[0]),
    )
    bound = max(parts) * (1 - DOUBT)
    return Answer(None, float(math.ceil(bound)) if problem.counts else bound)

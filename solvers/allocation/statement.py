"""Key-group allocation by the Pyomo statement: HiGHS, and the LP bound. CP-SAT has a file of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget, InputError
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.compiling import off_clock
from keyshift.models.guards import NonNegative, Threads
from keyshift.solvers import highs
from keyshift.solvers.allocation.cpsat_statement import NO_ASSIGNMENT, solve_cpsat
from keyshift.solvers.checked import by_second_word, is_met, until_checked, within, without_false_bound


def solve_highs(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
    second_stage: bool = False,
    weights: tuple[NonNegative, NonNegative] | None = None,
) -> Answer:
    """Solve the plain Pyomo statement by HiGHS, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    second_stage : bool, default False
        Then minimise the two one-sided deviations, the load distance kept at its least.
    weights : (w1, w2), optional
        Minimise ``w1 * d - w2 * (d_u + d_l)`` as printed instead, in one stage.

    Notes
    -----
    The bound is HiGHS's dual bound less what its tolerances amount to (`AllocationPyomo.bound`).
    """
    if problem.several and weights:
        raise InputError("weights are of the two one-sided deviations, which only a problem about one window has")
    settings: dict[str, Any] = {"seed": seed, "threads": threads}
    report = budget.report if weights is None else None
    first = _by_highs(problem, budget, start, weights, report=report, **settings)
    if first.termination == "infeasible" or (
        first.termination == "optimal" and not is_met(problem, first) and not weights
    ):
        return by_second_word(problem, first, solve_cpsat, budget=budget, **settings)
    if weights and first.termination == "optimal" and not is_met(problem, first):
        first.termination = "completed"  # by another objective
    if (
        problem.several
        or not second_stage
        or weights is not None
        or first.termination != "optimal"
        or first.assignment is None
    ):
        return first
    least = problem.objective(first.assignment)
    # Its bound, on the sum of deviations, says nothing of the distance: only its assignment is of use.
    second = _by_highs(problem, budget, first.assignment, most=least + 1e-3 * problem.tolerance, **settings)
    if second.assignment is not None and problem.objective(second.assignment) <= least + problem.tolerance / 2:
        first.assignment = min(first.assignment, second.assignment, key=partial(problem.measured, "deviation_sum"))
        first.details["second_stage"] = second.termination
    return first


def _by_highs(
    problem: KeyGroupAllocation,
    budget: Budget,
    start: np.ndarray | None,
    weights: tuple[float, float] | None = None,
    most: float | None = None,
    **settings: Any,
) -> Answer:
    """HiGHS on the statement - with weights, or with most as the second stage - as often as the check refuses an answer."""
    with off_clock():
        from keyshift.models.allocation.pyomo_model import NEGLIGIBLE, AllocationPyomo

    def write() -> AllocationPyomo:
        made = AllocationPyomo(problem, weights, NEGLIGIBLE)
        if most is not None:
            made.model.d.setub(most)
            made.minimise("deviation_sum")
        return made

    statement = within(budget, write)
    if statement is None:
        return Answer(start, 0.0, budget.why)
    plain, bound = weights is None and most is None, statement.bound if most is None else lambda proven: None

    def run() -> Answer:
        return highs.solve(statement, budget, start, bound=bound, infeasible=NO_ASSIGNMENT, **settings)

    answer = until_checked(problem, run, statement.forbid, start if plain else None)
    if answer.assignment is None and answer.termination != "infeasible":
        answer.assignment = start
    return without_false_bound(problem, answer)


def lp_bound(problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment."""
    with off_clock():
        from keyshift.models.allocation.pyomo_model import AllocationPyomo

    program = within(budget, lambda: highs.compile_model(AllocationPyomo.of(problem).model)[0])
    if program is None:
        return Answer(None, 0.0, budget.why)
    bound, termination = highs.relaxation_bound(program, budget, seed)
    if termination == "infeasible":
        message = "no assignment meets all limits, not even with divisible key groups"
        said = Answer(None, termination="infeasible", message=message)
        other = by_second_word(problem, said, solve_cpsat, budget=budget, seed=seed)
        return said if other.termination == "infeasible" else Answer(None, 0.0, budget.why)
    least = 0.0 if bound is None else max(0.0, bound - problem.rounding)
    return Answer(None, least, "completed" if termination == "optimal" else termination)

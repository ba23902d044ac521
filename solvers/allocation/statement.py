"""Key-group allocation by its declarative statements: HiGHS, CP-SAT, and the linear relaxation's bound."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget, InputError
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import NonNegative, Threads
from keyshift.models.base.lazily import lazily, load
from keyshift.solvers.checked import answered, confirmed

with lazily():
    from keyshift.models.allocation.cpsat_model import AllocationCpSat
    from keyshift.models.allocation.pyomo_model import NEGLIGIBLE, AllocationPyomo


def solve_cpsat(
    problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The same program in whole numbers by CP-SAT, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    """
    return run_cpsat(problem, budget, start, seed=seed, threads=threads)


def run_cpsat(
    problem: KeyGroupAllocation, budget: Budget, start: np.ndarray | None, *, known: float = 0.0, **settings: Any
) -> Answer:
    """As `solve_cpsat`, with a bound that is known already, and CP-SAT's own `settings`."""

    def report(statement: AllocationCpSat, objective: float, bound: float) -> None:
        budget.report(statement.load_distance(objective), max(known, statement.bound(bound)))

    return answered(
        problem, "cpsat", AllocationCpSat, budget=budget, start=start, least=known, report=report, **settings
    )


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
    settings: dict[str, Any] = {"budget": budget, "seed": seed, "threads": threads}
    if weights:
        answer = answered(problem, "highs", _stated, weights, start=start, **settings)
        if answer.termination == "gap" and not budget.expired:
            answer.termination = "completed"  # by another objective
        return confirmed(problem, answer, solve_cpsat, **settings)
    first = answered(problem, "highs", _stated, start=start, report=budget.report, **settings)
    first = confirmed(problem, first, solve_cpsat, **settings)
    if problem.several or not second_stage or first.termination != "optimal" or first.assignment is None:
        return first
    least = problem.objective(first.assignment)
    # Its bound, on the sum of deviations, says nothing of the distance: only its assignment is of use.
    most = least + 1e-3 * problem.tolerance
    nothing: dict[str, Any] = {"bound": lambda proven: None}
    second = answered(problem, "highs", _stated, None, most, start=first.assignment, **nothing, **settings)
    if second.assignment is not None and problem.objective(second.assignment) <= least + problem.tolerance / 2:
        first.assignment = min(first.assignment, second.assignment, key=partial(problem.measured, "deviation_sum"))
        first.details["second_stage"] = second.termination
    return first


def _stated(
    problem: KeyGroupAllocation, weights: tuple[float, float] | None = None, most: float | None = None
) -> AllocationPyomo:
    """The statement with weights, or of the sum of deviations where the load distance is at most so much."""
    made: AllocationPyomo = load(AllocationPyomo)(problem, weights, load(NEGLIGIBLE))
    if most is not None:
        made.model.d.setub(most)
        made.minimise("deviation_sum")
    return made


def lp_bound(problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment."""
    with off_clock():
        from keyshift.solvers.highs import relaxed

    answer = relaxed(problem, _plain, solve_cpsat, budget=budget, seed=seed)
    if answer.bound is not None:
        answer.bound = max(0.0, answer.bound - problem.rounding)
    return answer


def _plain(problem: KeyGroupAllocation) -> AllocationPyomo:
    made: AllocationPyomo = load(AllocationPyomo).of(problem)
    return made

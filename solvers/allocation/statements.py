"""Key-group allocation by the declarative models: HiGHS on the Pyomo statement, CP-SAT on its own, the LP bound."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.solvers import cpsat, highs

MIP_DOUBT = 5e-7
"""HiGHS proves its bound within feasibility tolerances; so much of the mean load is taken off it."""


def solve_highs(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
) -> Answer:
    """The mixed-integer program by HiGHS, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.

    Notes
    -----
    The bound is HiGHS's dual bound less `MIP_DOUBT` times the mean load.
    """
    from keyshift.models.allocation.pyomo_model import AllocationPyomo

    statement = AllocationPyomo(problem)
    program, columns = highs.compile_model(statement.model)
    if start is not None:
        statement.set_start(start)
    values = None if start is None else np.array([v.value for v in columns], dtype=float)
    result = highs.minimise(program, budget, seed=seed, start=values, threads=threads, report=budget.report)
    if result.termination == "infeasible":
        return Answer(None, termination="infeasible", message="HiGHS proves that no assignment meets all limits")
    bound = max(0.0, result.bound - MIP_DOUBT * problem.scale)  # a distance is never negative
    if result.values is None:
        return Answer(start, bound, result.termination)
    for column, value in zip(columns, result.values, strict=True):
        column.set_value(value, skip_validation=True)
    return Answer(statement.assignment(), bound, result.termination, details={"nodes": result.nodes})


def solve_cpsat(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
) -> Answer:
    """The same program in whole numbers by CP-SAT, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.
    """
    from keyshift.models.allocation.cpsat_model import AllocationCpSat

    statement = AllocationCpSat(problem)
    if start is not None:
        statement.set_start(start)

    def report(objective: float, bound: float) -> None:
        budget.report(objective / float(statement.unit), bound / float(statement.unit))

    outcome = cpsat.minimise(statement.model, budget, seed=seed, threads=threads, report=report)
    if outcome.termination == "infeasible":
        return Answer(None, termination="infeasible", message="CP-SAT proves that no assignment meets all limits")
    bound = statement.bound(outcome.solver.best_objective_bound)
    if not outcome.found:
        return Answer(start, bound, outcome.termination)
    branches = {"branches": outcome.solver.num_branches}
    return Answer(statement.assignment(outcome.solver.boolean_value), bound, outcome.termination, details=branches)


def lp_bound(problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment."""
    from keyshift.models.allocation.pyomo_model import AllocationPyomo

    program, _ = highs.compile_model(AllocationPyomo(problem).model)
    bound, termination = highs.relaxation_bound(program, budget, seed)
    if termination == "infeasible":
        return Answer(None, termination="infeasible", message="even the linear relaxation meets not all limits")
    return Answer(
        None, None if bound is None else max(0.0, bound), "completed" if termination == "optimal" else termination
    )

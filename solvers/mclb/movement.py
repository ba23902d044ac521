"""Least movement within load limits: HiGHS and CP-SAT on their statements."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.mclb.movement import MovementWithinLimits
from keyshift.solvers import cpsat, highs

MIP_DOUBT = 5e-7
"""HiGHS proves its bound within tolerances; so much of the total state is taken off it."""


def solve_milp(
    problem: MovementWithinLimits, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: int = 1
) -> Answer:
    """The mixed-integer program by HiGHS; the bound is its dual bound less `MIP_DOUBT` of the total state."""
    from keyshift.models.mclb.movement_models import MovementPyomo

    statement = MovementPyomo(problem)
    program, columns = highs.compile_model(statement.model)
    values = None
    if start is not None:
        statement.set_start(start)
        values = np.array([v.value for v in columns], dtype=float)
    result = highs.minimise(program, budget, seed=seed, start=values, threads=threads)
    if result.termination == "infeasible":
        return Answer(None, termination="infeasible", message="HiGHS proves that no placement keeps within the limits")
    bound = max(0.0, (result.bound - MIP_DOUBT) * problem.scale)
    if result.values is None:
        return Answer(start, bound, result.termination)  # type: ignore[arg-type]
    for column, value in zip(columns, result.values, strict=True):
        column.set_value(value, skip_validation=True)
    return Answer(statement.assignment(), bound, result.termination)  # type: ignore[arg-type]


def solve_cpsat(
    problem: MovementWithinLimits, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: int = 1
) -> Answer:
    """The same in whole numbers by CP-SAT."""
    from keyshift.models.mclb.movement_models import MovementCpSat

    statement = MovementCpSat(problem)
    if start is not None:
        statement.set_start(start)
    outcome = cpsat.minimise(statement.model, budget, seed=seed, threads=threads)
    if outcome.termination == "infeasible":
        return Answer(None, termination="infeasible", message="CP-SAT proves that no placement keeps within the limits")
    bound = statement.bound(outcome.solver.best_objective_bound)
    if not outcome.found:
        return Answer(start, bound, outcome.termination)
    return Answer(statement.assignment(outcome.solver.boolean_value), bound, outcome.termination)

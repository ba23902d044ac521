"""Least movement within load limits: HiGHS and CP-SAT on their statements."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.movement.problem import MovementWithinLimits
from keyshift.models.ranges import Threads
from keyshift.solvers import cpsat, highs

MIP_DOUBT = 5e-7
"""HiGHS proves its bound within tolerances; so much of the total state is taken off it."""
NO_PLACEMENT = "no placement keeps within the limits"


def solve_milp(
    problem: MovementWithinLimits,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The mixed-integer program by HiGHS; the bound is its dual bound less `MIP_DOUBT` of the total state."""
    from keyshift.models.movement.pyomo_model import MovementPyomo

    def bound(proven: float) -> float:
        return max(0.0, (proven - MIP_DOUBT) * problem.scale)

    statement = MovementPyomo(problem)
    return highs.solve(statement, budget, start, bound=bound, infeasible=NO_PLACEMENT, seed=seed, threads=threads)


def solve_cpsat(
    problem: MovementWithinLimits,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The same in whole numbers by CP-SAT."""
    from keyshift.models.movement.cpsat_model import MovementCpSat

    statement = MovementCpSat(problem)
    return cpsat.solve(
        statement, budget, start, bound=statement.bound, infeasible=NO_PLACEMENT, seed=seed, threads=threads
    )

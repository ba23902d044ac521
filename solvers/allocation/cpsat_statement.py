"""Key-group allocation by CP-SAT on its statement in whole numbers: no Pyomo loads where it is all that is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.cpsat_model import AllocationCpSat
from keyshift.models.guards import Threads
from keyshift.solvers import cpsat
from keyshift.solvers.checked import until_checked, within

NO_ASSIGNMENT = "no assignment meets all limits"


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
    """Run CP-SAT on its statement until the check accepts what it finds.

    Parameters
    ----------
    problem, budget, start
        As for `solve_cpsat`.
    known : float, default 0
        A bound that holds already, so that nothing lower is reported.
    **settings
        As for `keyshift.solvers.cpsat.minimise`.
    """
    statement = within(budget, lambda: AllocationCpSat(problem))
    if statement is None:
        return Answer(start, known, budget.why)

    def report(objective: float, bound: float) -> None:
        budget.report(statement.load_distance(objective), max(known, statement.bound(bound)))

    def run() -> Answer:
        return cpsat.solve(
            statement, budget, start, bound=statement.bound, infeasible=NO_ASSIGNMENT, report=report, **settings
        )

    return until_checked(problem, run, statement.forbid, start)

"""Small interval migrations by their declarative models: HiGHS on the Pyomo statement, CP-SAT on its own."""

from __future__ import annotations

import math

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.intervals import IntervalMigration, MigrationSequence
from keyshift.solvers import cpsat, highs
from keyshift.solvers.intervals.state_sizes import weights

NO_ASSIGNMENT = "no assignment meets all rules"
LARGEST_STATEMENT = 200_000
"""Task, node and step triples; a larger statement takes longer to write down than dynamic programs to solve."""


def _too_large(problem: IntervalMigration | MigrationSequence, start: np.ndarray | None) -> Answer | None:
    steps = len(problem.counts) if isinstance(problem, MigrationSequence) else 1
    places = steps * problem.node_numbers * problem.workload.key_groups
    if places <= LARGEST_STATEMENT:
        return None
    return Answer(
        start, message=f"{places} task, node and step triples are more than the {LARGEST_STATEMENT} it takes on"
    )


def solve_milp(
    problem: IntervalMigration | MigrationSequence, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """The mixed-integer program by HiGHS: an oracle for small instances.

    Notes
    -----
    The bound is HiGHS's dual bound less its doubt (`solvers.highs.DOUBT`).
    """
    from keyshift.models.intervals.pyomo_model import IntervalPyomo

    if refused := _too_large(problem, start):
        return refused

    def bound(proven: float) -> float | None:
        return max(0.0, proven) if math.isfinite(proven) else None

    statement = IntervalPyomo(problem)
    return highs.solve(statement, budget, start, bound=bound, infeasible=NO_ASSIGNMENT, seed=seed, report=budget.report)


def solve_cpsat(
    problem: IntervalMigration | MigrationSequence, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """The same program in whole numbers by CP-SAT, load limits exact: an oracle for small instances."""
    from keyshift.models.intervals.cpsat_model import IntervalCpSat

    if refused := _too_large(problem, start):
        return refused
    state = weights(problem.workload.state, bits=40)
    statement = IntervalCpSat(problem, state.values)

    def bound(proven: float) -> float:
        return state.lower(max(0, math.ceil(proven - 1e-6)), len(statement.steps))

    return cpsat.solve(statement, budget, start, bound=bound, infeasible=NO_ASSIGNMENT, seed=seed)


def solve_free(problem: IntervalMigration, *, budget: Budget, seed: int = 0, seconds: float = 5.0) -> Answer:
    """Least state moved when any task may go to any node, by CP-SAT: a lower bound, and the price of contiguity.

    The assignment is in ``details["assignment"]``, its state moved in ``details["state_moved"]``; it is no answer to
    the problem unless it happens to lie in intervals.

    Parameters
    ----------
    seconds : float
        Stop the search after so many seconds with the bound it has.
    """
    from keyshift.models.intervals.cpsat_model import FreeCpSat

    if refused := _too_large(problem, None):
        return refused
    state = weights(problem.workload.state, bits=40)
    statement = FreeCpSat(problem, state.values)
    share = 1.0 if math.isinf(budget.remaining) else min(1.0, seconds / max(budget.remaining, 1e-9))
    own = Budget(seconds) if math.isinf(budget.remaining) else budget.part(share)

    def bound(proven: float) -> float:
        return state.lower(max(0, math.ceil(proven - 1e-6)))

    answer = cpsat.solve(statement, own, bound=bound, infeasible="no assignment keeps the load limit", seed=seed)
    if answer.termination != "infeasible":
        answer.termination = "completed"
    if answer.assignment is not None:
        found, answer.assignment = answer.assignment, None
        answer.details |= {"assignment": found, "state_moved": problem.objective(found)}
    return answer

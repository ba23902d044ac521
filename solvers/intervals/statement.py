"""Small interval migrations by their declarative models: HiGHS on the Pyomo statement, CP-SAT on its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import NonNegative
from keyshift.models.base.lazily import lazily, load
from keyshift.models.intervals import IntervalMigration, MigrationSequence
from keyshift.models.workload import FloatArray
from keyshift.solvers.checked import answered, within
from keyshift.solvers.intervals.band_kernels import in_fine_units

with lazily():
    from keyshift.models.intervals.cpsat_model import FreeCpSat, IntervalCpSat, whole_state
    from keyshift.models.intervals.pyomo_model import IntervalPyomo


def refusal(problem: IntervalMigration | MigrationSequence, budget: Budget) -> str | None:
    """Why a statement is not written down, if it is not."""
    steps = len(problem.counts) if isinstance(problem, MigrationSequence) else 1
    places = steps * problem.places * problem.workload.key_groups
    most = 200_000  # a larger statement takes longer to write down than dynamic programs to solve
    if places > most:
        return f"{places} task, node and step triples are more than the {most} it takes on"
    if places > 10_000 * budget.remaining:
        return f"{places} task, node and step triples take longer to write down than the limit allows"
    return None


def solve_milp(
    problem: IntervalMigration | MigrationSequence, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """The mixed-integer program by HiGHS: an oracle for small instances.

    Notes
    -----
    The bound is HiGHS's dual bound less its error bound (`models.answer`), which is relative to the largest state that
    matters: where the answer moves far less than the largest state, it is asked again in the answer's own units.
    """
    return _stated(problem, start, budget, "highs", IntervalPyomo, seed=seed, report=budget.report)


def solve_cpsat(
    problem: IntervalMigration | MigrationSequence, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """The same program in whole numbers by CP-SAT, load limits exact: an oracle for small instances."""
    return _stated(problem, start, budget, "cpsat", _whole, seed=seed)


def _whole(problem: IntervalMigration | MigrationSequence, state: FloatArray) -> IntervalCpSat:
    made: IntervalCpSat = load(IntervalCpSat)(problem, load(whole_state)(state))
    return made


def _stated(
    problem: IntervalMigration | MigrationSequence, start: np.ndarray | None, budget: Budget, solver: str, statement: Any,
    **asked: Any,
) -> Answer:  # fmt: skip
    """Refuse a statement that is too large to write down; else solve it, again in finer units where rounding shows."""
    if said := refusal(problem, budget):
        return Answer(start, 0.0, budget.why, said)

    def answer_to(state: FloatArray, best: np.ndarray | None) -> Answer:
        made = answered(problem, solver, statement, state, budget=budget, start=best, **asked)
        if made.termination == "gap" and not budget.expired:
            made.termination = "optimal"  # in these units
        return made

    return in_fine_units(problem, start, answer_to)


def solve_free(problem: IntervalMigration, *, budget: Budget, seed: int = 0, seconds: NonNegative = 5.0) -> Answer:
    """Least state moved when any task may go to any node, by CP-SAT: a lower bound, and the price of contiguity.

    The assignment is in ``details["assignment"]``, its state moved in ``details["state_moved"]``; it is not an answer to
    the problem unless it happens to lie in intervals.

    Parameters
    ----------
    seconds : float
        Stop the search after this many seconds with the bound it has.
    """
    if said := refusal(problem, budget):
        return Answer(None, 0.0, budget.why, said)
    with off_clock():
        from keyshift.solvers import cpsat

    statement = within(budget, lambda: load(FreeCpSat)(problem))
    if statement is None:
        return Answer(None, 0.0, budget.why)
    own = budget.part(1.0, seconds)
    answer = cpsat.solve(statement, own, infeasible="no assignment keeps the load limit", seed=seed)
    if answer.termination != "infeasible":
        answer.termination = "completed"
    if answer.assignment is not None:
        found, answer.assignment = answer.assignment, None
        answer.details |= {"assignment": found, "state_moved": problem.objective(found)}
    return answer

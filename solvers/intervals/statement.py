"""Small interval migrations by their declarative models: HiGHS on the Pyomo statement, CP-SAT on its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.compiling import off_clock
from keyshift.models.guards import NonNegative
from keyshift.models.intervals import IntervalMigration, MigrationSequence
from keyshift.models.workload import FloatArray
from keyshift.solvers import cpsat, highs
from keyshift.solvers.intervals.units import in_fine_units

NO_ASSIGNMENT = "no assignment meets all rules"


def refusal(problem: IntervalMigration | MigrationSequence, budget: Budget) -> str | None:
    """Why a statement is not written down, if it is not."""
    steps = len(problem.counts) if isinstance(problem, MigrationSequence) else 1
    places = steps * problem.node_numbers * problem.workload.key_groups
    most = 200_000  # dynamic programs solve a larger one sooner than it is written down
    if places > most:
        return f"{places} task, node and step triples are more than the {most} it takes on"
    if places > 10_000 * budget.remaining:  # so many are written down in a second
        return f"{places} task, node and step triples take longer to write down than the limit allows"
    return None


def solve_milp(
    problem: IntervalMigration | MigrationSequence, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """The mixed-integer program by HiGHS: an oracle for small instances.

    Notes
    -----
    The bound is HiGHS's dual bound less its doubt (`models.answer`), which is relative to the largest state that
    matters: where the answer moves far less than the largest state, it is asked again in the answer's own units.
    """
    with off_clock():
        from keyshift.models.intervals.pyomo_model import IntervalPyomo

    def answer_to(state: FloatArray, best: np.ndarray | None) -> Answer:
        with highs.written_in_time():
            statement = IntervalPyomo(problem, state, budget.tick)
        return highs.solve(
            statement, budget, best, bound=statement.bound, infeasible=NO_ASSIGNMENT, seed=seed, report=budget.report
        )

    return _stated(problem, start, budget, answer_to)


def solve_cpsat(
    problem: IntervalMigration | MigrationSequence, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """The same program in whole numbers by CP-SAT, load limits exact: an oracle for small instances."""
    with off_clock():
        from keyshift.models.intervals.cpsat_model import IntervalCpSat, whole_state

    def answer_to(state: FloatArray, best: np.ndarray | None) -> Answer:
        statement = IntervalCpSat(problem, whole_state(state), budget.tick)
        return cpsat.solve(statement, budget, best, bound=statement.bound, infeasible=NO_ASSIGNMENT, seed=seed)

    return _stated(problem, start, budget, answer_to)


def _stated(
    problem: IntervalMigration | MigrationSequence,
    start: np.ndarray | None,
    budget: Budget,
    answer_to: Callable[[FloatArray, np.ndarray | None], Answer],
) -> Answer:
    """Refuse what is too large to write down, and keep the start where the limit comes while it is written down."""
    if said := refusal(problem, budget):
        return Answer(start, 0.0, budget.why, said)

    def in_time(state: FloatArray, best: np.ndarray | None) -> Answer:
        try:
            return answer_to(state, best)
        except LimitReached:
            return Answer(best, None, budget.why, "the time limit was reached while the model was written down")

    return in_fine_units(problem, start, in_time)


def solve_free(problem: IntervalMigration, *, budget: Budget, seed: int = 0, seconds: NonNegative = 5.0) -> Answer:
    """Least state moved when any task may go to any node, by CP-SAT: a lower bound, and the price of contiguity.

    The assignment is in ``details["assignment"]``, its state moved in ``details["state_moved"]``; it is not an answer to
    the problem unless it happens to lie in intervals.

    Parameters
    ----------
    seconds : float
        Stop the search after this many seconds with the bound it has.
    """
    with off_clock():
        from keyshift.models.intervals.cpsat_model import FreeCpSat

    if said := refusal(problem, budget):
        return Answer(None, 0.0, budget.why, said)
    try:
        statement = FreeCpSat(problem, tick=budget.tick)
    except LimitReached:
        return Answer(None, 0.0, budget.why, "the time limit was reached while the model was written down")
    own = budget.part(1.0, seconds)

    infeasible = "no assignment keeps the load limit"
    answer = cpsat.solve(statement, own, bound=statement.bound, infeasible=infeasible, seed=seed)
    if answer.termination != "infeasible":
        answer.termination = "completed"
    if answer.assignment is not None:
        found, answer.assignment = answer.assignment, None
        answer.details |= {"assignment": found, "state_moved": problem.objective(found)}
    return answer

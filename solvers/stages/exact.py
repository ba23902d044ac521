"""A later stage by the declarative statements: HiGHS, CP-SAT, or local search first and both for what it leaves open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pyomo.common.errors import InfeasibleConstraintException

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.compiling import off_clock
from keyshift.models.priorities import Prioritised, Stage
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.choices import Choices
from keyshift.models.stages import state
from keyshift.models.workload import IntArray
from keyshift.solvers import cpsat, highs
from keyshift.solvers.checked import better_of, until_checked, within
from keyshift.solvers.routing.fewest_entries import fewest_entries
from keyshift.solvers.stages.search import improve_within

MIP_DOUBT = 5e-7
"""HiGHS proves its bound within feasibility tolerances; so much of a measure's unit is taken off it."""
COUNTS = ("migrations", "table_size")
MOST_COLUMNS, COLUMNS_PER_SECOND = 60_000, 3_000
"""Statements of more variables, in all and for each second left, are not written by `by_search_and_solvers`."""
CPSAT_SHARE = 0.5
NO_ASSIGNMENT = "no assignment meets all limits"


def by_cpsat(stage: Stage, *, budget: Budget, seed: int = 0, start: IntArray | None = None) -> Answer:
    """A stage by CP-SAT on the problem's statement, with the earlier measures kept by rows of their own."""
    made: list[Any] = within(budget, lambda: _stated(stage, _whole_statement(stage))) or []
    if not made:
        return Answer(start, 0.0, budget.why)
    statement, least = made

    def run() -> Answer:
        return cpsat.solve(
            statement, budget, start, bound=lambda proven: max(0.0, least(int(proven))), infeasible=NO_ASSIGNMENT,
            seed=seed,
        )  # fmt: skip

    return _settled(stage, _until_checked(stage, statement, run, start), start)


def by_highs(stage: Stage, *, budget: Budget, seed: int = 0, start: IntArray | None = None) -> Answer:
    """A stage by HiGHS on the problem's Pyomo statement; what its tolerances leave in doubt goes to CP-SAT."""
    made: list[Any] = within(budget, lambda: _stated(stage, _pyomo_statement(stage.problem))) or []
    if not made:
        return Answer(start, 0.0, budget.why)
    statement, unit = made
    doubt = 0.0 if stage.measure in COUNTS else MIP_DOUBT * stage.scale

    def run() -> Answer:
        try:
            return highs.solve(
                statement, budget, start, bound=lambda proven: max(0.0, proven * unit - doubt),
                infeasible=NO_ASSIGNMENT, seed=seed,
            )  # fmt: skip
        except InfeasibleConstraintException:  # a row of constants; whole numbers have the last word
            return Answer(None, termination="infeasible", message=NO_ASSIGNMENT)

    answer = _until_checked(stage, statement, run, start)
    if answer.termination in ("optimal", "infeasible") and not _met(stage, answer):
        other = by_cpsat(stage, budget=budget, seed=seed, start=_settled(stage, answer, start).assignment)
        other.bound = max(other.bound or 0.0, 0.0 if answer.termination == "infeasible" else answer.bound or 0.0)
        answer = other
    return _settled(stage, answer, start)


def by_search_and_solvers(stage: Stage, *, budget: Budget, seed: int = 0, start: IntArray | None = None) -> Answer:
    """A stage by local search, then CP-SAT, then HiGHS, as far as the instance is small enough for them."""
    if start is not None:
        start = improve_within(stage, start, budget.part(0.3), seed)
    bound = _cheap_bound(stage, budget, seed)
    answer = _settled(stage, Answer(start, bound, budget.why), start)
    if _met(stage, answer) or budget.expired:
        return answer
    if _columns(stage.problem) > min(MOST_COLUMNS, COLUMNS_PER_SECOND * budget.remaining):
        return Answer(start, bound, "gap" if start is not None else "completed")
    for solver, share in ((by_cpsat, CPSAT_SHARE), (by_highs, 1.0)):
        answer = solver(stage, budget=budget.part(share), seed=seed, start=start)
        if answer.termination == "infeasible":
            return answer
        start, bound = answer.assignment, max(bound, answer.bound or 0.0)
        answer.bound = bound
        if _met(stage, answer) or budget.expired:
            break
    return answer


def _cheap_bound(stage: Stage, budget: Budget, seed: int) -> float:
    """What arithmetic and a small program say at any size."""
    if isinstance(stage.problem, MixedRouting) and stage.measure == "table_size" and not budget.expired:
        return float(fewest_entries(stage.problem, budget.part(0.3), seed))
    return 0.0


def _columns(problem: Prioritised) -> int:
    """Variables of the statement, roughly."""
    w = problem.workload  # type: ignore[attr-defined]  # every such problem has one
    return int(w.nodes * (w.key_groups + (len(problem.pairs) if isinstance(problem, CollocatedAllocation) else 0)))


def _stated(stage: Stage, statement: Any) -> list[Any]:
    return [statement, state(stage, statement)]


def _whole_statement(stage: Stage) -> Any:
    problem = stage.problem
    if isinstance(problem, CollocatedAllocation):
        with off_clock():
            from keyshift.models.collocation.cpsat_model import DISTANCE_BITS, LOAD_BITS, CollocationCpSat

        finer = "load_distance" in (stage.measure, *stage.kept)
        return CollocationCpSat(problem, DISTANCE_BITS if finer else LOAD_BITS)
    if isinstance(problem, KeyGroupAllocation):
        with off_clock():
            from keyshift.models.allocation.windows_cpsat import AllocationWindowsCpSat

        return AllocationWindowsCpSat.of(problem)
    with off_clock():
        from keyshift.models.routing.cpsat_model import RoutingCpSat

    assert isinstance(problem, MixedRouting)
    return RoutingCpSat(Choices.all(problem))


def _pyomo_statement(problem: Prioritised) -> Any:
    if isinstance(problem, CollocatedAllocation):
        with off_clock():
            from keyshift.models.collocation.pyomo_model import CollocationPyomo

        return CollocationPyomo(problem)
    if isinstance(problem, KeyGroupAllocation):
        with off_clock():
            from keyshift.models.allocation.windows_pyomo import AllocationWindowsPyomo

        return AllocationWindowsPyomo.of(problem)
    with off_clock():
        from keyshift.models.routing.pyomo_model import RoutingPyomo

    assert isinstance(problem, MixedRouting)
    return RoutingPyomo(Choices.all(problem), problem.unit("state_moved"))


def _until_checked(stage: Stage, statement: Any, run: Callable[[], Answer], start: IntArray | None) -> Answer:
    """Run a statement until the check accepts what it finds, where it can cut off what the check refuses."""
    if hasattr(statement, "forbid"):
        return until_checked(stage, run, statement.forbid, start)
    answer = run()
    if answer.assignment is not None and stage.violations(answer.assignment):
        answer.assignment = None
    return better_of(stage, answer, start)


def _met(stage: Stage, answer: Answer) -> bool:
    """Whether an answer is optimal by its own bound."""
    if answer.assignment is None or answer.bound is None:
        return False
    value = stage.objective(answer.assignment)
    return value - answer.bound <= stage.tolerance_of(value)


def _settled(stage: Stage, answer: Answer, start: np.ndarray | None) -> Answer:
    """The answer, without what its start, or its own assignment, plainly disproves."""
    if answer.termination == "infeasible":
        return answer if start is None else Answer(start, 0.0, "gap")
    if answer.assignment is None:
        return answer
    value = stage.objective(answer.assignment)
    if (answer.bound or 0.0) > value + stage.tolerance_of(value):
        answer.bound, answer.termination = 0.0, "gap"
    if _met(stage, answer):
        answer.termination = "optimal"
    elif answer.termination == "optimal":
        answer.termination = "gap"
    return answer

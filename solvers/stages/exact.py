"""A later stage by the declarative statements: HiGHS, CP-SAT, or local search first and both for what it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.objectives import Prioritised
from keyshift.models.stages import Stage, state
from keyshift.models.workload import IntArray
from keyshift.solvers import cpsat, highs
from keyshift.solvers.checked import better_of, is_met, until_checked, within, without_false_bound
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.search.program import Aim
from keyshift.solvers.search.within import Task, search_within
from keyshift.solvers.stages.forced_moves import MOVED, cost_of, least_moved, rules_kept
from keyshift.solvers.stages.search import StageSettings, improve_within

MIP_DOUBT = 5e-7
"""HiGHS proves its bound within feasibility tolerances; so much of a measure's unit is taken off it."""
COUNTS = ("migrations", "table_size")
NO_ASSIGNMENT = "no assignment meets all limits"


class Stated(Protocol):
    """A formulation as a stage asks it: the catalogue's entry has the answers."""

    @property
    def measure_bounds(self) -> Mapping[str, Callable[[Any, Budget, int], float]]:
        """By measures: what arithmetic and small programs say at any size, as ``bound(problem, budget, seed)``."""

    def stated(self, stage: Stage, language: str) -> Any:
        """The plain statement of a stage in a language."""


def by_cpsat(
    stage: Stage, formulation: Stated, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """A stage by CP-SAT on the problem's statement, with the earlier measures kept by rows of their own."""
    if (made := _stated(stage, formulation, "cp-sat", budget)) is None:
        return Answer(start, 0.0, budget.why)
    statement, least = made

    def run() -> Answer:
        return cpsat.solve(
            statement, budget, start, bound=lambda proven: max(0.0, least(int(proven))), infeasible=NO_ASSIGNMENT,
            seed=seed,
        )  # fmt: skip

    return _settled(stage, _until_checked(stage, statement, run, start), start)


def by_highs(
    stage: Stage, formulation: Stated, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """A stage by HiGHS on the problem's Pyomo statement; what its tolerances leave in doubt goes to CP-SAT."""
    if (made := _stated(stage, formulation, "pyomo", budget)) is None:
        return Answer(start, 0.0, budget.why)
    statement, unit = made
    doubt = 0.0 if stage.measure in COUNTS else MIP_DOUBT * stage.scale

    def run() -> Answer:
        return highs.solve(
            statement, budget, start, bound=lambda proven: max(0.0, proven * unit - doubt),
            infeasible=NO_ASSIGNMENT, seed=seed,
        )  # fmt: skip

    answer = _until_checked(stage, statement, run, start)
    if answer.termination in ("optimal", "infeasible") and not is_met(stage, answer):
        other = by_cpsat(stage, formulation, budget=budget, seed=seed, start=_settled(stage, answer, start).assignment)
        other.bound = max(other.bound or 0.0, 0.0 if answer.termination == "infeasible" else answer.bound or 0.0)
        answer = other
    return _settled(stage, answer, start)


def by_search_and_solvers(
    stage: Stage, formulation: Stated, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """A stage by local search, then CP-SAT, then HiGHS, as far as the instance is small enough for them."""
    moved = stage.measure in MOVED
    large = _columns(stage.problem) > min(StageSettings.now().most_columns, 3_000 * budget.remaining)
    start = _search(stage, start, budget.part(0.3), seed, large)
    bound, known = stage.problem.least(stage.measure), formulation.measure_bounds.get(stage.measure)
    if moved:
        bound = max(bound, least_moved(stage.problem, stage.measure, stage.kept))
    elif known is not None and not budget.expired:
        bound = float(known(stage.problem, budget.part(0.3), seed))
    answer = _settled(stage, Answer(start, bound, budget.why), start)
    turn = 0
    while (
        large and moved and not (start is None or is_met(stage, answer) or budget.expired or np.isinf(budget.remaining))
    ):
        turn += 1  # no solver would use the time better
        answer.assignment = start = _search(stage, start, budget, seed + turn, large)
    if large and not budget.expired and not is_met(stage, answer):
        return Answer(start, bound, "gap" if start is not None else "completed")
    if is_met(stage, answer) or budget.expired:
        return _settled(stage, answer, start)
    for solver, share in ((by_cpsat, 0.5), (by_highs, 1.0)):
        answer = solver(stage, formulation, budget=budget.part(share), seed=seed, start=start)
        if answer.termination == "infeasible":
            return answer
        start, bound = answer.assignment, max(bound, answer.bound or 0.0)
        answer.bound = bound
        if is_met(stage, answer) or budget.expired:
            break
    return answer


def _search(stage: Stage, start: IntArray | None, budget: Budget, seed: int, large: bool) -> IntArray | None:
    """Local search from a start; first, for what moves in a large problem with rooms, a search that prices its rules' rows."""
    low = rules_kept(stage.problem, stage.kept) if large and stage.measure in MOVED else None
    if low is not None and low.rooms:
        posed, cost = Posed(stage.problem, goal=stage.measure), cost_of(stage.problem, stage.measure)
        task = Task(posed.placing, Aim(goal=1.0), cost / (float(cost.max(initial=0.0)) or 1.0))
        found = search_within(
            stage, lambda turn: task, budget=budget.part(0.6), seed=seed, start=start, effort=0.25, but=None
        )
        start = found.assignment
    return None if start is None else improve_within(stage, start, budget, seed)


def _columns(problem: Prioritised) -> int:
    """Variables of the statement, roughly."""
    w, pairs = problem.workload, problem.searched().pairs
    return int(w.nodes * (w.key_groups + (0 if pairs is None else pairs[2].size)))


def _stated(stage: Stage, formulation: Stated, language: str, budget: Budget) -> tuple[Any, Any] | None:
    """The statement of a stage in a language, and what its `minimise` returns; None when the budget ends first."""
    return within(budget, lambda: ((made := formulation.stated(stage, language)), state(stage, made)))


def _until_checked(stage: Stage, statement: Any, run: Callable[[], Answer], start: IntArray | None) -> Answer:
    """Run a statement until the check accepts what it finds, where it can cut off what the check refuses."""
    if hasattr(statement, "forbid"):
        return until_checked(stage, run, statement.forbid, start)
    answer = run()
    if answer.assignment is not None and stage.violations(answer.assignment):
        answer.assignment = None
    return better_of(stage, answer, start)


def _settled(stage: Stage, answer: Answer, start: np.ndarray | None) -> Answer:
    """The answer, without what its start, or its own assignment, plainly disproves."""
    if answer.termination == "infeasible":
        return answer if start is None else Answer(start, 0.0, "gap")
    if answer.assignment is None:
        return answer
    answer = without_false_bound(stage, answer)
    if is_met(stage, answer):
        answer.termination = "optimal"
    elif answer.termination == "optimal":
        answer.termination = "gap"
    return answer

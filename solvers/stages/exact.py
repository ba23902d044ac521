"""A later stage by the declarative statements: HiGHS, CP-SAT, or local search first and both for what it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.objectives import Prioritised
from keyshift.models.stages import Stage, state
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import answered, confirmed, is_met, without_false_bound
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.search.program import Aim
from keyshift.solvers.search.within import Task, search_within
from keyshift.solvers.stages.forced_moves import MOVED, cost_of, least_moved, rules_kept
from keyshift.solvers.stages.search import StageSettings, improve_within

COUNTS = ("migrations", "table_size")


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

    def stated(stage: Stage) -> Any:
        made = formulation.stated(stage, "cp-sat")
        least = state(stage, made)
        made.bound = lambda proven: max(0.0, least(int(proven)))
        return made

    return answered(stage, "cpsat", stated, budget=budget, seed=seed, start=start)


def by_highs(
    stage: Stage, formulation: Stated, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """A stage by HiGHS on the problem's Pyomo statement; what its tolerances leave in doubt goes to CP-SAT."""
    # HiGHS proves its bound within feasibility tolerances; so much of a measure's unit is taken off it.
    doubt = 0.0 if stage.measure in COUNTS else 5e-7 * stage.scale

    def stated(stage: Stage) -> Any:
        made = formulation.stated(stage, "pyomo")
        unit = state(stage, made)
        made.bound = lambda proven: max(0.0, proven * unit - doubt)
        return made

    answer = answered(stage, "highs", stated, budget=budget, seed=seed, start=start)
    return confirmed(stage, answer, partial(by_cpsat, formulation=formulation), budget=budget, seed=seed)


def by_search_and_solvers(
    stage: Stage, formulation: Stated, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """A stage by local search, then CP-SAT, then HiGHS, as far as the instance is small enough for them."""
    moved = stage.measure in MOVED
    large = _columns(stage.problem) > min(budget.tuned(StageSettings).most_columns, 3_000 * budget.remaining)
    start = _search(stage, start, budget.part(0.3), seed, large)
    bound, known = stage.problem.least(stage.measure), formulation.measure_bounds.get(stage.measure)
    if moved:
        bound = max(bound, least_moved(stage.problem, stage.measure, stage.kept))
    elif known is not None and not budget.expired:
        bound = float(known(stage.problem, budget.part(0.3), seed))
    answer, turn = without_false_bound(stage, Answer(start, bound, budget.why)), 0
    bound = answer.bound or 0.0
    while (
        large and moved and not (start is None or is_met(stage, answer) or budget.expired or np.isinf(budget.remaining))
    ):
        turn += 1  # no solver would use the time better
        answer.assignment = start = _search(stage, start, budget, seed + turn, large)
    if is_met(stage, answer):
        return Answer(start, bound, "optimal")
    if budget.expired:
        return answer
    if large:
        return Answer(start, bound, "gap" if start is not None else "completed")
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

"""A later stage by the declarative statements: HiGHS, CP-SAT, or local search first and both for what it leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.objectives import TIE, Prioritised
from keyshift.models.problem import step_of_sums
from keyshift.models.rules.lowered import Lowered, Rooms
from keyshift.models.rules.ruled import BROKEN, Ruled
from keyshift.models.stages import Stage, state
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.checked import answered, confirmed, is_met, without_false_bound
from keyshift.solvers.search.annealing import Task, search_within
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.search.program import Aim
from keyshift.solvers.stages.search import improve_within
from keyshift.solvers.tuning import StageSettings

MOVED = ("migrations", "state_moved")


def cost_of(problem: Prioritised, measure: str) -> FloatArray:
    """What each key group adds to a measure of `MOVED` when it leaves its node, shape (p,)."""
    w = problem.workload
    return np.ones(w.key_groups) if measure == "migrations" else w.state


def rules_kept(problem: Prioritised, kept: Mapping[str, float]) -> Lowered | None:
    """The rules that an assignment keeps which keeps some measures; None where there are none."""
    if not isinstance(problem, Ruled):
        return None
    return problem.hard().lowered if kept.get(BROKEN, 1.0) <= TIE else problem.lowered


def least_moved(problem: Prioritised, measure: str, kept: Mapping[str, float]) -> float:
    r"""A lower bound on a measure of `MOVED`, where earlier measures are kept, by arithmetic alone at any size.

    A move takes a key group out of one domain of a room and puts it into one other. With :math:`h_d` the weight that domain d of
    a room runs today, every assignment that keeps the room moves key groups of d that weigh :math:`h_d - most_d` at least, and
    moves key groups that weigh :math:`least_d - h_d` at least into d. What these cost at least is a fractional knapsack a domain,
    and as nothing leaves two domains of a room, or enters two, the sums over its domains are bounds:

    .. math::

        (1) \quad moved \ge \sum_d \min \Bigl\{ \sum_{k \in d} c_k z_k : \sum_{k \in d} w_k z_k \ge h_d - most_d \Bigr\},
        \qquad
        (2) \quad moved \ge \sum_d \min \Bigl\{ \sum_{k \notin d} c_k z_k : \sum_{k \notin d} w_k z_k \ge least_d - h_d \Bigr\}

    with :math:`c_k` = 1, or the state of k, and :math:`0 \le z_k \le 1`. Bounds of rooms without a common key group add up.
    """
    w, cost = problem.workload, cost_of(problem, measure)
    low, whole = rules_kept(problem, kept), bool(step_of_sums(cost))
    must = np.zeros(w.key_groups, dtype=bool)
    if "draining_load" in kept:
        must |= w.draining[w.current] & (w.last_load > kept["draining_load"] + TIE * w.last_load.sum())
    if low is not None and low.closed is not None:
        must |= low.closed[np.arange(w.key_groups), w.current]
    rooms = () if low is None else low.rooms
    known = sorted(((_through(room, low.current, cost, must, whole), room) for room in rooms), key=lambda one: -one[0])  # type: ignore[union-attr]  # then it is not None
    total, counted = 0.0, np.zeros(w.key_groups, dtype=bool)
    for least, room in known:
        if not counted[room.key_groups].any():
            total += least
            counted[room.key_groups] = True
    total += float(cost[must & ~counted].sum())
    return total if whole else total * (1 - 1e-12)


def _through(room: Rooms, current: np.ndarray, cost: FloatArray, must: BoolArray, whole: bool) -> float:
    """The larger of (1), with the key groups that must leave anyway, and (2)."""
    here, held = room.domain[current[room.key_groups]], room.held(current)
    cost, must, weight = cost[room.key_groups], must[room.key_groups], room.weights
    spare = TIE * room.heaviest
    out, into = float(cost[must & (here < 0)].sum()), 0.0
    for d in range(room.most.size):
        own = here == d
        surplus, missing = held[d] - room.most[d] - spare, room.least[d] - held[d] - spare
        out += max(float(cost[must & own].sum()), _cover(cost[own], weight[own], surplus, whole))
        into += _cover(cost[~own], weight[~own], missing, whole)
    return max(out, into)


def _cover(cost: FloatArray, weight: FloatArray, needed: float, whole: bool) -> float:
    """The least cost of shares of items that weigh so much together; of whole items, where all weigh the same."""
    if needed <= 0 or not (weight > 0).any():
        return 0.0
    cost, weight = cost[weight > 0], weight[weight > 0]
    if (weight == weight[0]).all():
        count = math.ceil(needed / weight[0] * (1 - 1e-9))
        return float(np.sort(cost)[:count].sum())
    order = np.argsort(cost / weight, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(weight[order])[:-1]])
    share = np.clip((needed - before) / weight[order], 0.0, 1.0)
    least = float(share @ cost[order]) * (1 - 1e-9)
    return float(math.ceil(least)) if whole else least


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

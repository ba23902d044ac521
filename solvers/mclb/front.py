"""The Pareto front of MCLB, imbalance against state moved, by the epsilon-constraint method."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.mclb.problem import MCLB
from keyshift.models.workload import IntArray
from keyshift.solvers.mclb.branch_and_bound import branch_and_bound
from keyshift.solvers.mclb.local_search import local_search

TREE_WORK = 400_000_000
"""Loads that the tree search of one point may touch: small instances end in a proof, others keep the root bound."""
BELOW = 1e-6
"""A budget less by this share forbids the movement of the point before."""


@dataclass(frozen=True)
class FrontPoint:
    """The answer at one budget: the problem with that budget, what was found, the seconds it took."""

    problem: MCLB
    answer: Answer
    seconds: float

    @property
    def imbalance(self) -> float:
        """What the placement is worth."""
        return self.problem.objective(self._placement)

    @property
    def state_moved(self) -> float:
        """What it moves."""
        return float(self.problem.metrics(self._placement)["state_moved"])

    @property
    def _placement(self) -> IntArray:
        if self.answer.assignment is None:
            raise ValueError("a point of the front holds a placement")
        return self.answer.assignment


def front(
    problem: MCLB,
    *,
    points: int | None,
    budget: Budget,
    seed: int = 0,
    workers: int = 1,
    known: Sequence[IntArray] = (),
    done: Sequence[FrontPoint] = (),
    keep: Callable[[FrontPoint], None] = lambda point: None,
) -> list[FrontPoint]:
    """Trace the front, from the least imbalance to the least movement.

    The budget of each point bounds the state moved, and the imbalance is minimised under it. The extreme points - no
    movement beyond what draining forces, and no budget but the problem's own - are always among them. Where the
    search ends in a proof, the least movement for that imbalance is looked for too, so that the point is on the
    front; elsewhere its gap says how far it may be from it.

    Parameters
    ----------
    problem : MCLB
        Its own budget, if it has one, ends the front.
    points : int or None
        Number of budgets, evenly spaced; None walks down the whole front, point by point (small instances).
    budget : Budget
    seed : int
    workers : int
        Points solved at a time, in threads (the searches are compiled and let go of the interpreter).
    known : sequence of ndarray
        Placements that no point need be worse than; what each of them moves is a budget too.
    done : sequence of FrontPoint
        Points of an earlier run, which are taken over.
    keep : callable
        Called with every point when it is finished.

    Returns
    -------
    list of FrontPoint
        By rising movement, none dominated.
    """
    starts = [a for a in known if problem.check(a).feasible]
    # Without those done: a resumed run ends as a whole one would.
    run = _EpsilonConstraint(problem, budget, seed, starts, keep)
    finished = {p.problem.max_state_moved: p for p in done}
    top = finished.get(problem.max_state_moved) or run.point(problem.max_state_moved, 1.0 / (points or 10))
    made = [top]
    if points is None:
        made += run.walk_down(top, finished)
    elif top.answer.assignment is not None:
        grid = np.linspace(problem.core.forced, top.state_moved, points)[:-1].tolist()
        theirs = [float(problem.metrics(a)["state_moved"]) for a in starts]
        budgets = sorted({*grid, *(x for x in theirs if problem.core.forced < x < top.state_moved)})
        open_budgets = [b for b in budgets if b not in finished]
        made += [finished[b] for b in budgets if b in finished]
        made += run.several(open_budgets, workers)
    return undominated(shared([p for p in made if p.answer.assignment is not None], run.known))


@dataclass
class _EpsilonConstraint:
    """What all points of one run share."""

    problem: MCLB
    budget: Budget
    seed: int
    known: list[IntArray]
    keep: Callable[[FrontPoint], None]

    def point(self, limit: float | None, share: float) -> FrontPoint:
        """Solve for one budget within a share of the time left."""
        began = time.monotonic()
        point = self._solved(dataclasses.replace(self.problem, max_state_moved=limit), self.budget.part(share))
        point = dataclasses.replace(point, seconds=time.monotonic() - began)
        if point.answer.assignment is not None and not self.budget.expired:
            self.keep(point)
        return point

    def _solved(self, problem: MCLB, budget: Budget) -> FrontPoint:
        core = problem.core
        if problem.conflicts():
            return FrontPoint(problem, Answer(None, termination="infeasible"), 0.0)
        start = min((a for a in self.known if problem.check(a).feasible), key=problem.objective, default=None)
        found = local_search(problem, budget=budget.part(0.3), seed=self.seed, start=start)
        tree = max(1, TREE_WORK // (core.nodes * core.load.shape[1]))
        answer = branch_and_bound(problem, budget=budget, seed=self.seed, start=found.assignment, max_tree=tree)
        point = FrontPoint(problem, answer, 0.0)
        while answer.termination == "optimal" and not budget.expired:  # the same imbalance for less movement?
            less = point.state_moved * (1 - BELOW)
            if less < core.forced or point.state_moved == 0:
                break
            tighter = dataclasses.replace(problem, max_state_moved=less)
            answer = branch_and_bound(tighter, budget=budget, seed=self.seed, max_tree=tree)
            if answer.assignment is None or problem.objective(answer.assignment) > point.imbalance + problem.tolerance:
                break
            point = dataclasses.replace(point, answer=dataclasses.replace(point.answer, assignment=answer.assignment))
        return point

    def several(self, limits: list[float], workers: int) -> list[FrontPoint]:
        """Solve for several budgets, each within its share of the time."""
        waves = math.ceil(len(limits) / max(workers, 1))
        if workers <= 1:
            return [self.point(limit, 1.0 / (len(limits) - i)) for i, limit in enumerate(limits)]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda limit: self.point(limit, 1.0 / waves), limits))

    def walk_down(self, top: FrontPoint, finished: dict[float | None, FrontPoint]) -> list[FrontPoint]:
        """From each point to the next one of less movement, until nothing more can be saved."""
        made = []
        last = top
        for _ in range(sys.maxsize):
            if last.answer.assignment is None or self.budget.expired:
                break
            least = last.state_moved * (1 - BELOW)
            if least < self.problem.core.forced or last.state_moved == 0:
                break
            last = finished.get(least) or self.point(least, 0.5)
            made.append(last)
        return made


CLEARLY = 1e-3
"""Placements that move more than a budget by so much of all state need no check."""


def shared(points: Sequence[FrontPoint], known: Sequence[IntArray] = ()) -> list[FrontPoint]:
    """Let every point use what the others found: placements of less movement, bounds for larger budgets.

    A placement that keeps a smaller budget keeps a larger one; an imbalance that no placement within a larger budget goes
    below is not reached within a smaller one either.
    """
    placements = [*known, *(p.answer.assignment for p in points if p.answer.assignment is not None)]
    if not points:
        return []
    value = points[0].problem  # points differ in their budget alone
    ranked = sorted((value.objective(a), value.metrics(a)["state_moved"], i) for i, a in enumerate(placements))
    margin = CLEARLY * float(value.workload.state.sum())
    made = []
    for point in points:
        problem, answer = point.problem, point.answer
        most = math.inf if problem.max_state_moved is None else problem.max_state_moved + margin
        within = (placements[i] for _, moved, i in ranked if moved <= most)
        best = next(a for a in within if not problem.violations(a))
        if problem.objective(best) >= point.imbalance - problem.tolerance:
            best = answer.assignment  # type: ignore[assignment]
        limit = math.inf if problem.max_state_moved is None else problem.max_state_moved
        wider = [
            p.answer.bound
            for p in points
            if p.answer.bound is not None and (p.problem.max_state_moved is None or p.problem.max_state_moved >= limit)
        ]
        made.append(
            dataclasses.replace(
                point, answer=dataclasses.replace(answer, assignment=best, bound=max(wider, default=None))
            )
        )
    return made


def undominated(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """By rising movement, only those of less imbalance than every point that moves no more."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda p: (p.state_moved, p.imbalance, -(p.answer.bound or 0.0))):
        if not kept or point.imbalance < kept[-1].imbalance - point.problem.tolerance:
            kept.append(point)
    return kept

"""The Pareto front of MCLB, imbalance against state moved, by the epsilon-constraint method."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.mclb.problem import MCLB
from keyshift.models.tuning import Settings
from keyshift.models.workload import IntArray
from keyshift.solvers.mclb.branch_and_bound import branch_and_bound


@dataclass(frozen=True)
class FrontSettings(Settings):
    """Tuning numbers of the front.

    Attributes
    ----------
    tree_work : int
        Loads that the tree search of one point may touch: small instances end in a proof, others keep the root bound.
    below : float
        A budget lowered by this share forbids the movement of the point before.
    clearly : float
        Placements that exceed a budget by this share of all state need no check.
    """

    tree_work: int = 400_000_000
    below: float = 1e-6
    clearly: float = 1e-3


@dataclass(frozen=True)
class FrontPoint:
    """The answer at one budget: the problem with that budget, what was found, the seconds it took."""

    problem: MCLB
    answer: Answer
    seconds: float

    @cached_property
    def imbalance(self) -> float:
        """The imbalance of the placement."""
        return self.problem.objective(self.placement)

    @cached_property
    def state_moved(self) -> float:
        """The state that the placement moves."""
        return float(self.problem.metrics(self.placement)["state_moved"])

    @property
    def placement(self) -> IntArray:
        """The assignment, which every point has."""
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
    run = _EpsilonConstraint(problem, budget, seed, starts, keep, FrontSettings.now())
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
        made += run.within(open_budgets, workers)
    return undominated(shared([p for p in made if p.answer.assignment is not None], run.known))


@dataclass
class _EpsilonConstraint:
    """The problem, budget and settings that all points of one run share."""

    problem: MCLB
    budget: Budget
    seed: int
    known: list[IntArray]
    keep: Callable[[FrontPoint], None]
    settings: FrontSettings

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
        tree = max(1, self.settings.tree_work // (core.nodes * core.load.shape[1]))
        answer = branch_and_bound(
            problem, budget=budget.part(1.0, scale=problem.scale), seed=self.seed, start=start, max_tree=tree
        )
        point = FrontPoint(problem, answer, 0.0)
        while answer.termination == "optimal" and not budget.expired:  # the same imbalance for less movement?
            less = point.state_moved * (1 - self.settings.below)
            if less < core.forced or point.state_moved == 0:
                break
            tighter = dataclasses.replace(problem, max_state_moved=less)
            answer = branch_and_bound(
                tighter, budget=budget.part(1.0, scale=problem.scale), seed=self.seed, max_tree=tree
            )
            if answer.assignment is None or problem.objective(answer.assignment) > point.imbalance + problem.tolerance:
                break
            point = dataclasses.replace(point, answer=dataclasses.replace(point.answer, assignment=answer.assignment))
        return point

    def within(self, limits: list[float], workers: int) -> list[FrontPoint]:
        """Solve for some budgets, each within its share of the time; at a limit for the first of them alone."""
        waves = math.ceil(len(limits) / max(workers, 1))

        def solved(position: int) -> FrontPoint | None:
            if position and self.budget.expired:  # even what finds nothing new takes its time, thousands of times
                return None
            return self.point(limits[position], 1.0 / (waves - position // max(workers, 1)))

        if workers <= 1:
            made = list(map(solved, range(len(limits))))
        else:
            with ThreadPoolExecutor(workers) as pool:
                made = list(pool.map(solved, range(len(limits))))
        return [point for point in made if point is not None]

    def walk_down(self, top: FrontPoint, finished: dict[float | None, FrontPoint]) -> list[FrontPoint]:
        """From each point to the next one of less movement, until nothing more can be saved."""
        made = []
        last = top
        for _ in range(sys.maxsize):
            if last.answer.assignment is None or self.budget.expired:
                break
            least = last.state_moved * (1 - self.settings.below)
            if least < self.problem.core.forced or last.state_moved == 0:
                break
            last = finished.get(least) or self.point(least, 0.5)
            made.append(last)
        return made


def shared(points: Sequence[FrontPoint], known: Sequence[IntArray] = ()) -> list[FrontPoint]:
    """Let every point use what the others found: placements of less movement, bounds for larger budgets.

    A placement that keeps a smaller budget keeps a larger one; an imbalance that no placement within a larger budget goes
    below is not reached within a smaller one either.
    """
    if not points:
        return []
    value = points[0].problem  # points differ in their budget alone
    held = [p for p in points if p.answer.assignment is not None]
    placements: list[IntArray] = [*known, *(a for p in held if (a := p.answer.assignment) is not None)]
    worth = [(value.objective(a), float(value.metrics(a)["state_moved"])) for a in known]
    worth += [(p.imbalance, p.state_moved) for p in held]
    ranked = sorted((imbalance, moved, i) for i, (imbalance, moved) in enumerate(worth))
    margin = FrontSettings.now().clearly * float(value.workload.state.sum())
    bounds, made = _bounds(points), []
    for point in points:
        problem, answer = point.problem, point.answer
        most = math.inf if problem.max_state_moved is None else problem.max_state_moved + margin
        within = (placements[i] for _, moved, i in ranked if moved <= most)
        best = next(a for a in within if not problem.violations(a))
        if best is not answer.assignment and problem.objective(best) >= point.imbalance - problem.tolerance:
            best = point.placement
        answer = dataclasses.replace(answer, assignment=best, bound=bounds[_limit(point)])
        made.append(dataclasses.replace(point, answer=answer))
    return made


def _limit(point: FrontPoint) -> float:
    return math.inf if point.problem.max_state_moved is None else point.problem.max_state_moved


def _bounds(points: Sequence[FrontPoint]) -> dict[float, float | None]:
    """By budget, the highest bound proven for it or for a larger one."""
    found: dict[float, float | None] = {}
    highest: float | None = None
    for point in sorted(points, key=_limit, reverse=True):
        proven = point.answer.bound
        if proven is not None:
            highest = proven if highest is None else max(highest, proven)
        found[_limit(point)] = highest
    return found


def undominated(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """By rising movement, only those of less imbalance than every point that moves no more."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda p: (p.state_moved, p.imbalance, -(p.answer.bound or 0.0))):
        if not kept or point.imbalance < kept[-1].imbalance - point.problem.tolerance:
            kept.append(point)
    return kept

"""Fronts by the epsilon-constraint method: one objective is minimised, the other one limited ever more tightly."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from keyshift.catalogue import find_method
from keyshift.catalogue.method import Trade
from keyshift.models import Answer, Budget, InputError, Problem
from keyshift.models.base.lazily import load
from keyshift.models.solution import Solution
from keyshift.solving import answered

SHARE = 0.25
"""Share of the time left that each point may take if the number of points is unknown."""


@dataclass(frozen=True)
class TracedPoint:
    """The answer at one limit: the problem with that limit, what was found, the seconds it took."""

    problem: Problem
    answer: Answer
    seconds: float

    @property
    def assignment(self) -> np.ndarray:
        """The answer's assignment, which every point has."""
        assert self.answer.assignment is not None
        return self.answer.assignment

    @cached_property
    def objective(self) -> float:
        """The problem's own objective."""
        return self.problem.objective(self.assignment)


class Tracer:
    """One run over the limits of a trade.

    Parameters
    ----------
    problem : Problem
        Its own limit ends the front.
    trade : Trade
    budget : Budget
        Of the whole front.
    seed : int
    keep : callable
        Told of every finished point.
    done : sequence of TracedPoint
        Points of an earlier run, by their limits.
    known : sequence of ndarray
        Assignments that no point need be worse than; what each of them has of the second objective is a limit too.
    workers : int
        Points solved at a time, in threads, where the trade's are solved apart.
    """

    def __init__(
        self, problem: Problem, trade: Trade, budget: Budget, seed: int, keep: Callable[[Any], None],
        done: Sequence[TracedPoint] = (), known: Sequence[np.ndarray] = (), workers: int = 1,
    ) -> None:  # fmt: skip
        self.problem, self.trade, self.budget, self.seed, self.keep = problem, trade, budget, seed, keep
        self.method = find_method(problem, None)
        self.options = load(trade.options)(problem) if trade.options else {}
        self.done = {getattr(point.problem, trade.limit): point for point in done}
        self.known = [assignment for assignment in known if problem.check(assignment).feasible]
        self.workers, self.every = workers if trade.apart else 1, False

    def run(self, points: int | None) -> list[TracedPoint]:
        """The points of the front, none dominated, by the rising second objective."""
        self.every = points is None
        if self.trade.least is not None:
            return self._undominated(self._every_setting(points))
        top = self._at(getattr(self.problem, self.trade.limit), None, 1 / points if points else SHARE)
        if top is None:
            return []
        found = self._downwards(top) if points is None else self._within(self._grid(top, points), points)
        return self._undominated(self._shared(self._longer([top, *found])))

    def _longer(self, points: list[TracedPoint]) -> list[TracedPoint]:
        """The points, those whose part of the time ran out solved on as long as others have left some."""
        while still := [at for at, point in enumerate(points) if point.answer.termination == "time_limit"]:
            for place, at in enumerate(still):
                if self.budget.expired:
                    return points
                old = points[at]
                began, part = time.perf_counter(), self.budget.part(1 / (len(still) - place), scale=old.problem.scale)
                known = self._shared(points)  # a neighbour's answer may be the better start
                start = min(known, key=lambda p: p.problem is not old.problem)
                answer = self._answer(old.problem, start, part)
                bounds = [bound for bound in (answer.bound, old.answer.bound) if bound is not None]
                answer = dataclasses.replace(answer, bound=max(bounds, default=None))
                points[at] = TracedPoint(old.problem, answer, old.seconds + time.perf_counter() - began)
                self.keep(points[at])
        return points

    def _second(self, assignment: np.ndarray) -> float:
        return float(self.problem.metrics(assignment)[self.trade.metric])

    def _limit(self, point: TracedPoint) -> float:
        limit = getattr(point.problem, self.trade.limit)
        return math.inf if limit is None else float(limit)

    def _downwards(self, top: TracedPoint) -> Iterator[TracedPoint]:
        """Every point below one, each limit just below what the point before has."""
        last: TracedPoint | None = top
        for _ in range(100_000):
            assert last is not None
            value = self._second(last.assignment)
            below = self._below(value)
            if self.budget.expired or below < 0 or (value == 0 and not self.trade.whole):
                return
            last = self._at(below, None, SHARE)
            if last is None or self._second(last.assignment) >= value:
                return
            yield last

    def _below(self, value: float) -> float:
        """The limit that rules out a value of the second objective, and little else: more than the check's tolerance."""
        return int(value) - 1 if self.trade.whole else value * (1 - 1e-6) - self.trade.offset

    def _grid(self, top: TracedPoint, points: int) -> list[float]:
        """Limits from the least to just below the top one, evenly spaced, and those that known answers keep."""
        most = max(0.0, self._second(top.assignment) - self.trade.offset)  # without load, the largest is below the mean
        least = min(self._forced(), most)
        given = [self._second(a) - self.trade.offset for a in self.known]
        limits = {least, *np.linspace(least, most, points)[:-1].tolist(), *(v for v in given if least <= v < most)}
        return sorted({math.floor(v + 1e-9) if self.trade.whole else v for v in limits})

    def _forced(self) -> float:
        """The second objective that draining nodes ask for whatever else is done, where it counts what moves."""
        w = getattr(self.problem, "workload", None)
        if w is None or self.trade.metric not in ("state_moved", "migrations"):
            return 0.0
        leaving = w.draining[w.current]
        return float(w.state[leaving].sum() if self.trade.metric == "state_moved" else leaving.sum())

    def _within(self, limits: list[float], points: int) -> list[TracedPoint]:
        """The points at some limits, each within its share of the time; at the end of the time only the first of them."""
        waves = math.ceil(len(limits) / self.workers)
        last: list[TracedPoint] = []

        def solved(place: int) -> TracedPoint | None:
            if place and self.budget.expired:  # even what finds nothing new takes its time, thousands of times
                return None
            start = last[-1] if last and not self.trade.apart else None
            made = self._at(limits[place], start, 1 / (waves - place // self.workers))
            last.extend([] if made is None else [made])
            return made

        if self.workers == 1:
            return [point for point in map(solved, range(len(limits))) if point is not None]
        with ThreadPoolExecutor(self.workers) as pool:
            waiting = [pool.submit(copy_context().run, solved, place) for place in range(len(limits))]
            return [point for one in waiting if (point := one.result()) is not None]

    def _every_setting(self, points: int | None) -> list[TracedPoint]:
        """A point for each setting of a parameter that bounds no metric by itself."""
        least = self.trade.least or 1
        most = getattr(self.problem, self.trade.limit) or int(getattr(self.problem, "workers", least))
        settings = range(least, min(most, least + (points or most) - 1) + 1)
        made = (self._at(value, None, 1 / (most - value + 1)) for value in settings)
        return [point for point in made if point is not None]

    def _at(self, limit: Any, start: TracedPoint | None, share: float) -> TracedPoint | None:
        """The point at one limit; None where nothing keeps it, or nothing was found in time."""
        posed = self.problem.changed(**{self.trade.limit: limit})
        limit = getattr(posed, self.trade.limit)
        if limit in self.done:
            return self.done[limit]
        began, part = time.perf_counter(), self.budget.part(share, scale=posed.scale)
        answer = self._answer(posed, start, part)
        if answer.assignment is None:
            return None
        if not self.every and self.trade.apart:
            answer = self._for_less(posed, answer, part)
        point = TracedPoint(posed, answer, time.perf_counter() - began)
        if not self.budget.expired:
            self.keep(point)
        return point

    def _for_less(self, posed: Problem, answer: Answer, budget: Budget) -> Answer:
        """As good an answer with less of the second objective, while answers are proven: then it lies on the front."""
        while answer.termination == "optimal" and not budget.expired:
            assert answer.assignment is not None
            less = self._below(value := self._second(answer.assignment))
            if value == 0 or less < self._forced():
                break
            tighter = dataclasses.replace(posed, **{self.trade.limit: less})  # type: ignore[type-var]
            found = self._answer(tighter, None, budget.part(1.0, scale=posed.scale)).assignment
            if found is None or posed.objective(found) > posed.objective(answer.assignment) + posed.tolerance:
                break
            answer = dataclasses.replace(answer, assignment=found)
        return answer

    def _answer(self, posed: Problem, start: TracedPoint | None, part: Budget) -> Answer:
        """The method's answer at one limit, from the best of what is known to keep it."""
        known = [*self.known, *([] if start is None else [start.assignment])]
        first = min((a for a in known if posed.check(a).feasible), key=posed.objective, default=None)
        solution = answered(posed, self.method, part, self.seed, first, self.options)
        return Answer(solution.assignment, solution.bound, solution.termination)

    def _shared(self, points: Sequence[TracedPoint]) -> list[TracedPoint]:
        """Let every point use what the others found: answers that keep a smaller limit, bounds for larger ones.

        What keeps a smaller limit keeps a larger one; a value that no answer within a larger limit goes below is not reached
        within a smaller one either.
        """
        by_limit = sorted(points, key=self._limit, reverse=True)
        held = [*self.known, *(point.assignment for point in points)]
        worth = sorted((self.problem.objective(a), self._second(a), place) for place, a in enumerate(held))
        margin = 1e-3 * max(moved for _, moved, _ in worth)
        highest, made = -math.inf, []
        for point in by_limit:
            highest = max(highest, -math.inf if point.answer.bound is None else point.answer.bound)
            most = self._limit(point) + self.trade.offset + margin
            within = (held[place] for _, second, place in worth if second <= most)
            best = next((a for a in within if not point.problem.violations(a)), point.assignment)
            if point.problem.objective(best) >= point.objective - point.problem.tolerance:
                best = point.assignment
            bound = highest if math.isfinite(highest) else None
            answer = dataclasses.replace(point.answer, assignment=best, bound=bound)
            made.append(TracedPoint(point.problem, answer, point.seconds))
        return made

    def _undominated(self, points: Sequence[TracedPoint]) -> list[TracedPoint]:
        """Points that no other beats or equals in both objectives, by the rising second one."""
        ranked = sorted(points, key=lambda p: (self._second(p.assignment), p.objective, -(p.answer.bound or 0.0)))
        front: list[TracedPoint] = []
        for point in ranked:
            if not front or point.objective < front[-1].objective - point.problem.tolerance_of(point.objective):
                front.append(point)
        return front


def find_trade(trades: Sequence[Trade], name: str | None, problem: str) -> Trade:
    """The trade of that name, or the first one."""
    for trade in trades:
        if name in (None, trade.name):
            return trade
    raise InputError(f"{problem} trades against {', '.join(t.name for t in trades)}, not {name!r:.60}")


def as_solution(point: Any) -> Solution:
    """A point as a checked solution."""
    return Solution.of(point.problem, "pareto", point.answer, point.seconds)

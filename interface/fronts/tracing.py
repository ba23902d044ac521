"""Fronts by the epsilon-constraint method: one objective is minimised, the other one limited ever more tightly."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyshift.catalogue import find_method
from keyshift.catalogue.method import Trade
from keyshift.models import Answer, Budget, InputError, Problem
from keyshift.models.solution import Solution
from keyshift.solving import answered

BELOW = 1e-6
"""A limit that is not a whole number is lowered by this share, which is more than the check's slack: that rules out the
point before it."""
SHARE = 0.25
"""A point takes this share of the time left where the number of points is not known."""
MOST_WHOLE = 100_000
"""A whole front has at most this many points."""


@dataclass(frozen=True)
class TracedPoint:
    """The answer at one limit: the problem with that limit, what was found, the seconds it took."""

    problem: Problem
    answer: Answer
    seconds: float


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
    """

    def __init__(
        self, problem: Problem, trade: Trade, budget: Budget, seed: int, keep: Callable[[Any], None],
        done: Sequence[TracedPoint] = (),
    ) -> None:  # fmt: skip
        self.problem, self.trade, self.budget, self.seed, self.keep = problem, trade, budget, seed, keep
        self.method = find_method(problem, None)
        self.known = {getattr(point.problem, trade.limit): point for point in done}

    def run(self, points: int | None, known: Sequence[np.ndarray]) -> list[TracedPoint]:
        """The points of the front, none dominated, by the rising second objective."""
        if self.trade.least is not None:
            return undominated(self._every_setting(points), self.trade)
        top = self._at(getattr(self.problem, self.trade.limit), None, 1.0 if points is None else 1 / points)
        if top is None:
            return []
        if points is None:
            return undominated([top, *self._downwards(top)], self.trade)
        found = [top]
        for place, limit in enumerate(self._grid(top, points, known)):
            if (made := self._at(limit, found[-1], 1 / (points - place))) is not None:
                found.append(made)
        return undominated(found, self.trade)

    def _downwards(self, top: TracedPoint) -> Iterator[TracedPoint]:
        """Every point below one, each limit just below what the point before has."""
        last: TracedPoint | None = top
        for _ in range(MOST_WHOLE):
            value = second(last, self.trade)  # type: ignore[arg-type]
            below = value - 1 if self.trade.whole else value * (1 - BELOW) - self.trade.offset
            if self.budget.expired or below < 0 or (value == 0 and not self.trade.whole):
                return
            last = self._at(int(below) if self.trade.whole else below, None, SHARE)
            if last is None or second(last, self.trade) >= value:
                return
            yield last

    def _grid(self, top: TracedPoint, points: int, known: Sequence[np.ndarray]) -> list[float]:
        """Limits from the least to just below the top one, evenly spaced, and those that known answers keep."""
        most = max(0.0, second(top, self.trade) - self.trade.offset)  # without load, the largest is below the mean
        limits = {0.0, *np.linspace(0, most, points)[:-1].tolist()}
        given = [self.problem.metrics(a)[self.trade.metric] - self.trade.offset for a in known]
        limits |= {value for value in given if 0 <= value < most}
        return sorted({math.floor(v + 1e-9) if self.trade.whole else v for v in limits})

    def _every_setting(self, points: int | None) -> list[TracedPoint]:
        """A point for each setting of a parameter that bounds no metric by itself."""
        least = self.trade.least or 1
        most = getattr(self.problem, self.trade.limit) or int(getattr(self.problem, "workers", least))
        settings = range(least, min(most, least + (points or most) - 1) + 1)
        made = (self._at(value, None, 1 / (most - value + 1)) for value in settings)
        return [point for point in made if point is not None]

    def _at(self, limit: Any, start: TracedPoint | None, share: float) -> TracedPoint | None:
        """The point at one limit; None where nothing keeps it, or nothing was found in time."""
        posed = dataclasses.replace(self.problem, **{self.trade.limit: limit})  # type: ignore[type-var]
        limit = getattr(posed, self.trade.limit)
        if limit in self.known:
            return self.known[limit]
        began = time.perf_counter()
        first = None if start is None else start.answer.assignment
        if first is not None and not posed.check(first).feasible:
            first = None
        part = self.budget.part(share, scale=posed.scale)
        solution = answered(posed, self.method, part, self.seed, first, {})
        if solution.assignment is None:
            return None
        answer = Answer(solution.assignment, solution.bound, solution.termination)
        point = TracedPoint(posed, answer, time.perf_counter() - began)
        if not self.budget.expired:
            self.keep(point)
        return point


def second(point: TracedPoint, trade: Trade) -> float:
    """The second objective of a point."""
    assert point.answer.assignment is not None
    return float(point.problem.metrics(point.answer.assignment)[trade.metric])


def undominated(points: Sequence[TracedPoint], trade: Trade) -> list[TracedPoint]:
    """Points that no other beats or equals in both objectives, by the rising second one."""
    values = []
    for place, point in enumerate(points):
        assert point.answer.assignment is not None
        values.append((second(point, trade), point.problem.objective(point.answer.assignment), place))
    front: list[TracedPoint] = []
    least = math.inf
    for _, objective, place in sorted(values):
        point = points[place]
        if objective < least - point.problem.tolerance_of(objective) or not front:
            front.append(point)
            least = objective
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

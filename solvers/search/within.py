"""A search for limits that are hard to keep: coolings at a price for what exceeds them, which rises, again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget, Problem
from keyshift.models.answer import Settings
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.search.annealing import Cooling, LocalSearch, shares_of
from keyshift.solvers.search.program import Aim, Placing
from keyshift.solvers.tuning import numbers

_NUMBERS = numbers("rules")


@dataclass(frozen=True)
class RuledSearchSettings(Settings):
    """Tuning parameters of the search for least movement, and of the searches under rules.

    Attributes
    ----------
    rounds : int
        Coolings in a row without gain before the search ends, at `effort` 1.
    first, most : int
        Steps of the first cooling for each item, which then double; the most steps.
    each_second : int
        The most numbers that one cooling reads for each second left, since the clock is not checked during it.
    """

    rounds: int = _NUMBERS["rounds"]
    first: int = _NUMBERS["first"]
    most: int = _NUMBERS["most"]
    each_second: int = _NUMBERS["each_second"]


HOT, COLD = (0.03, 0.5), (1e-3, 1e-2)
"""Ranges from which a cooling's first and last temperature are drawn, in units of the mean cost of a key group."""
MELTED, FROZEN = (1.0, 4.0), (0.1, 0.5)
"""The same for a search on squares, in units of the temperature at which random moves keep them unchanged."""
FIRST_PRICE = 0.03, 2.0
"""Range of the first price, in units of what it costs the median key group to leave a row."""
SHARES = shares_of(anywhere=0.25, swap=0.25, go_home=0.25, exchange_home=0.25)


class Task(NamedTuple):
    """A problem as the search sees it.

    Attributes
    ----------
    placing : Placing
    aim : Aim
    cost : ndarray, shape (p,)
        What it costs each key group to be elsewhere than now, or the squares of its loads, in units of the aim.
    """

    placing: Placing
    aim: Aim
    cost: FloatArray

    @property
    def possible(self) -> bool:
        """Whether every item has a node."""
        it = self.placing.program
        return bool((np.asarray(it.enter.any(axis=1))[it.kind] | it.stay).all())

    @property
    def assignments(self) -> float:
        """How many there are, at most."""
        it = self.placing.program
        return math.exp(min(float(np.log(np.maximum(it.enter.sum(axis=1), 1))[it.kind].sum()), 100.0))

    def unit(self, place: IntArray) -> float:
        """The temperature at which random moves keep squares unchanged; for costs their mean."""
        loads = self.placing.program.loads
        if not self.aim.squares:
            return float(self.cost.mean()) or 1.0
        sums = np.zeros((loads.weight.size, loads.load.shape[1]))
        np.add.at(sums, self.placing.items.contracted(place), loads.load)
        freedom = max(1, (sums.shape[0] - 1) * sums.shape[1])
        return 2 * float(np.square(sums - sums.mean(axis=0)).sum()) / freedom / self.aim.unit**2 or 1.0


def search_within(
    problem: Problem,
    posed: Callable[[int], Task],
    *,
    budget: Budget,
    seed: int,
    start: IntArray | None,
    effort: float = 1.0,
    but: Collection[str] | None = (),
) -> Answer:
    """The best assignment that annealing finds, or the start; `posed` makes the task of each turn, `but` is for `kept`.

    No guarantee; a step costs the rows of its key groups, and the windows.
    """
    settings, rng = budget.tuned(RuledSearchSettings), np.random.default_rng(seed)
    best, least = start, math.inf if start is None else problem.objective(start)
    idle, turn, steps = 0, 0, settings.first
    place = None if start is None else start.copy()
    search: LocalSearch | None = None
    rate = settings.each_second / 4  # until a cooling has shown what this machine does on this instance
    while idle < max(1.0, settings.rounds * effort) and least > 0.0 and not budget.expired:
        task = posed(turn)
        it = task.placing.program
        if not task.possible:
            break
        if search is None or search.placing is not task.placing:
            search = LocalSearch(task.placing, SHARES, seed, 67 + turn)
        p = it.current.size
        touched = 1.0 + it.loads.load.shape[1] / 8 + it.rows.weight.size / p
        longest = min(10_000_000, rate * budget.remaining) / touched
        most = max(1, int(min(steps * p, settings.most * p, longest, 20 * task.assignments)))
        begun = task.placing.items.expanded(it.current) if place is None else place
        search.begin(begun)
        began = budget.elapsed
        found, _ = search.cool(task.aim, _cooling(task, most, task.unit(begun), rng))
        budget.spend(2 * most)
        rate = min(settings.each_second, 0.9 * most * touched / max(budget.elapsed - began, 1e-3))
        turn, idle, steps = turn + 1, idle + 1, 2 * steps
        within = search.fewest <= task.placing.slack and kept(problem, found, but)
        value = problem.objective(found) if within else math.inf
        if value < least:
            best, least, idle = found, value, 0
            budget.report(objective=value, note="local search")
        if (within and value <= least) or best is None:
            place = found
    return Answer(best, termination=budget.why if budget.expired else "completed")


def _cooling(task: Task, steps: int, unit: float, rng: np.random.Generator) -> Cooling:
    """Temperatures and prices, drawn from their ranges."""

    def drawn(between: tuple[float, float]) -> float:
        return float(np.exp(rng.uniform(*np.log(sorted(between)))))

    hot, cold = (MELTED, FROZEN) if task.aim.squares else (HOT, COLD)
    price = drawn(FIRST_PRICE) * (unit if task.aim.squares else 1.0)
    return Cooling(steps, unit * drawn(hot), unit * drawn(cold), price, 10.0 * task.placing.highest, task.placing.slack)

"""Simulated annealing over the moves and terms of a placement program [Kirkpatrick1983]."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget, Problem
from keyshift.models.base.compiling import LEAF, generator, njit, overwrite, uniform
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.search.moves import MOVES, propose
from keyshift.solvers.search.program import UNLIMITED, Aim, Placing
from keyshift.solvers.search.second_moments import (
    SecondMoments,
    best_neighbour,
    carry_squares,
    rise_of_squares,
    sum_squares,
)
from keyshift.solvers.search.terms import accept, as_far, cut_of, measure, refresh, rise_of_nodes, shift_rows, weigh
from keyshift.solvers.tuning import RuledSearchSettings

CHANGED = 4096
"""So many moves since the best placement are noted; of more, all of it is written."""


class Cooling(NamedTuple):
    """How long, from which temperature to which, and the price of what limits are exceeded by, which rises likewise.

    A price of infinity refuses whatever exceeds limits by more.
    """

    steps: int
    hot: float
    cold: float
    price: float = np.inf
    last_price: float = np.inf
    slack: float = 1e-12
    """Limits may be exceeded by so much in an answer."""
    least: float = np.inf
    """A measure that answers must be below."""


@njit(**LEAF)
def excess(aim, together, bands, broken):
    """By how much limits are exceeded in all."""
    over = max(bands, 0.0) + max(broken, 0.0)
    if aim.most_cut < UNLIMITED:
        over += max(cut_of(together, aim, 0.0) - aim.most_cut, 0.0)
    return over


@njit(**LEAF)
def better(aim, energy, least_energy, least, trial, program, state):
    """The measure of a placement that may be better than the best, else infinity."""
    if aim.doublings > 0 and not aim.squares:
        if (
            as_far(aim, least, program.loads, state.load, state.together, state.witness)
            if aim.worst
            else energy > least_energy
        ):
            return np.inf
    return measure(aim, trial, program, state)


@njit(**LEAF)
def keep_changed(best, place, changed, count):
    """`best` becomes the placement: where few key groups have been moved since it was, these alone are written."""
    if count > changed.size:
        overwrite(best, place)
        return
    for x in range(count):
        best[changed[x]] = place[changed[x]]


@njit(cache=True, error_model="numpy", nogil=True)
def anneal(rng, shares, cooling, aim, best, trial, program, state, squares):  # noqa: C901  # a compiled loop is one function
    """Anneal from where all are placed; `best` becomes the placement of least measure within the limits.

    Steps are drawn by the `shares` of the moves, or by second moments (`squares`), whose measure is by how much the sum of
    squares changes: what belongs to the one of them that is None is not compiled.

    Returns that measure, infinite where none is below ``cooling.least``, the least excess met and the share of steps beyond
    limits.
    """
    place, value = state.placed.place, 0.0
    if shares is not None:
        refresh(aim, program, state)
        value = measure(aim, trial, program, state)
    if squares is not None:
        sum_squares(rng, squares, program, state)
    over = excess(aim, state.together, state.bands[0], state.broken[0])
    least, fewest, beyond, found = cooling.least, over, 0, np.inf
    energy, least_energy = 0.0, 0.0
    overwrite(best, place)
    if over <= cooling.slack and value < least:
        least = found = value
    heat, price = cooling.hot, cooling.price
    falling = (cooling.cold / cooling.hot) ** (1.0 / max(cooling.steps, 1))
    rising = (cooling.last_price / cooling.price) ** (1.0 / max(cooling.steps, 1)) if price < np.inf else 1.0
    cut = cut_after = cut_of(state.together, aim, aim.blend)
    changed, since = np.empty(min(place.size, CHANGED), np.int64), 0  # moved since `best` was written
    for _ in range(cooling.steps):
        heat *= falling
        price *= rising
        if over > cooling.slack:
            beyond += 1
        count, threshold, rise, bands = 0, 0.0, 0.0, 0.0
        if shares is not None:
            count = propose(rng, shares, trial.step, program, state)
        if squares is not None:
            count, threshold = best_neighbour(rng, heat, price, squares, trial.step, program, state)
            rise = rise_of_squares(count, trial.step, squares, place)
        if count == 0:
            continue
        if shares is not None:
            threshold = -heat * math.log(1.0 - uniform(rng))
            nodes = weigh(count, trial, program, state)
            rise, bands = rise_of_nodes(nodes, aim, trial, program, state)
            cut_after = cut_of(trial.together, aim, aim.blend)
            rise += aim.cut * (cut_after - cut)
        if aim.goal == 0.0 and rise > threshold and over <= cooling.slack:
            continue  # rows that all hold cannot make it better
        broken, missed = shift_rows(count, False, state.held, program.rows, trial.step, place)
        rise += aim.goal * missed
        after = excess(aim, trial.together, state.bands[0] + bands, state.broken[0] + broken)
        taken = rise <= threshold and after <= max(over, cooling.slack)
        if price < np.inf:
            taken = rise + price * (after - over) <= threshold
        if not taken:
            shift_rows(count, True, state.held, program.rows, trial.step, place)
            continue
        if shares is not None:
            accept(count, nodes, aim, trial, program, state)
        if squares is not None:
            carry_squares(count, trial.step, rise, squares, place)
        for s in range(count):
            if since < changed.size:
                changed[since] = trial.step.who[s]
            since += 1
        state.missed[0] += missed
        state.bands[0] = state.bands[0] + bands if state.bands[0] + bands > 1e-13 else 0.0
        state.broken[0] = state.broken[0] + broken if state.broken[0] + broken > 1e-9 else 0.0
        energy, cut, over = energy + rise, cut_after, after
        if over < fewest and found == np.inf and cooling.least == np.inf:
            fewest = over
            keep_changed(best, place, changed, since)
            since = 0
        if over <= cooling.slack:
            if shares is not None:
                value = better(aim, energy, least_energy, least, trial, program, state)
            if squares is not None:
                value = squares.gained[0]
            if value < least - 1e-12 * abs(least):
                keep_changed(best, place, changed, since)
                since = 0
                least = found = value
                least_energy = energy
    return found, fewest, beyond / max(cooling.steps, 1)


def shares_of(**weights: float) -> FloatArray:
    """Cumulative shares of the moves, by their names."""
    given = np.array([weights.pop(name, 0.0) for name in MOVES])
    assert not weights, weights
    return np.cumsum(given / given.sum())


class LocalSearch:
    """A placement that is annealed, again and again.

    Parameters
    ----------
    placing : Placing
    shares : ndarray or None
        Of `shares_of`; None with `squares`.
    seed, stream : int
        Of its random numbers.
    squares : SecondMoments, optional
        For the sum of squares over many windows, where steps are the best of all of a key group's.
    """

    def __init__(
        self, placing: Placing, shares: FloatArray | None, seed: int, stream: int, squares: SecondMoments | None = None
    ) -> None:
        self.placing, self.shares, self.rng, self.squares = placing, shares, generator(seed, stream), squares
        self.state, self.trial, self.best = placing.state(), placing.trial(), placing.program.current.copy()
        self.fewest, self.beyond = np.inf, 0.0

    def begin(self, assignment: IntArray) -> None:
        """Go on from an assignment."""
        self.state.placed.place[:] = self.placing.items.contracted(assignment)

    def cool(self, aim: Aim, cooling: Cooling) -> tuple[IntArray, float]:
        """The best assignment of a cooling within the limits, or the one that exceeds them least, and its measure."""
        found, self.fewest, self.beyond = anneal(
            self.rng, self.shares, cooling, aim, self.best, self.trial, self.placing.program, self.state, self.squares
        )
        return self.placing.items.expanded(self.best), found


# A search for limits that are hard to keep: coolings at a price for what exceeds them, which rises, again and again ---


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

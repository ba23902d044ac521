"""The phases of "milp" over several windows: rounds of annealing, and a bound in between."""

from __future__ import annotations

import math

import numpy as np

from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.incumbent import SEARCHED, Incumbent
from keyshift.solvers.allocation.settings import RoundSettings
from keyshift.solvers.allocation.windows.arrays import WindowInstance
from keyshift.solvers.allocation.windows.bound import MoveBound, counted_bound, stay_value
from keyshift.solvers.allocation.windows.search import Turn, WindowSearch

ROUNDINGS = 30
"""Assignments drawn from the joint relaxation, of which a fresh round takes the best."""
COUNT_SHARE, BOUND_SHARE = 0.2, 0.5
"""Of the time left after the first round of annealing, the windows' counts and then the joint relaxation take at most so much."""


class WindowRounds:
    """All that searches and bounds one instance over several windows.

    Parameters
    ----------
    found : Incumbent
        Is told every answer and bound, and says when to stop.
    seed : int
    most : int, optional
        Rounds of annealing at most, without the bound.
    """

    def __init__(self, found: Incumbent, seed: int, most: int | None = None) -> None:
        self.found, self.seed, self.most, self.settings = found, seed, most, RoundSettings.now()
        self.instance = WindowInstance(found.problem)
        self.search = WindowSearch(self.instance, seed)
        self.bound: MoveBound | None = None

    def run(self) -> dict[str, object]:
        """Anneal and bound until they meet, the time is up, or enough is done; figures about the run."""
        it, found = self.instance, self.found
        if it.max_moves == 0 or it.nodes == 1:
            found.raise_bound(stay_value(it) * found.problem.scale, "nothing may move")
            return {}
        pairs = found.problem.space.pairs
        steps = min(self.settings.most_steps, max(self.settings.least_steps, pairs * self.settings.steps_for_each))
        endless = math.isfinite(found.budget.time_limit) and pairs * it.windows > self.settings.endless_pairs
        turn = done = 0
        while not found.done and (endless or done < steps) and (self.most is None or turn < self.most):
            todo = self.search.turn(turn)
            done += self._anneal(self._fresh(turn) if todo.fresh or found.best is None else found.best, todo, turn)
            turn += 1
            if turn == 1 and self.most is None:
                self._bound()
        return {"rounds": turn}

    def _fresh(self, turn: int) -> IntArray:
        """Where a round begins that does not go on from the best: where everything runs now, then moves drawn by their shares."""
        if self.bound is None:
            return self.instance.current
        rng = np.random.default_rng([self.seed, turn])
        drawn = [self.bound.master.rounded(rng) for _ in range(ROUNDINGS)]
        return min(drawn, key=self.instance.distance)

    def _bound(self) -> None:
        """Each window's counts, then the joint relaxation, within a share of the time."""
        found, part = self.found, self.found.budget.part(COUNT_SHARE)
        found.raise_bound(counted_bound(found.problem, lambda: part.expired), "counts")
        part = found.budget.part(BOUND_SHARE)
        bound = self.bound = MoveBound(self.instance)
        found.raise_bound(bound.begin() * found.problem.scale, "relaxation")
        while not bound.ended and not part.expired and not found.done:
            found.raise_bound(bound.improve(lambda: part.expired, 1) * found.problem.scale, "relaxation")

    def _anneal(self, start: IntArray, todo: Turn, stream: int) -> int:
        """One round of search, in chunks short enough to heed the time limit; how many steps it took."""
        self.search.begin(start, stream)
        done = 0
        while done < todo.steps and not self.found.done:
            best = self.found.best
            level = 0.0 if todo.fresh else self.search.level(start if best is None else best)
            value = math.inf if best is None else self.instance.distance(best)
            chunk = min(self.search.steps_between, todo.steps - done)
            hot, cold = (todo.hot * (todo.cold / todo.hot) ** (at / todo.steps) for at in (done, done + chunk))
            part = todo._replace(steps=chunk, hot=hot, cold=cold)
            self.found.offer(self.search.improve(part, value, level), "annealed", SEARCHED)
            done += chunk
        return done

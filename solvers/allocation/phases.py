"""Rounds of search, of planning and of pricing, in turns: how "milp" closes the gap from both sides."""

from __future__ import annotations

import math

import numpy as np

from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.annealing.search import Round, Search
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.allocation.counting.planner import CountPlanner
from keyshift.solvers.allocation.incumbent import PROVEN, Incumbent
from keyshift.solvers.allocation.pricing.bound import PriceBound
from keyshift.solvers.allocation.pricing.tree import PriceTree

STEPS = (6_000_000, 200_000_000, 15_000)
"""Steps of search before the rounds end: at least, at most, and for each (key group, node) pair."""
ENDLESS_PAIRS = 5_000
"""With more pairs than so many, rounds use up a time limit: no solver would use the time better."""
TARGETS = (0.5, 0.75, 0.25, 0.9, 0.02, 0.6, 0.35, 0.97, 0.1)
"""Where between the bound and the best distance plans aim, in turns."""
PLANNED_STEPS = 150_000
"""Steps that realise a plan."""
PRICED = (0.5, 0.75, 0.25, 0.9, 1.0, 0.05, 0.6, 0.35, 0.97, 1.0, 0.1)
"""Where prices aim, in turns; at 1, they ask for a proof again."""
PRICED_TURNS = 8
"""Every so many turns prices are asked, and again as long as they help."""
PRICED_STEPS = 2_000_000
"""Steps of search that take as long as one question to the prices."""
BRANCH_WORK, MOST_BRANCHES = 4e8, 512
"""Prices may take as many branches for the first question as amount to so much work; a quarter more with each question."""
ATTEMPTS = 8
"""Annealings that try to realise a plan of the prices: now and then the right key groups meet, mostly they do not."""


class Rounds:
    """All that searches and bounds one instance.

    Parameters
    ----------
    found : Incumbent
        Is told every answer and bound, and says when to stop.
    seed : int
    most : int, optional
        Turns at most, none of them asking prices.
    """

    def __init__(self, found: Incumbent, seed: int, most: int | None = None) -> None:
        self.found, self.seed, self.most = found, seed, most
        self.instance = Instance(found.problem)
        self.search = Search(self.instance, seed)
        self.planner: CountPlanner | None = None
        self.tree: PriceTree | None = None
        self.asked = 0
        self.unproven = math.inf

    def run(self) -> dict[str, object]:
        """Take turns until the gap is closed, the time is up, or enough is done; figures about the run."""
        found, scale = self.found, self.found.problem.scale
        movable = self.instance.max_moves > 0 and self.instance.nodes > 1
        done = self._turn(0) if movable else 0
        counts = CountBound(self.instance, lambda: found.budget.expired)
        low = counts.bound()
        if math.isinf(low):
            found.infeasible = "so few migrations cannot bring every node within its capacity"
            return {}
        found.raise_bound(low * scale, "counts")
        turn = 1
        if movable and not found.done and self.most != 1:
            turn = self._take_turns(counts, done)
        return {"count_bound": low * scale, "rounds": turn}

    def _take_turns(self, counts: CountBound, done: int) -> int:
        """Turns after the first, once there are counts; how many in all."""
        self.planner = CountPlanner(self.instance, counts, self.seed)
        if self.most is None and (prices := PriceBound(self.instance)).affordable:
            self.tree = PriceTree(prices)
        pairs = int(self.found.problem.allowed.sum())
        least, most, for_each = STEPS
        steps = min(most, max(least, pairs * for_each))
        endless = math.isfinite(self.found.budget.time_limit) and pairs > ENDLESS_PAIRS
        turn = 1
        while not self.found.done and (done < steps or endless) and (self.most is None or turn < self.most):
            done += self._turn(turn)
            turn += 1
            if self.tree is not None and turn % PRICED_TURNS == 4:
                while not self.found.done and self._price(self.tree, self.planner, turn):
                    done += PRICED_STEPS
                done += PRICED_STEPS
        return turn

    def _turn(self, turn: int) -> int:
        """One round of planning or of search; how many steps it took."""
        if turn % 2 == 1 and self.planner is not None and self.planner.useful:
            return self._plan(self.planner, turn)
        todo = self.search.schedule(turn)
        best = self.found.best
        return self._anneal(self.instance.current if todo.fresh or best is None else best, todo, turn)

    def _distance(self) -> float:
        """The best distance, in units of the mean."""
        return math.inf if self.found.best is None else self.instance.distance(self.found.best)

    def _anneal(self, start: IntArray, todo: Round, turn: int) -> int:
        """One round of search, in chunks short enough to heed the time limit; how many steps it took."""
        self.search.begin(start, turn)
        done = 0
        while done < todo.steps and not self.found.done:
            chunk = min(self.search.chunk, todo.steps - done)
            first, last = (todo.hot * (todo.cold / todo.hot) ** (at / todo.steps) for at in (done, done + chunk))
            self.found.offer(self.search.run(chunk, first, last, self._distance(), todo.doublings), "annealed")
            done += chunk
        return done

    def _plan(self, planner: CountPlanner, turn: int) -> int:
        """Aim between the bound and the best distance, realise the plan and polish it; how many steps that took."""
        low = self.found.bound / self.found.problem.scale
        high = min(self._distance(), self.instance.distance(self.instance.current))
        target = low + (high - low) * TARGETS[turn // 2 % len(TARGETS)]
        pairs = planner.pairs(target, np.random.default_rng([self.seed, turn]))
        if pairs is None:
            return PLANNED_STEPS
        if turn % 3 == 0 and pairs[:, 0].any():  # arrivals are the departures of plans, not of everybody
            planner.sample(planner.pool_of(pairs), turn)
        self._realise(planner, pairs, target, turn)
        return 2 * PLANNED_STEPS

    def _realise(self, planner: CountPlanner, plan: IntArray, target: float, stream: int) -> None:
        """Look for an assignment with the counts of a plan, and then near it."""
        assignment = planner.realise(plan, target, PLANNED_STEPS, stream)
        if assignment is not None:
            self.found.offer(assignment, "planned")
            self._anneal(assignment, self.search.polish, stream)

    def _price(self, tree: PriceTree, planner: CountPlanner, turn: int) -> bool:
        """Ask prices about the best distance when it is new, else one below; whether that moved a bound or the best."""
        scale = self.found.problem.scale
        low, high = self.found.bound / scale, self.found.objective / scale - 0.9 * PROVEN
        if not low < high < math.inf:
            return False
        target = high if high < self.unproven else low + (high - low) * PRICED[self.asked % len(PRICED)]
        first = BRANCH_WORK / tree.bound.work
        branches = int(np.clip(first * (1 + self.asked / 4), 1, MOST_BRANCHES))
        self.asked += 1

        def realise(plan: IntArray) -> bool:
            for attempt in range(ATTEMPTS):
                self._realise(planner, plan, target, ATTEMPTS * turn + attempt)
                if self._distance() <= target or self.found.budget.expired:
                    return True
            return False

        if tree.excludes(target, branches, lambda: self.found.budget.expired, realise):
            self.found.raise_bound(target * scale, "prices")
            return True
        if target == high:
            self.unproven = high
        return self._distance() <= target

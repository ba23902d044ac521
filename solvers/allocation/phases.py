"""Search and bounds in turns: how "milp" closes the gap from both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from keyshift.models.base.compiling import off_clock
from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import TOO_FEW, CountBound, counted, fewest_moves
from keyshift.solvers.allocation.counting.planner import CountPlanner
from keyshift.solvers.allocation.exchanges import Exchanges
from keyshift.solvers.allocation.incumbent import SEARCHED, Incumbent
from keyshift.solvers.allocation.joint_relaxation import JointRelaxation
from keyshift.solvers.allocation.large_neighbourhood import even_out
from keyshift.solvers.allocation.pricing.tree import PriceTree, dealt, price_trees
from keyshift.solvers.allocation.search import Round, Search
from keyshift.solvers.allocation.settings import AllocationSettings

COUNTED = 0.7, 0.2
"""The share of the time that the bound by counts may take: where fewer may move than there are nodes, and otherwise."""
PRICED_AT = 0.5, 0.75, 0.25, 0.9, 1.0, 0.05, 0.6, 0.35, 0.97, 1.0, 0.1
"""Where between the bound and the best distance prices are asked, in turn; at 1 they look for a proof."""
PLANNED_AT = 0.5, 0.75, 0.25, 0.9, 0.02, 0.6, 0.35, 0.97, 0.1
"""Likewise for plans of counts."""
LARGE = 10_000_000
"""Pairs of key groups and nodes, times windows, from which an instance is large."""
WORK_OF_STEP = 100.0
"""Elementary steps of prices that take as long as a step of search."""


def movable(instance: Instance) -> bool:
    """Whether anything may move, and somewhere."""
    return instance.max_moves > 0 and instance.nodes > 1


class Rounds:
    """All that searches and bounds one instance.

    Parameters
    ----------
    found : Incumbent
        Is told every answer and bound, and says when to stop.
    seed : int
    most : int, optional
        Rounds of search at most, without prices and solvers.
    settings : AllocationSettings, optional
    """

    def __init__(
        self, found: Incumbent, seed: int, most: int | None = None, settings: AllocationSettings | None = None
    ) -> None:
        self.found, self.seed, self.most, self.settings = (
            found,
            seed,
            most,
            settings or found.budget.tuned(AllocationSettings),
        )
        self.instance = Instance(found.problem)
        self.search = Search(
            self.instance, seed, expired=lambda: found.done, spend=found.budget.spend, settings=self.settings
        )
        self.one = self.instance.windows == 1
        self.planner: CountPlanner | None = None
        self.trees: list[PriceTree] = []
        self.asked, self.attempts, self.not_excluded = 0, 0, math.inf
        self.searched = self.wasted = 0.0

    @property
    def size(self) -> int:
        """How many (key group, node, window) triples there are."""
        return self.instance.space.pairs * self.instance.windows

    @property
    def many_moves(self) -> bool:
        """Whether moves are so many that the distance can be near 0, and so can the bound."""
        return self.instance.max_moves >= self.instance.nodes

    @property
    def distance(self) -> float:
        """The best distance, in units of the mean."""
        return math.inf if self.found.best is None else self.instance.distance(self.found.best)

    @property
    def within_reach(self) -> bool:
        """Whether moves are many and the best is near the bound: more search closes such a gap sooner than a solver."""
        gap = self.distance - self.found.bound / self.found.problem.scale
        return self.many_moves and gap < 0.01

    def run(self) -> dict[str, object]:
        """Search once, bound, then both in turns until the gap is closed, the time is up, or enough is done."""
        found, scale = self.found, self.found.problem.scale
        found.raise_bound(self.instance.least * scale, "the heaviest")
        if movable(self.instance):
            self._anneal_next(0)
        share = found.budget.part(COUNTED[int(self.many_moves)])
        counts: list[CountBound] = []
        for window in self.instance.by_window:
            if counts and share.expired:  # a table takes a pass over all key groups, whatever it has time for then
                break
            counts.append(CountBound(window, lambda: share.expired))
        low = counted(found.problem, counts) if len(counts) == self.instance.windows else 0.0
        if math.isinf(low):
            found.infeasible = TOO_FEW
            return {}
        found.raise_bound(low * scale, "counts")
        turn = 1
        if movable(self.instance) and not found.done:
            few = self.size <= self.settings.evened and self.one and self.most is None
            if few and self.many_moves and not found.problem.lowered:
                rng = np.random.default_rng([self.seed, 64])
                even_out(found, self.instance, rng, self.settings.tries, found.budget.part(0.2))
            if not self.one and self.most is None:
                self._relax()
            if self.one and self.most is None:
                self.counts, self.trees = counts[0], price_trees(self.instance, found.budget, self.settings)
            if self.one and not found.problem.lowered.merged and not found.done:
                self.planner = CountPlanner(self.instance, counts[0], self.seed)
            turn = self._take_turns()
        return {"count_bound": low * scale, "rounds": turn}

    def _take_turns(self) -> int:
        """Search, exchange, ask prices, over and over; how many turns in all."""
        small = self.size <= self.settings.asked and self.one and self.most is None
        turn = 1
        while not self.found.done and self._goes_on and turn != self.most:
            self._plan_next(turn)
            self._anneal_next(turn)
            if self._exchanges:
                self._exchange_next(turn)
            if turn >= 3:  # of what the search finds at once prices need not be asked
                self._ask_prices()
            turn += 1
            if small and turn == 2 and not self.found.done:
                self._ask_solver()
        return turn

    @property
    def _goes_on(self) -> bool:
        """Whether there was too little search yet, or no solver would use the time better."""
        settings = self.settings
        endless = self.size > settings.endless or (self.size > settings.small and self.within_reach)
        enough = settings.steps_for_each * np.clip(self.size, 400, 13_000)
        return self.searched < enough or (endless and math.isfinite(self.found.budget.time_limit))

    # Bounds ----------------------------------------------------------------------------------------------------------

    def _relax(self) -> None:
        """The joint relaxation of the windows, within a share of the time."""
        # On large instances with many moves the bound is next to nothing, and each pass takes seconds.
        found, part = self.found, self.found.budget.part(0.05 if self.many_moves and self.size > LARGE else 0.5)
        relaxation = JointRelaxation(self.instance, lambda: part.expired)
        found.raise_bound(relaxation.begin() * found.problem.scale, "relaxation")
        while not relaxation.ended and not part.expired and not found.done:
            found.raise_bound(relaxation.improve(1) * found.problem.scale, "relaxation")

    def _ask_prices(self) -> None:
        """Ask prices about distances while that helps.

        What they ask in vain takes no more than a share of what the search has taken.
        """
        found = self.found
        if not self.trees:
            return
        share, least = (self.settings.priced / 8, 125_000) if self._ample else (self.settings.priced, 4_000_000)
        while not found.done and self.wasted <= share * self.searched:
            before, not_excluded = self.trees[0].bound.worked, self.not_excluded
            helped = self._price(max(least, share * self.searched - self.wasted))
            if not helped:
                self.wasted += max(1.0, (self.trees[0].bound.worked - before) / WORK_OF_STEP)
                if self.not_excluded == not_excluded:
                    break

    @property
    def _ample(self) -> bool:
        """Whether many more may move than the best distance takes by the counts: there prices say little."""
        if not self.many_moves or not self.counts.exact:
            return self.many_moves
        most = self.instance.max_moves
        return bool(fewest_moves(self.counts.table, self.distance, most) < most - 0.3 * self.instance.nodes)

    def _price(self, steps: float) -> bool:
        """Ask prices about the best distance when it is new, else one below; whether that raised the bound or reached it."""
        scale = self.found.problem.scale
        low, high = self.found.bound / scale, self.found.objective / scale - 0.9 * self.found.margin
        if not low < high < math.inf:
            return False
        tree = self._choose_prices(high)
        aim = PRICED_AT[self.asked % len(PRICED_AT)]
        target = high if high < self.not_excluded else low + (high - low) * aim
        branches = int(np.clip(steps * WORK_OF_STEP / tree.bound.work, 1, 512))
        self.asked += 1
        if tree.excludes(target, branches, lambda: self.found.budget.expired, partial(self._realise, target)):
            self.found.raise_bound(target * scale, "prices")
            return True
        if target == high:
            self.not_excluded = high
        return self.distance <= target

    def _plan_next(self, turn: int) -> None:
        """Plan counts for a distance between the bound and the best, and realise them."""
        if self.planner is None or not self.planner.useful or self.found.done:
            return
        low = self.found.bound / self.found.problem.scale
        high = min(self.distance, self.instance.distance(self.instance.current))
        target = low + (high - low) * PLANNED_AT[turn % len(PLANNED_AT)]
        plan = self.planner.pairs(target, np.random.default_rng([self.seed, turn]))
        if plan is not None:
            self._realise(target, plan, 1)

    def _realise(self, target: float, plan: IntArray, attempts: int = 8) -> bool:
        """Look for an assignment with the counts of a plan, and then near it; whether that came within the target."""
        for _ in range(attempts):
            self.attempts += 1
            rng = np.random.default_rng([self.seed, self.attempts])
            start = dealt(self.instance, plan, rng)
            if start is None or self.found.done:
                return self.found.done
            near = self.search.realise(start, target, self.attempts)
            if near is not None:
                self.found.offer(near, "planned", SEARCHED)
                self._anneal(near, self.search.polish, self.attempts)
            self.searched += self.settings.steps / 2
            if self.distance <= target:
                return True
        return False

    def _choose_prices(self, target: float) -> PriceTree:
        """The prices that say most about a distance; only those are asked from then on."""
        if len(self.trees) > 1:
            for tree in self.trees:
                tree.bound.excludes(target, lambda: self.found.budget.expired)
            self.trees = [max(self.trees, key=lambda tree: tree.bound.value)]
        return self.trees[0]

    def _ask_solver(self) -> None:
        """CP-SAT for a moment, from the best answer; where more search is worth more, only about heavy tails."""
        with off_clock():
            from keyshift.solvers.allocation.statement import run_cpsat

        found = self.found
        if self.within_reach and not found.heavy_tailed:
            return
        part = found.budget.part(0.4) if self.within_reach else found.budget
        answer = run_cpsat(
            found.problem, part, found.best, seed=self.seed, threads=1, known=found.bound,
            max_deterministic_time=self.settings.solver_effort,
        )  # fmt: skip
        found.hear(answer, "CP-SAT")

    # Search ----------------------------------------------------------------------------------------------------------

    def _anneal_next(self, turn: int) -> None:
        """One round of annealing."""
        todo, best = self.search.schedule(turn), self.found.best
        self._anneal(self.instance.current if todo.fresh or best is None else best, todo, turn)

    def _anneal(self, start: IntArray, todo: Round, turn: int) -> None:
        self.search.begin(start, turn)
        for steps, hot, cold in self._pieces(todo):
            self.found.offer(self.search.run(steps, hot, cold, self.distance, todo.doublings), "annealed", SEARCHED)
            self.searched += steps * self.instance.windows

    def _pieces(self, todo: Round) -> Iterator[tuple[int, float, float]]:
        """A round in pieces short enough to heed the time limit: steps of each, its first and last temperature."""
        done = 0
        while done < todo.steps and not self.found.done:
            steps = min(self.search.chunk, todo.steps - done)
            hot, cold = (todo.hot * (todo.cold / todo.hot) ** (at / todo.steps) for at in (done, done + steps))
            yield steps, hot, cold
            done += steps

    @property
    def _exchanges(self) -> bool:
        """Whether so many may move that exchanges between three nodes find what the annealing does not."""
        return self.many_moves and self.one and self.instance.nodes > 2 and not self.found.problem.lowered.merged

    def _exchange_next(self, turn: int) -> None:
        """Cool down anew, or from the best heated up, and exchange key groups between three nodes from there."""
        best = self.found.best
        start = self.search.cool(turn, best if turn % 2 else None)
        start = best if start is None else start
        if start is None:
            return
        exchanges = Exchanges(self.instance, [self.seed, turn], start, self.search.rows)
        exchanges.improve(self.settings.exchanges, lambda: self.found.done)
        self.found.offer(exchanges.place, "exchange", SEARCHED)
        self.searched += 1_000_000  # they take about as long

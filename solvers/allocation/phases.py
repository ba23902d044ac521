"""Rounds of search, of planning and of pricing, in turns: how "milp" closes the gap from both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, cycle

import numpy as np

from keyshift.models.compiling import off_clock
from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.annealing.exchanges import Exchanges
from keyshift.solvers.allocation.annealing.search import Round, Search
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import CountBound, counted, fewest_moves, too_few
from keyshift.solvers.allocation.counting.planner import CountPlanner
from keyshift.solvers.allocation.few_moves import FewMoves
from keyshift.solvers.allocation.incumbent import PLANNED, SEARCHED, Incumbent
from keyshift.solvers.allocation.joint_relaxation import JointRelaxation
from keyshift.solvers.allocation.narrow_sets import NarrowSets
from keyshift.solvers.allocation.pricing.tree import PriceTree, price_trees
from keyshift.solvers.allocation.settings import Beginning, RoundSettings

UNBOUNDED = 1e-4
"""A bound below this share of the mean tells nothing."""


class Pause:
    """For how many turns a phase pauses: twice as many each time that it was of no use.

    Parameters
    ----------
    most : int
    first : int, default 0
        At which turn it begins.
    """

    def __init__(self, most: int, first: int = 0) -> None:
        self.most, self.turns, self.left = most, 1, first

    @property
    def now(self) -> bool:
        """Whether it pauses this turn."""
        self.left -= 1
        return self.left > 0

    def after(self, helped: bool) -> None:
        """A turn that was taken."""
        self.turns = 1 if helped else min(self.most, 2 * self.turns)
        self.left = self.turns


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
        Rounds of annealing and planning at most, none of them asking prices.
    settings : RoundSettings, optional
    """

    def __init__(
        self, found: Incumbent, seed: int, most: int | None = None, settings: RoundSettings | None = None
    ) -> None:
        self.found, self.seed, self.most, self.settings = found, seed, most, settings or RoundSettings.now()
        self.instance = Instance(found.problem)
        self.search = Search(self.instance, seed, expired=lambda: found.done, spend=found.budget.spend)
        self.one = self.instance.windows == 1
        few = movable(self.instance) and self.size <= self.settings.narrow_pairs and most is None
        few = few and self.one and not found.problem.lowered
        self.narrow = NarrowSets(found, self.instance, seed) if few else None
        self.planner: CountPlanner | None = None
        self.few: FewMoves | None = None
        self.few_left_out = self.cut_short = False
        self.relaxation: JointRelaxation | None = None
        self.trees: list[PriceTree] = []
        self.planned = self.asked = 0
        self.unproven = math.inf
        self.shared_out = 0
        kinds = self.settings.starts.items()
        self.pauses = {kind: Pause(most) for kind, most in kinds if kind != "planned" or not found.problem.lowered}
        self.price_pause, self.price_again = Pause(8, 2), 0.0
        self.phases = {"anneal": self._anneal_next, "plan": self._plan_next, "exchange": self._exchange_next}

    @property
    def size(self) -> int:
        """How many (key group, node, window) triples there are."""
        return self.instance.space.pairs * self.instance.windows

    @property
    def many_moves(self) -> bool:
        """Whether moves are so many that the distance can be near 0, and so can the bound."""
        return self.instance.max_moves >= self.instance.nodes

    def run(self) -> dict[str, object]:
        """Take turns until the gap is closed, the time is up, or enough is done; figures about the run."""
        found, scale = self.found, self.found.problem.scale
        found.raise_bound(self.instance.least * scale, "the heaviest")
        done = self._anneal_next(0) if movable(self.instance) else 0
        small = self.size <= self.settings.counted_pairs
        share = (
            found.budget if small and self.one else found.budget.part(self.settings.counted_share[int(self.many_moves)])
        )
        counts = [CountBound(window, lambda: share.expired) for window in self.instance.by_window]
        if not self.many_moves and self.one:
            counts[0].expired = lambda: found.budget.expired
        low = counted(found.problem, counts)
        if math.isinf(low):
            found.infeasible = too_few(self.instance)
            return {}
        found.raise_bound(low * scale, "counts")
        self._narrow(self.settings.narrow_tries, self.settings.first_share)
        if self.one and self.most is None and self._few and counts[0].exact:
            self._few_moves(counts[0], self.settings.few_first, self.settings.first_share)
        if not self.one and self.most is None and movable(self.instance):
            self._relax()
        turn = 1
        if movable(self.instance) and not found.done and self.most != 1:
            turn = self._take_turns(counts, done)
        return {"count_bound": low * scale, "rounds": turn}

    def _relax(self) -> None:
        """The joint relaxation of the windows, within a share of the time."""
        found, part = self.found, self.found.budget.part(self.settings.relaxed_share)
        relaxation = self.relaxation = JointRelaxation(self.instance)
        found.raise_bound(relaxation.begin() * found.problem.scale, "relaxation")
        while not relaxation.ended and not part.expired and not found.done:
            found.raise_bound(relaxation.improve(lambda: part.expired, 1) * found.problem.scale, "relaxation")

    def _narrow(self, tries: int, share: float = 1.0) -> None:
        """Covers by sets near the mean, where there are few key groups, in a share of the time left."""
        if self.narrow is not None and not self.found.done:
            self.narrow.budget = self.found.budget.part(share)
            if self.many_moves:
                self.narrow.even_out(tries)
            self.narrow.heaviest_first(tries if self.many_moves else 0)
            self.narrow.prove()
            self.cut_short = self.narrow.budget.expired
            self.narrow.budget = self.found.budget

    @property
    def _few(self) -> bool:
        """Whether so few key groups of so few may move that all choices can be looked at."""
        few = self.size <= self.settings.few_pairs and self.instance.max_moves <= self.settings.most_few
        return few and movable(self.instance)

    @property
    def _few_open(self) -> bool:
        """Whether choices of a few moves are left to look at."""
        few = self.few
        return few is not None and not (few.ended or self.few_left_out) and few.looked_at < self.settings.few_most

    def _few_moves(self, counts: CountBound, branches: int, share: float = 1.0) -> None:
        """All choices of a few moves, as far as so many branches go in a share of the time left."""
        found, it, part = self.found, self.instance, self.found.budget.part(share)
        if found.best is None or found.done:
            return
        few = self.few = self.few or FewMoves(it, counts.table, self._distance())
        place: IntArray | None = found.best
        while place is not None and not found.done:
            few.lower(self._distance() - 0.9 * found.margin)
            place = few.go_on(branches, lambda: part.expired, part.spend)
            if place is not None and not found.offer(place, "few moves", PLANNED):
                self.few_left_out = True  # it breaks what the search does not know
                return
        if few.ended:
            found.raise_bound((few.excluded - 2 * it.doubt) * found.problem.scale, "few moves")

    def _take_turns(self, counts: list[CountBound], done: int) -> int:
        """Turns after the first, once there are counts; how many in all."""
        pairs, settings = self.size, self.settings
        if self.one:
            self.planner = CountPlanner(self.instance, counts[0], self.seed)
        if self.one and self.most is None:
            self.trees = price_trees(self.instance, counts[0], self.found.budget)
        if self.trees and self.search.uneven:
            self.price_again = self.settings.uneven_curves * self.trees[0].bound.work / self.settings.work_of_step
        steps = min(settings.most_steps, max(settings.least_steps, pairs * settings.steps_for_each))
        small = pairs <= settings.few_pairs
        turn = 1
        quick = [phase for phase in (settings.cycle if self.one else settings.cycle_of_windows) if phase != "exchange"]
        later: Sequence[str] = quick
        if self.many_moves and self.instance.nodes > 2 and self.one and not self.found.problem.lowered.merged:
            later = settings.cycle_of_few if self.search.size < 2 else settings.cycle
            later = settings.cycle_of_small if small and self._unbounded else later
        early = len(quick) - quick.count("price") if small and self.one and self.most is None else 0
        for phase in chain(quick[1:], cycle(later)):  # the first turn was taken before the counting
            if (
                self.found.done
                or not (done < steps or self._endless(pairs) or self._few_open)
                or (self.most is not None and turn >= self.most)
            ):
                break
            if phase == "price":
                done += self._price_while_it_helps(turn, done)
            else:
                done += self.phases[phase](turn)
                turn += 1
            if turn == early:
                self._look_closer()
            if turn >= early and self._few_open:
                self._few_moves(counts[0], settings.few_each)
        return turn

    def _look_closer(self) -> None:
        """What takes longer than a turn: sets again, and solvers; of heavy tails solvers know most."""
        asked_first = self.found.heavy_tailed and not self.found.done
        if asked_first:
            self._ask_solvers()
        if self.cut_short:
            self._narrow(self.settings.narrow_tries)
        if not (asked_first or self.found.done or self._within_reach):
            self._ask_solvers()

    def _endless(self, pairs: int) -> bool:
        """Whether rounds may use up a time limit: no solver would use the time better."""
        settings = self.settings
        many = pairs > settings.endless_pairs or (pairs > settings.least_pairs and self._within_reach)
        return many and math.isfinite(self.found.budget.time_limit)

    @property
    def _unbounded(self) -> bool:
        """Whether moves are many and no bound is worth its name."""
        return self.many_moves and self.found.bound < UNBOUNDED * self.found.problem.scale

    @property
    def _within_reach(self) -> bool:
        """Whether moves are many and the best is near the bound: more search closes such a gap sooner than a solver."""
        return (
            self.many_moves
            and self._distance() - self.found.bound / self.found.problem.scale < self.settings.within_reach
        )

    def _ask_solvers(self) -> None:
        """HiGHS and CP-SAT for a moment each, from the best answer."""
        with off_clock():
            from keyshift.solvers.allocation.cpsat_statement import run_cpsat
            from keyshift.solvers.allocation.statement import ask_highs

        found = self.found
        part = found.budget.part(self.settings.early_share) if self._within_reach else found.budget
        answer = ask_highs(found.problem, part, found.best, self.seed, self.settings.early_nodes)
        if answer.termination != "infeasible":  # CP-SAT counts in whole numbers: that verdict is its own
            found.hear(answer, "HiGHS")
        found.stopped = answer.termination == "optimal"
        if found.done or part.expired:
            return
        answer = run_cpsat(
            found.problem, part, found.best, seed=self.seed, threads=1, known=found.bound,
            max_deterministic_time=self.settings.early_effort,
        )  # fmt: skip
        found.hear(answer, "CP-SAT")

    def _anneal_next(self, turn: int) -> int:
        """One round of search; how many steps it took."""
        todo, best = self.search.schedule(turn), self.found.best
        return self._anneal(self._fresh(turn) if todo.fresh or best is None else best, todo, turn)

    def _fresh(self, turn: int) -> IntArray:
        """Where everything runs now; over windows the best of some moves drawn by their shares in the relaxation."""
        if self.relaxation is None or self.found.problem.lowered.merged:
            return self.instance.current
        rng = np.random.default_rng([self.seed, turn])
        drawn = [self.relaxation.master.rounded(rng) for _ in range(self.settings.roundings)]
        return min(drawn, key=self.instance.distance)

    def _plan_next(self, turn: int) -> int:
        """One plan, realised and polished; how many steps that took."""
        if self.planner is None or not self.planner.useful or self.found.problem.lowered.merged:
            return self._anneal_next(turn)
        return self._plan(self.planner, turn)

    def _exchange_next(self, turn: int) -> int:
        """Exchange key groups between three nodes, after a round of search or from a plan; how many steps of search took as long.

        Where that ends far above the best, the like of its start pauses for twice as many turns each time.
        """
        best, todo = self.found.best, self.search.schedule(turn)
        kind = self._kind_of_start()
        start = best if best is None or not todo.fresh else self._start(kind, best, turn)
        if start is None:
            start = self._annealed(todo, turn)
        if start is None:
            return todo.steps
        exchanges = Exchanges(self.instance, [self.seed, turn], start, self.search.rows)
        reached = exchanges.improve(self.settings.exchanges_tried, lambda: self.found.done)
        self.found.offer(exchanges.place, "exchange", PLANNED if kind == "planned" else SEARCHED)
        near = reached <= self.settings.near * self._distance()
        if self.narrow is not None and near:
            self.narrow.even_out(self.settings.narrow_again, exchanges.place)
        self.pauses[kind].after(near)
        return self.settings.exchange_steps

    def _kind_of_start(self) -> Beginning:
        """The next kind of start that does not rest."""
        kinds = [*self.pauses]
        while True:
            kind = kinds[self.shared_out % len(kinds)]
            self.shared_out += 1
            if not self.pauses[kind].now:
                return kind

    def _start(self, kind: Beginning, best: IntArray, turn: int) -> IntArray | None:
        """Cooled down anew, the best heated up again, or a plan realised; None when there is none."""
        if kind != "planned":
            return self.search.cool(turn, best if kind == "heated" else None)
        if self.planner is None or not self.planner.useful:
            return None
        return self._drawn_up(self.planner, self._distance() * 2.0 ** (turn % 4 - 1), turn, turn // 3)

    def _annealed(self, todo: Round, turn: int) -> IntArray | None:
        """The best of one round of search from the current assignment, whatever was known before."""
        self.search.begin(self.instance.current, turn)
        best, value = None, math.inf
        for steps, hot, cold in self._pieces(todo):
            other = self.search.run(steps, hot, cold, value, todo.doublings)
            if other is not None:
                best, value = other, self.instance.distance(other)
        return best

    def _pieces(self, todo: Round) -> Iterator[tuple[int, float, float]]:
        """A round in pieces short enough to heed the time limit: steps of each, its first and last temperature."""
        done = 0
        while done < todo.steps and not self.found.done:
            steps = min(self.search.chunk, todo.steps - done)
            hot, cold = (todo.hot * (todo.cold / todo.hot) ** (at / todo.steps) for at in (done, done + steps))
            yield steps, hot, cold
            done += steps

    def _price_while_it_helps(self, turn: int, done: int) -> int:
        """Ask the prices while that improves a bound or the best; returns the steps of search that take as long.

        A best distance that they cannot exclude is no reason to stop: something below it is asked next, which mostly takes
        less. After a run that was of no use they pause until the search has taken a third as long - as long where loads are
        uneven under rules - and twice as long each time; where moves are ample, for some turns at least.
        """
        if not self.trees or self.planner is None or done < self.price_again:
            return 0
        ample = self._ample(self.planner.counts)
        if ample and self.price_pause.now:
            return 0
        before, runs, helped = self.trees[0].bound.worked, 0, False
        while not self.found.done:
            runs, unproven = runs + 1, self.unproven
            better = self._price(self.planner, turn, ample)
            helped = helped or better
            if not better and self.unproven == unproven:
                break
        self.price_pause.after(helped)
        steps = runs * self.settings.priced_steps
        if not helped:
            worked = (self.trees[0].bound.worked - before) / self.settings.work_of_step
            pause = self.price_pause.turns / (2 if self.search.uneven else 6)
            self.price_again = done + steps + pause * worked
        return steps

    def _ample(self, counts: CountBound) -> bool:
        """Whether many more may move than the best distance takes by the counts: there plans are short, and prices say little."""
        if not self.many_moves or not counts.exact:
            return self.many_moves
        most = self.instance.max_moves
        return bool(
            fewest_moves(counts.table, self._distance(), most) < most - self.settings.tight * self.instance.nodes
        )

    def _distance(self) -> float:
        """The best distance, in units of the mean."""
        return math.inf if self.found.best is None else self.instance.distance(self.found.best)

    def _anneal(self, start: IntArray, todo: Round, turn: int) -> int:
        """One round of search; how many steps it took."""
        self.search.begin(start, turn)
        done = 0
        for steps, hot, cold in self._pieces(todo):
            self.found.offer(self.search.run(steps, hot, cold, self._distance(), todo.doublings), "annealed", SEARCHED)
            done += steps
        return done * self.instance.windows

    def _plan(self, planner: CountPlanner, turn: int) -> int:
        """Aim between the bound and the best distance, realise the plan and polish it; how many steps that took."""
        low = self.found.bound / self.found.problem.scale
        high = min(self._distance(), self.instance.distance(self.instance.current))
        settings, number = self.settings, self.planned
        self.planned += 1
        target = low + (high - low) * settings.planned_at[number % len(settings.planned_at)]
        assignment = self._drawn_up(planner, target, turn, number)
        if assignment is None:
            return settings.planned_steps
        self._polish(assignment, turn)
        return 2 * settings.planned_steps

    def _drawn_up(self, planner: CountPlanner, target: float, turn: int, number: int) -> IntArray | None:
        """A plan for a distance, realised; None when there is none."""
        pairs = planner.pairs(target, np.random.default_rng([self.seed, turn]))
        if pairs is None:
            return None
        if number % self.settings.resample_every == 1 and pairs[:, 0].any():
            planner.sample(planner.pool_of(pairs), turn)
        return planner.realise(pairs, target, self.settings.planned_steps, turn)

    def _polish(self, assignment: IntArray, stream: int) -> None:
        """Offer an assignment, and look near it."""
        self.found.offer(assignment, "planned", PLANNED)
        self._anneal(assignment, self.search.polish, stream)

    def _realise(self, planner: CountPlanner, plan: IntArray, target: float, stream: int) -> None:
        """Look for an assignment with the counts of a plan, and then near it."""
        assignment = planner.realise(plan, target, self.settings.planned_steps, stream)
        if assignment is not None:
            self._polish(assignment, stream)

    def _choose_tariff(self, target: float) -> PriceTree:
        """The prices that say most about a distance; only those are asked from then on."""
        if len(self.trees) > 1:
            for tree in self.trees:
                tree.bound.excludes(target, lambda: self.found.budget.expired)
            self.trees = [max(self.trees, key=lambda tree: tree.bound.value)]
        return self.trees[0]

    def _price(self, planner: CountPlanner, turn: int, ample: bool) -> bool:
        """Ask prices about the best distance when it is new, else one below; whether that moved a bound or the best."""
        scale = self.found.problem.scale
        low, high = self.found.bound / scale, self.found.objective / scale - 0.9 * self.found.margin
        if not low < high < math.inf:
            return False
        settings, tree = self.settings, self._choose_tariff(high)
        aim = settings.priced_at[self.asked % len(settings.priced_at)]
        target = high if high < self.unproven else low + (high - low) * aim
        first = settings.branch_work / tree.bound.work / (settings.fewer_branches if ample else 1)
        branches = int(np.clip(first * (1 + self.asked / 4), 1, settings.most_branches))
        self.asked += 1

        def realise(plan: IntArray) -> bool:
            for attempt in range(settings.attempts):
                self._realise(planner, plan, target, settings.attempts * turn + attempt)
                if self._distance() <= target or self.found.budget.expired:
                    return True
            return False

        if tree.excludes(target, branches, lambda: self.found.budget.expired, realise):
            self.found.raise_bound(target * scale, "prices")
            return True
        if target == high:
            self.unproven = high
        return self._distance() <= target

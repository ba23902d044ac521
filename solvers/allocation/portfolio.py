"""Key-group allocation, exactly and anytime: the parts that the conductor gives turns to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.answer import STEP
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import NonNegative, Threads, Whole
from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.arrays import PLANNED, SEARCHED, Instance, whole_loads
from keyshift.solvers.allocation.counting import TOO_FEW, CountBound, CountPlanner, counted, fewest_moves
from keyshift.solvers.allocation.exchanges import Exchanges, even_out
from keyshift.solvers.allocation.pricing.tree import PriceTree, dealt, price_trees
from keyshift.solvers.allocation.search import Round, Search, from_highest_to_lowest
from keyshift.solvers.allocation.subsets import SubsetProgram
from keyshift.solvers.allocation.ties import fewer_moves, least_sides, take_sides
from keyshift.solvers.allocation.whole_pairs import bounds_over_windows, pairs_fit, pass_of
from keyshift.solvers.conductor import SHORTEST, Component, Incumbent, conduct, solver_turns
from keyshift.solvers.subsets import SOON
from keyshift.solvers.tuning import AllocationSettings

PRICED_AT = 0.5, 0.75, 0.25, 0.9, 1.0, 0.05, 0.6, 0.35, 0.97, 1.0, 0.1
"""Where between the bound and the best distance prices are asked, in turn; at 1 they look for a proof."""
PLANNED_AT = 0.5, 0.75, 0.25, 0.9, 0.02, 0.6, 0.35, 0.97, 0.1
"""Likewise for plans of counts."""
WORK_OF_STEP = 100.0
"""Elementary steps of prices that take as long as a step of search."""


def solve_milp(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
    second_stage: bool = True,
    rounds: Whole | None = None,
    enough: NonNegative = 0.0,
) -> Answer:
    """Minimise the load distance, then the two one-sided deviations, and prove it where possible; anytime.

    The conductor (`keyshift.solvers.conductor`) gives turns to these parts until objective and bound meet:

    - *search*: first a bound by counting departures and arrivals (`counting`); then rounds of annealing (`search`), each
      with a plan of counts that it realises (`counting`), and exchanges between three nodes where many may move
      (`exchanges`). Of dozens of key groups those of a few nodes are shared out anew (`exchanges.even_out`).
    - *subsets*: of up to twenty key groups that may move, a dynamic program over all their subsets (`subsets`).
    - *prices*: branch and price for a target distance between bound and best, which it rules out or plans how to reach
      (`pricing.tree`). Over more windows than one the joint linear relaxation (`joint_relaxation`), then
      one in which nodes exchange pairs whole (`whole_pairs`).
    - *linear relaxation*: where rules have rows or nodes drain.
    - *CP-SAT* and *HiGHS* on the declarative statement, from the incumbent: CP-SAT almost at once on small instances, on large
      ones both only after much search.

    Last, moves that neither stage needs are undone, and moves left over empty draining nodes (`ties`).

    Parameters
    ----------
    threads : int, default 1
        Threads for the solvers; more than one may return another optimum from run to run.
    second_stage : bool, default True
        Among assignments of the least load distance look for the least ``deviation_sum``: proven by CP-SAT where
        the first stage is proven on at most 3,000 (key group, node) pairs, as
        ``details["second_stage"]`` says; otherwise only ties among the answers found are broken by it.
    rounds : int, optional
        Stop after this many rounds of search, without branch and price, a solver or a second stage: a heuristic that
        repeats itself by seed on any machine. Solvers are still asked about small instances.
    enough : float, default 0
        A load distance at which to stop.

    Notes
    -----
    A run that ends by proof repeats itself exactly by seed: turns are counted in work, not in seconds.
    """
    run = Portfolio(problem, budget, seed=seed, threads=threads, rounds=rounds, enough=enough)
    run.found.add_solution(start)
    return run.run(second_stage)


class Portfolio:
    """The parts of "milp" for one instance, around one incumbent.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed, threads, rounds, enough
        As for `solve_milp`.
    settings : AllocationSettings, optional
    """

    def __init__(
        self, problem: KeyGroupAllocation, budget: Budget, *, seed: int = 0, threads: int = 1, rounds: int | None = None,
        enough: float = 0.0, settings: AllocationSettings | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.seed, self.threads, self.rounds = problem, seed, threads, rounds
        self.settings = settings or budget.tuned(AllocationSettings)
        whole = whole_loads(problem)
        self.found = Incumbent(
            problem, budget, enough, second=lambda assignment: problem.metrics(assignment)["deviation_sum"],
            next_value=lambda bound: bound if whole is None else whole.at_least(bound),
        )  # fmt: skip
        self.instance = it = Instance(problem)
        self.size = it.space.pairs * it.windows
        self.one = it.windows == 1
        self.movable = it.max_moves > 0 and it.nodes > 1
        self.counts: CountBound | None = None
        self.planner: CountPlanner | None = None
        self.trees: list[PriceTree] = []
        self.turn, self.asked, self.attempts, self.worked, self.not_excluded = 0, 0, 0, 0.0, math.inf

    def run(self, second_stage: bool = True) -> Answer:
        """All parts, as far as they are needed, then what breaks ties."""
        found = self.found
        found.add_solution(self.problem.workload.current)
        found.raise_bound(self.instance.least * self.problem.scale, "the heaviest")
        if self.problem.workload.draining.any():
            found.raise_bound(self.instance.left_behind * self.problem.scale, "what stays on draining nodes")
        conduct(found, self.parts())
        heuristic = self.rounds is not None and not self.small
        if self.one and found.best is not None:
            wanted = second_stage and not heuristic and self.problem.space.pairs <= self.settings.second_stage
            if wanted and (found.proven or found.vouched) and not found.budget.expired:
                self._least_sides()
            fewer_moves(found)
        return found.answer()

    def _least_sides(self) -> None:
        """The second stage, by subsets where they are few or have been listed."""
        found = self.found
        assert found.best is not None
        if self.tiny or "subsets" in vars(self):
            proven, best = self.subsets.least_sides(found.best, 1e8, found.budget)
            if proven:
                take_sides(found, best, proven)
                return
        least_sides(found, self.settings.second_effort, self.seed)

    @cached_property
    def subsets(self) -> SubsetProgram:
        """All subsets of the key groups that may move."""
        return SubsetProgram(self.instance)

    @cached_property
    def search(self) -> Search:
        """The annealing, compiled at its first round: on a million key groups that takes longer than a first answer."""
        found = self.found
        return Search(
            self.instance, self.seed, expired=lambda: found.done, spend=found.budget.spend, settings=self.settings
        )

    def parts(self) -> list[Component]:
        """The parts, as the size of the instance and the rules ask for them."""
        settings, parts = self.settings, [Component("search", self.search_turns(), 2.0)]
        if self.tabled:
            # Of more key groups they come after one look of CP-SAT, and before a second round of search.
            parts.append(Component("subsets", self.subset_turns(), 8.0, 0.0 if self.tiny else SHORTEST / 16))
        if self.rounds is None or self.small:
            # Few moves of heavy-tailed loads are what CP-SAT proves soonest, as far as the statement is written down at all.
            soon = settings.stated if self.heavy_tailed and not self.many_moves else settings.asked
            few = self.small or (self.one and self.size <= soon)
            if few or self.statable:
                parts.append(Component("CP-SAT", self.cpsat_turns(), after=SHORTEST * self.tiny if few else self.much))
            if self.linear_helps:
                parts.append(Component("linear relaxation", self.linear_turns()))
            if few or self.statable:
                parts.append(Component("HiGHS", self.highs_turns(), after=self.much))
        if self.rounds is None and self.movable and not self.one:
            # Too large for whole pairs, and with many moves, it rarely proves more than 0.
            ample = self.many_moves and not pairs_fit(self.instance)
            parts.append(Component("joint relaxation", self.joint_turns(), 0.25 if ample else 1.0))
        elif self.rounds is None and self.movable and settings.priced:
            parts.append(Component("prices", self.price_turns(), settings.priced))
        return parts

    # What there is ---------------------------------------------------------------------------------------------------

    @cached_property
    def tabled(self) -> bool:
        """Whether all subsets fit into a table."""
        return self.movable and SubsetProgram.suits(self.instance)

    @cached_property
    def tiny(self) -> bool:
        """Whether subsets end sooner than a search is compiled."""
        return self.movable and SubsetProgram.suits(self.instance, SOON)

    @property
    def small(self) -> bool:
        """Whether a solver mostly proves such an instance at once."""
        return self.size <= self.settings.small

    @property
    def much(self) -> float:
        """The work of a search after which solvers would use the time better."""
        return 2e-7 * self.settings.steps_for_each * float(np.clip(self.size, 400, 13_000))

    @property
    def statable(self) -> bool:
        """Whether a statement is no longer to write down than it is worth."""
        return self.size <= self.settings.stated or math.isinf(self.found.budget.time_limit)

    @property
    def linear_helps(self) -> bool:
        """Whether rules have rows, of which counts and prices know none, or nodes drain.

        Where a few key groups have much of the load, what draining takes is better known by counting.
        """
        drain = self.one and self.problem.workload.draining.any() and not self.heavy_tailed
        return bool(self.problem.lowered.linear or drain) and self.size <= self.settings.stated

    @property
    def heavy_tailed(self) -> bool:
        """Whether a few key groups have much of the load: where these go is a solver's question, however near the bound is."""
        load = self.problem.planned.load[0]
        return bool(load.std() > load.mean())

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
        near = self.distance - self.found.bound / self.problem.scale < 0.01
        return self.many_moves and near and not self.found.all_wait

    # The parts -------------------------------------------------------------------------------------------------------

    def search_turns(self) -> Iterator[None]:
        """A bound by counts, and rounds of annealing, plans and exchanges."""
        found = self.found
        found.add_solution(
            from_highest_to_lowest(self.instance, lambda: found.done), "moved from the highest to the lowest"
        )
        if self.movable and not self.tiny:
            self._anneal_round()
        if self.small and self.problem.lowered.linear:  # counts know nothing of rows: CP-SAT first
            yield
        if not (self._bounds_later and found.best is not None):
            self._count()
        if not self.movable:
            return
        yield
        few = self.size <= self.settings.evened and self.one and self.rounds is None
        if few and self.many_moves and not self.problem.lowered and not self.tabled:
            even_out(found, self.instance, np.random.default_rng([self.seed, 64]), self.settings.tries, found.budget)
            yield
        enough = self.much if math.isinf(found.budget.time_limit) else math.inf
        while self.turn != self.rounds and self.worked < enough:
            before = found.budget.work
            self._plan()
            self._anneal_round()
            if self._exchanges:
                self._exchange()
            self.worked += found.budget.work - before
            yield

    def _count(self) -> None:
        """The bound by counts of each window."""
        found = self.found
        budget = found.budget
        counts = list[CountBound]()
        while len(counts) < self.instance.windows:
            if budget.late:
                return
            counts.append(CountBound(self.instance.by_window[len(counts)], lambda: budget.expired))
        low = counted(self.problem, counts)
        if math.isinf(low):
            found.infeasible = TOO_FEW
            return
        found.details["count_bound"] = low * self.problem.scale
        found.raise_bound(low * self.problem.scale, "counts")
        self.counts = counts[0]
        if self.movable and self.one and not self.problem.lowered.merged and not found.done:
            self.planner = CountPlanner(self.instance, counts[0], self.seed)

    def price_turns(self) -> Iterator[None]:
        """Prices about one distance after another; in vain, for twice the work the next time."""
        # What the search finds at once needs no prices.
        while not self.found.all_wait and (self.turn < 4 or self.counts is None):
            yield
        self.trees = price_trees(self.instance, self.found.budget, self.settings)
        steps = 0.0
        while self.trees:
            lists = self.trees[0].bound.lists
            least = 125_000.0 if self._ample and not lists else 4_000_000.0
            anew = self._price(max(steps, least)) or self.trees[0].bound.lists != lists
            steps = 0.0 if anew else 2 * max(steps, least)
            yield

    def subset_turns(self) -> Iterator[None]:
        """Bisection among the distances that sets of key groups can have."""
        found, scale, steps = self.found, self.problem.scale, 3e7
        while found.best is None:
            yield
        while not found.done:
            begun = found.budget.work
            while found.budget.work - begun < SHORTEST and not found.done:
                low, high = found.bound / scale, self.distance - 0.9 * found.slack / scale
                target = self.subsets.between(low, high, found.budget)
                answered, place = self.subsets.within(-target, target, steps, found.budget)
                if not answered:
                    steps *= 4
                elif place is None:
                    next_one = min(self.subsets.beyond(target), self.distance)
                    found.raise_bound((next_one - self.instance.error_bound) * scale, "subsets")
                elif not found.add_solution(place, "subsets", PLANNED) and self.distance > target:
                    return  # what the check refuses would come again
            yield

    @property
    def _bounds_later(self) -> bool:
        """Whether several windows' bounds, which see every key group on every node, would take much of the search's time."""
        bounded = self.rounds is None and self.movable and not self.one
        return bounded and self.found.budget.work < 20 * STEP * pass_of(self.instance)

    def joint_turns(self) -> Iterator[None]:
        """The bounds of all windows, a round at a turn, once the search has done much more than these take."""
        found = self.found
        while self._bounds_later and not found.all_wait:
            yield
        if self.counts is None:
            self._count()
            yield

        def waits(steps: float) -> bool:
            return found.budget.work < 10 * STEP * steps and not found.all_wait

        for low in bounds_over_windows(self.instance, found.budget, waits):
            found.raise_bound(low * self.problem.scale, "relaxation")
            yield

    def linear_turns(self) -> Iterator[None]:
        """The linear relaxation of the statement."""
        with off_clock():
            from keyshift.solvers.allocation.statement import lp_bound

        found = self.found
        return solver_turns(
            found, lambda turn: lp_bound(self.problem, budget=turn, seed=self.seed), "linear relaxation", 0.5
        )

    def cpsat_turns(self) -> Iterator[None]:
        """CP-SAT, where more search is not worth more; from the best answer."""
        with off_clock():
            from keyshift.solvers.allocation.statement import run_cpsat

        def ask(turn: Budget) -> Answer:
            return run_cpsat(
                self.problem, turn, self.found.best, seed=self.seed, threads=self.threads, known=self.found.bound
            )

        while not self.small and self.within_reach and not self.heavy_tailed:
            yield
        first = SHORTEST / 4 if self.tabled else self.settings.first_effort  # what is not proven at once is for subsets
        yield from solver_turns(self.found, ask, "CP-SAT", first)

    def highs_turns(self) -> Iterator[None]:
        """The same by HiGHS, which now and then proves what CP-SAT cannot."""
        with off_clock():
            from keyshift.solvers.allocation.statement import solve_highs

        def ask(turn: Budget) -> Answer:
            return solve_highs(self.problem, budget=turn, seed=self.seed, start=self.found.best, threads=self.threads)

        while not self.small and self.within_reach:
            yield
        yield from solver_turns(self.found, ask, "HiGHS", self.settings.first_effort)

    # Prices and plans ------------------------------------------------------------------------------------------------

    @property
    def _ample(self) -> bool:
        """Whether many more may move than the best distance takes by the counts: there prices say little."""
        if not self.many_moves or self.counts is None or not self.counts.exact:
            return self.many_moves
        most = self.instance.max_moves
        return bool(fewest_moves(self.counts.table, self.distance, most) < most - 0.3 * self.instance.nodes)

    def _price(self, steps: float) -> bool:
        """Ask prices about the best distance when it is new, else one below; whether that raised the bound or reached it.

        Where columns are listed, the proof is asked for at every other turn, and goes on where it stopped.
        """
        found, scale = self.found, self.problem.scale
        low, high = found.bound / scale, (found.objective - 0.9 * found.slack) / scale
        if not low < high < math.inf:
            return False
        tree = self._choose_prices(high)
        aim, lists = PRICED_AT[self.asked % len(PRICED_AT)], tree.bound.lists
        target = high if high < self.not_excluded or (lists and self.asked % 2) else low + (high - low) * aim
        branches = int(np.clip(steps * WORK_OF_STEP / tree.bound.work, 1, 512))
        turn = found.budget.turn(2 * STEP * steps)  # a single branch may take longer: its curve is kept
        self.asked += 1
        stack = tree.open if lists and target == high else None
        if tree.excludes(target, branches, turn, partial(self._realise, target), self._accept, stack):
            found.raise_bound(target * scale, "prices")
            return True
        if target == high:
            self.not_excluded = high
        return self.distance <= target

    def _choose_prices(self, target: float) -> PriceTree:
        """The prices that say most about a distance; only those are asked from then on."""
        if len(self.trees) > 1:
            for tree in self.trees:
                tree.bound.excludes(target, lambda: self.found.budget.expired)
            self.trees = [max(self.trees, key=lambda tree: tree.bound.value)]
        return self.trees[0]

    def _accept(self, assignment: IntArray) -> bool:
        """Whether an assignment of listed columns is one of the problem's, and the best."""
        return self.found.add_solution(assignment, "listed", PLANNED)

    def _plan(self) -> None:
        """Plan counts for a distance between the bound and the best, and realise them."""
        if self.planner is None or not self.planner.useful or self.found.done:
            return
        low = self.found.bound / self.problem.scale
        high = min(self.distance, self.instance.distance(self.instance.current))
        target = low + (high - low) * PLANNED_AT[self.turn % len(PLANNED_AT)]
        plan = self.planner.pairs(target, np.random.default_rng([self.seed, self.turn]))
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
                self.found.add_solution(near, "planned", SEARCHED)
                self._anneal(near, self.search.polish, self.attempts)
            if self.distance <= target:
                return True
        return False

    # Search ----------------------------------------------------------------------------------------------------------

    def _anneal_round(self) -> None:
        """One round of annealing, a short one before a solver that mostly proves the best at once."""
        todo, best = self.search.schedule(self.turn), self.found.best
        if self.turn == 0 and self.small and self.one:
            todo = todo._replace(steps=todo.steps * self.size // self.settings.small)
        self._anneal(self.instance.current if todo.fresh or best is None else best, todo, self.turn)
        self.turn += 1
        self.found.details["rounds"] = self.turn

    def _anneal(self, start: IntArray, todo: Round, turn: int) -> None:
        """A round in pieces short enough to heed the limit."""
        self.search.begin(start, turn)
        done = 0
        while done < todo.steps and not self.found.done:
            steps = min(self.search.chunk, todo.steps - done)
            hot, cold = (todo.hot * (todo.cold / todo.hot) ** (at / todo.steps) for at in (done, done + steps))
            self.found.add_solution(
                self.search.run(steps, hot, cold, self.distance, todo.doublings), "annealed", SEARCHED
            )
            done += steps

    @property
    def _exchanges(self) -> bool:
        """Whether so many may move that exchanges between three nodes find what the annealing does not."""
        able = self.many_moves and self.one and self.instance.nodes > 2 and not self.problem.lowered.merged
        return able and self.distance <= self.search.heaviest  # farther from the mean annealing gains more

    def _exchange(self) -> None:
        """Cool down anew, or from the best heated up, and exchange key groups between three nodes from there."""
        best = self.found.best
        start = self.search.cool(self.turn - 1, best if self.turn % 2 == 0 else None)
        start = best if start is None else start
        if start is None:
            return
        exchanges = Exchanges(self.instance, [self.seed, self.turn - 1], start, self.search.rows)
        exchanges.improve(self.settings.exchanges, lambda: self.found.done)
        self.found.add_solution(exchanges.place, "exchange", SEARCHED)
        self.found.budget.spend(2_000_000)  # they take about as long as a million steps

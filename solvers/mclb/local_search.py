"""A fast method of our own for MCLB: greedy placement, then moves and swaps, annealed where there is room."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import NonNegative
from keyshift.models.mclb.problem import MCLB, SLACK, Core, sums_on_nodes
from keyshift.models.objectives import Searched
from keyshift.models.workload import FloatArray, IntArray, MoveSpace
from keyshift.solvers.checked import promised
from keyshift.solvers.conductor import SHORTEST, Incumbent
from keyshift.solvers.mclb import local_search_kernels as kernels
from keyshift.solvers.mclb.bounds import window_bound
from keyshift.solvers.mclb.pair_splits import PairSplits, PlacementTurns
from keyshift.solvers.search.annealing import Cooling, LocalSearch, Task, search_within
from keyshift.solvers.search.program import Aim, Placing
from keyshift.solvers.search.second_moments import SecondMoments
from keyshift.solvers.threads import one_blas_thread
from keyshift.solvers.tuning import MCLBSettings

MOST = 300_000_000
"""The most candidates of a run of the annealing."""
AT_ONCE = 100_000_000
"""Steps of compiled sweeps between two looks at the clock."""
LOOK = 10_000_000
"""Candidates between two looks at the clock."""
SOFTNESS, SOFTENED_FROM = (1.0, 3.0, 8.0), 13
"""The caps on eigenvalues that softened runs begin with, in units of 1.5 times the ninth decile; fewer key groups have none."""
STAGES = 15
"""The least number of stages of a run; the cap of a softened one rises from stage to stage."""
MELTED = (0.4, 0.03)
"""First and last temperature of a softened run, in units of half the mean of the capped eigenvalues."""
HOT, COLD = 8.0, 1.5
"""The same of a plain run, in units of the temperature at which random moves keep the sum of squares at that of the best."""
FROZEN = (0.13, 1e-2)
"""Every run goes on for this share of its stages, down to this share of its last temperature: temperatures are in units of the
best sum of squares, of which a giant key group may leave much that no move lowers."""
REHEATED = (0.2, 0.8)
"""The range, in shares of its stages, from which the first stage of a run from the best is drawn."""
IDLE, TRIES, SWEPT = 3, 10, 100.0
"""So many sweeps in a row without a gain begin anew, or end; swaps for each key group; elementary steps of effort's."""
AHEAD, COMPARED = 4.0, 0.2
"""Where `PairSplits` suits, too, the search that found the better by itself works so many times as much as the other, which has
this share of the time left for a turn."""


def local_search(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, effort: NonNegative | None = None
) -> Answer:
    """Moves and swaps from a greedy placement.

    No guarantee. Greedy placement takes O(p n m). Up to 1,500 key groups, simulated annealing follows on the
    uncentred second-moment matrix C = Y'Y, where all moves and swaps of a key group are weighed in O(p); above, sweeps
    of best moves, O(p n m), and swaps of key groups of like size, O(m) each, until neither gains.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
    start : ndarray, optional
        A placement that the answer will not be worse than.
    effort : float, optional
        Multiplies the number of annealing steps or swaps. None is 1; where there are more key groups than are annealed, as many
        as a limited time allows.

    Notes
    -----
    Without a budget the labels of the nodes are free: those that move least state are chosen (an assignment problem).
    Under rules `search_within` finds where the annealing begins, and goes on alone where there are more key groups.
    """
    if effort is None:  # sweeps over many key groups go on while there is time, if it is limited
        endless = problem.workload.key_groups > budget.tuned(MCLBSettings).annealed and math.isfinite(budget.remaining)
        effort = math.inf if endless and not problem.rules else 1.0
    found = Incumbent(problem, budget)
    found.add_solution(start)
    for _ in search_turns(found, seed, effort):
        pass
    return Answer(found.best, termination=budget.why if budget.expired else "completed")


def search_turns(found: Incumbent, seed: int, effort: float = math.inf) -> Iterator[None]:
    """The search, a run or a sweep at a turn, from the incumbent and for it; under rules first one for where to begin."""
    problem, budget = found.problem, found.budget
    settings, core = budget.tuned(MCLBSettings), problem.core
    if problem.rules:
        many = core.load.shape[0] > settings.annealed
        yield from _under_rules(found, seed, effort, many)
        if found.best is None or many:
            return
    search = PlacementSearch(problem, None if found.best is None else core.lower(found.best), seed, settings, budget)
    found.add_solution(core.lift(core.relabelled(search.best)), "local search")
    going = True
    while going and not found.done:
        yield
        if found.best is not None:
            search.take(core.lower(found.best))
        begun = budget.work
        while going and budget.work - begun < SHORTEST:
            going = search.turn(budget, effort)
        found.add_solution(core.lift(core.relabelled(search.best)), "local search")  # of the last turn, too


def _under_rules(found: Incumbent, seed: int, effort: float, many: bool) -> Iterator[None]:
    """Annealing at a price for what breaks rules, until there is a placement; of many key groups for good."""
    problem, budget = found.problem, found.budget
    load = compressed(problem.core.load)
    squares = np.square(load).sum(axis=1)
    aim = Aim(doublings=1, unit=math.sqrt(float(squares.mean())) or 1.0, squares=True)
    worth = squares / aim.unit**2
    placing = posed(problem, np.ascontiguousarray(load.T), worth)
    task, endless, turn = Task(placing, aim, worth), math.isinf(effort), 0
    first = budget.tuned(MCLBSettings).first
    while (found.best is None or many) and not found.done and (endless or turn < 2):
        part = budget.turn(first * 2 ** min(turn, 30)) if endless else budget
        answer = search_within(
            problem, lambda _: task, budget=part, seed=seed + turn, start=found.best, effort=effort if turn else 0.0
        )
        found.add_solution(answer.assignment, "local search")
        turn += 1
        yield


def posed(problem: MCLB, load: FloatArray, worth: FloatArray | None = None) -> Placing:
    """The placement program, with loads of shape (windows, p); a budget is a row."""
    w = problem.workload
    space = problem.lowered.narrowed(MoveSpace.within(w.current, w.kept))
    it = Searched(load, space, {}, np.zeros(len(load)), cost=w.state, cost_limit=problem.max_state_moved)
    return Placing(it, problem.lowered, np.ones(w.nodes), worth=worth)


class PlacementSearch:
    """A search that can be interrupted, and goes on as if it had not been; under rules from a start that keeps them."""

    def __init__(
        self,
        problem: MCLB,
        start: IntArray | None,
        seed: int,
        settings: MCLBSettings | None = None,
        budget: Budget | None = None,
    ) -> None:
        core, settings, rng = problem.core, settings or MCLBSettings(), np.random.default_rng(seed)
        self.core, load = core, compressed(core.load)
        annealed = load.shape[0] <= settings.annealed
        # Of one window a start is nearly even already; the squares of several lead elsewhere.
        kept = problem.rules or (not annealed and load.shape[1] == 1)
        first = start if start is not None and kept else _starting_point(core, load, budget)
        self.best = first if start is None or core.squares(first) < core.squares(start) else start.copy()
        self.searches: list[PairSplits | _Annealing | _Sweeps] = []
        if annealed and not problem.rules:  # milliseconds, so that a limit that ends the first cooling leaves an answer
            self.best = _Sweeps(core, load, self.best, self.best, np.random.default_rng(seed)).go_on(budget or Budget())
        if PairSplits.suits(core, settings):
            self.searches.append(PairSplits(core, self.best, seed))
        if annealed:
            self.searches.append(_Annealing(problem, load, first, self.best, rng, settings))
        else:
            self.searches.append(_Sweeps(core, load, first, self.best, rng))

    def go_on(self, budget: Budget, effort: float = 1.0, enough: float = 0.0) -> IntArray:
        """The best placement after so much effort in all, or once the sum of squares is `enough`."""
        while self.turn(budget, effort, enough):
            pass
        return self.best

    def turn(self, budget: Budget, effort: float = math.inf, enough: float = 0.0) -> bool:
        """A turn of the search that found the better placement by itself, or of the other; False where there is none to take."""
        going = [each for each in self.searches if each.unfinished(effort, enough)]
        if self.core.nodes == 1 or self.core.squares(self.best) <= enough or not going or budget.expired:
            return False
        first, *others = sorted(going, key=lambda each: each.own)
        behind = [each for each in others if first.work > AHEAD * each.work]
        each = behind[0] if behind else first
        each.turn(budget.part(COMPARED) if behind else budget)
        self.take(each.best)
        return True

    def take(self, found: IntArray) -> None:
        """Take a placement over if it is better: annealing and sweeps go on from it now and then, splits go on from their own."""
        if self.core.squares(found) < self.core.squares(self.best):
            self.best = found
        for each in self.searches:
            if not isinstance(each, PairSplits):
                each.take(self.best)


def compressed(load: FloatArray) -> FloatArray:
    """Rows with the same inner products in no more than p columns: the triangle of a QR factorisation of Y'."""
    p, m = load.shape
    if m <= p:
        return load
    with one_blas_thread():
        triangle: FloatArray = np.linalg.qr(load.T, mode="r")  # type: ignore[assignment]  # mode "r" gives R alone
    return np.ascontiguousarray(triangle.T)


def _starting_point(core: Core, load: FloatArray, budget: Budget | None = None) -> IntArray:
    """The better of the greedy placement by size and the current nodes."""
    candidates = [greedy_placement(core, np.argsort(-np.square(load).sum(axis=1), kind="stable"), budget)]
    if (core.current >= 0).all():
        candidates.append(core.current)
    return min((c for c in candidates if core.moved(c) <= core.budget), key=core.squares).copy()


def greedy_placement(core: Core, order: IntArray, budget: Budget | None = None) -> IntArray:
    """The greedy placement; where the time is over before all are placed the others stay, or go to the nodes in turn."""
    sums = np.zeros((core.nodes, core.load.shape[1]))
    chosen, left = np.where(core.current >= 0, core.current, np.arange(order.size) % core.nodes), core.budget
    for at, some in enumerate(np.array_split(order, _pieces(order.size * sums.size))):
        if at > 0 and budget is not None and budget.expired:
            break
        left = kernels.place_greedily(core.load, some, chosen, sums, core.state, core.current, left)
    return chosen


def _pieces(steps: int) -> int:
    """In how many pieces so many steps of compiled sweeps are taken, with a look at the clock between them."""
    return max(1, steps // AT_ONCE)


def _next_kind(tried: dict[float, list[float]], rng: np.random.Generator) -> float:
    """The kind of least mean, or the one with the fewest runs: until each has had two, and every fourth time."""
    fewest = min(tried, key=lambda kind: len(tried[kind]))
    if rng.random() < 0.25 or len(tried[fewest]) < 2:
        return fewest
    return min(tried, key=lambda kind: float(np.mean(tried[kind])))


class CoolingStage(NamedTuple):
    """A piece of a cooling: no eigenvalue is above the cap."""

    cap: float
    hot: float
    cold: float


def _stages_of(caps: list[float], hot: float, cold: float) -> list[CoolingStage]:
    """Cool evenly, by the logarithm, over these caps."""
    heats = [hot * (cold / hot) ** (stage / max(len(caps), 1)) for stage in range(len(caps) + 1)]
    return [CoolingStage(*each) for each in zip(caps, heats[:-1], heats[1:], strict=True)]


class _Annealing(PlacementTurns):
    """Simulated annealing on the second-moment matrix, as it is or softened.

    Coolings from a heat at which everything moves, plain or softened, every fourth from the best so far. Which kind serves best
    differs from instance to instance: once each has had two runs, most go to the one with the least mean. They begin from the
    greedy placement or from the current nodes in turn: no heat moves a giant key group, and who has to leave it costs state.
    What is known beforehand guides only the runs from the best: the others are the same with a start or without, with a budget
    or one that is let out, as long as it does not bind.
    """

    def __init__(
        self,
        problem: MCLB,
        load: FloatArray,
        first: IntArray,
        best: IntArray,
        rng: np.random.Generator,
        settings: MCLBSettings,
    ) -> None:
        core, w = problem.core, problem.workload
        super().__init__(core, best)
        self.rng, self.settings = rng, settings
        self.placing = posed(problem, np.zeros((0, w.key_groups)))
        items = self.placing.items
        load = items.sums.T @ load
        with one_blas_thread():
            self.moment = load @ load.T
            self.floor = window_bound((items.sums.T @ core.load).T, core.nodes)
            self.values, self.vectors = np.linalg.eigh(self.moment)
        self.positive = self.values[self.values > 1e-9 * max(self.values[-1], 0.0)]
        most_moved = max(min(core.budget, float(core.state.sum())), float(core.state.mean())) or 1.0
        gained = core.squares(np.maximum(core.current, 0)) - self.floor
        every = np.ones(w.nodes, dtype=bool)
        unit = float(items.budget(w.state, every, math.inf).weights.max(initial=0.0)) or 1.0  # of the budget's row
        self.fair_price = max(1e-200, gained / most_moved * unit)  # a price of nothing does not rise
        if problem.rules:  # rows of rules are in units of the heaviest key group
            self.fair_price = max(self.fair_price, float(np.diag(self.moment).mean()))
        p = load.shape[0]
        self.steps = min(settings.steps_for_each * p, MOST // p)
        cost = np.where(np.arange(w.nodes)[:, None] != w.current, w.state / unit, 0.0) @ items.sums
        self.squares = SecondMoments.of(self.placing, self.moment, cost, core.limited)
        self.search = LocalSearch(self.placing, None, int(rng.integers(2**31)), 89, self.squares)
        self.firsts = first, core.current if not problem.rules and (core.current >= 0).all() else first
        self.own = core.squares(best)
        kinds = (0.0, *SOFTNESS) if p >= SOFTENED_FROM else (0.0,)
        self.tried: dict[float, list[float]] = {kind: [] for kind in kinds}
        self.number, self.work = 0, 0

    def unfinished(self, effort: float, enough: float) -> bool:
        """Whether there are runs left, and there is something better to find."""
        settings = self.settings
        runs = 2 + round(effort * (settings.runs - 2)) if math.isfinite(effort) else sys.maxsize
        return self.number < runs and self.positive.size > 0 and self.value > max(enough, self.floor * (1 + 1e-9))

    def turn(self, budget: Budget) -> None:
        """One run."""
        self.take(self._run(budget))

    def _run(self, budget: Budget) -> IntArray:
        self.price = math.inf if self.rng.random() < 0.5 else self.fair_price
        # The first are short, for short limits.
        longer = (0.05, 0.2)[self.number] if self.number < 2 else 2.0 ** (self.number // self.settings.runs)
        kind, again = _next_kind(self.tried, self.rng), self.number % 4 == 3
        stages = max(STAGES, math.ceil(self.steps * longer * self.moment.shape[0] / LOOK))
        schedule = self._softened(kind, stages) if kind else self._plain(stages)
        further, last = round(FROZEN[0] * stages), schedule[-1].cold
        schedule += _stages_of([math.inf] * further, last, last * FROZEN[1])
        steps = max(1, int(self.steps * longer / len(schedule)))
        self.number += 1
        if again:
            least, most = sorted(REHEATED)
            begin = int(stages * self.rng.uniform(least, most))
            return self._cooled(self.best, schedule[begin:], steps, budget)
        found = self._cooled(self.firsts[self.number % 2], schedule, steps, budget)
        now = self.core.squares(found)
        self.own = min(self.own, now)
        if longer >= 1:
            self.tried[kind].append(now)
        return found

    def _plain(self, stages: int) -> list[CoolingStage]:
        """Cool between two heats, of which 1 is where chance leaves so much that the sum of squares is 1."""
        rest = max(self.own - self.floor, 1e-9 * self.own)
        unit = 2.0 * rest / ((self.core.nodes - 1) * self.positive.size)
        return _stages_of([math.inf] * stages, HOT * unit, COLD * unit)

    def _softened(self, softness: float, stages: int) -> list[CoolingStage]:
        """Cool while the few large eigenvalues of the second moment, capped at first, come back.

        Those few, the mean load above all, dwarf the rest: at a heat where the others are still to be arranged, hardly
        any swap keeps the means level, and a plain annealing freezes with the others in disorder. Capped, they let the
        fluctuations be arranged first; as the cap rises, the small key groups level the means.
        """
        cap = 1.5 * softness * float(np.quantile(self.positive, 0.9))
        rest = 0.5 * float(np.minimum(self.positive, cap).sum()) / self.moment.shape[0]
        rise = max(1.0, float(self.values[-1]) / cap)
        caps = [cap * rise ** min(1.0, stage / (0.8 * stages)) for stage in range(stages)]
        hot, cold = MELTED
        return _stages_of(caps, hot * rest, cold * rest)

    def _cooled(self, start: IntArray, schedule: list[CoolingStage], steps: int, budget: Budget) -> IntArray:
        """The best placement at the end of any stage."""
        core, best, value = self.core, start, math.inf
        self.search.begin(core.lift(start))
        for stage in schedule:
            self.search.squares = self.squares._replace(moment=self._capped(stage.cap))
            prices = 0.1 * self.price, 10.0 * self.price
            made, gained = self.search.cool(Aim(), Cooling(steps, stage.hot, stage.cold, *prices))
            budget.spend(steps)
            self.work += steps * start.size
            found = core.lower(made)
            spent = core.moved(found)
            promised(math.isinf(gained) or spent <= core.budget * (1 + SLACK), f"{spent} of {core.budget} moves")
            if not math.isinf(gained) and (now := core.squares(found)) < value and spent <= core.budget:
                best, value = found, now
            if budget.expired:
                break
        return best

    def _capped(self, cap: float) -> FloatArray:
        """The second moment with no eigenvalue above the cap."""
        over = self.values > 1.001 * cap
        if not over.any():
            return self.moment
        with one_blas_thread():
            vectors = self.vectors[:, over]
            return self.moment - (vectors * (self.values[over] - cap)) @ vectors.T


class _Sweeps(PlacementTurns):
    """Sweeps of moves, and of swaps of neighbours in size, from a placement; from the best once they gain too little."""

    def __init__(self, core: Core, load: FloatArray, first: IntArray, best: IntArray, rng: np.random.Generator) -> None:
        super().__init__(core, best)
        self.load, self.rng, self.work = load, rng, 0
        self.ranked = np.argsort(-load.sum(axis=1), kind="stable")
        self._begin(first)

    def _begin(self, chosen: IntArray) -> None:
        """Go on from a placement."""
        self.chosen, self.own, self.idle = chosen.copy(), self.core.squares(chosen), 0
        self.spent, self.sums = self.core.moved(chosen), sums_on_nodes(self.load, chosen, self.core.nodes)

    def unfinished(self, effort: float, enough: float) -> bool:
        """Whether sweeps gained more than a thousandth lately, or there is a better placement to go on from."""
        return self.value > enough and (self.idle < IDLE * effort or self.value < self.own)

    def turn(self, budget: Budget) -> None:
        """One sweep of moves, and as many swaps."""
        if self.idle >= IDLE and self.value < self.own:
            self._begin(self.best)
        p, rank, fall = self.chosen.size, self.load.shape[1], 0.0
        data = self.load, self.chosen, self.sums, self.core.state, self.core.current
        for some in np.array_split(self.rng.permutation(p), _pieces(p * self.sums.size)):
            if budget.expired:
                break
            gained, self.spent = kernels.descend(*data, self.spent, self.core.budget, some)
            budget.spend(some.size * self.sums.size / SWEPT)
            fall += gained
        for reach in (p // 2, 200, 20):
            for some in np.array_split(np.arange(TRIES * p), _pieces(TRIES * p * rank)):
                if budget.expired:
                    break
                gained, self.spent = kernels.swap_alike(
                    *data, self.spent, self.core.budget, self.ranked, reach, some.size, self.rng
                )
                budget.spend(some.size * rank / SWEPT)
                fall += gained
        self.work += p * (self.sums.size + 3 * TRIES * rank)
        self.idle = self.idle + 1 if fall <= 1e-3 * self.own else 0
        self.own -= fall
        self.take(self.chosen)

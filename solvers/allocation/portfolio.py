"""Key-group allocation, exactly and anytime: our own search and bounds first, then a solver for the rest; at last, ties."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.compiling import LEAF, njit, off_clock
from keyshift.models.base.guards import NonNegative, Threads, Whole
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.incumbent import PLANNED, Incumbent
from keyshift.solvers.allocation.settings import AllocationSettings
from keyshift.solvers.checked import kept, within


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

    0. Instances of at most 300 (key group, node) pairs: CP-SAT on the declarative statement, for a moment.
    1. Where rules have rows or nodes drain, the linear relaxation. A short search, and a lower bound by counting departures
       and arrivals (`keyshift.solvers.allocation.counting.bound`).
    2. In turns, a plan of counts that the search realises (`keyshift.solvers.allocation.counting.planner`), a round of
       annealing over lists of moves (`keyshift.solvers.allocation.search`), exchanges between three nodes where many
       may move (`keyshift.solvers.allocation.exchanges`), and branch and price for a target
       distance between bound and best, which it rules out or plans how to reach
       (`keyshift.solvers.allocation.pricing.tree`). After two turns CP-SAT is asked about small instances for a
       moment. Before, of dozens of key groups those of a few nodes are shared out anew
       (`keyshift.solvers.allocation.large_neighbourhood`).
    3. CP-SAT on the declarative statement, from the best answer, for a while; then HiGHS, until it is proven.

    Last, moves that neither stage needs are undone, and moves left over empty draining nodes
    (`keyshift.solvers.allocation.portfolio`).

    Every phase ends early when objective and bound meet. A Pyomo model is built for HiGHS only.

    Over more windows than one annealing values all of them, their joint linear relaxation
    (`keyshift.solvers.allocation.joint_relaxation`) takes the place of prices, and only small instances are stated for
    a solver; there is no second stage.

    Parameters
    ----------
    threads : int, default 1
        Threads for the third phase; more than one may return another optimum from run to run.
    second_stage : bool, default True
        Among assignments of the least load distance look for the least ``deviation_sum``: proven by CP-SAT where
        the first stage is proven on at most 3,000 (key group, node) pairs, as
        ``details["second_stage"]`` says; otherwise only ties among the answers found are broken by it.
    rounds : int, optional
        Stop after this many rounds of search, without branch and price, a solver or a second stage: a heuristic that
        repeats itself by seed on any machine. CP-SAT is still asked first about small instances.
    enough : float, default 0
        A load distance at which to stop.

    Notes
    -----
    A run that ends by proof repeats itself exactly by seed: rounds are counted in steps, not in seconds.
    """
    run = Portfolio(problem, budget, enough=enough, seed=seed, settings=budget.tuned(AllocationSettings))
    run.offer(start)
    return run.run(threads, second_stage, rounds)


@dataclass
class Portfolio(Incumbent):
    """The phases that improve the best assignment and the best bound."""

    seed: int = 0
    settings: AllocationSettings = field(default_factory=AllocationSettings)
    details: dict[str, object] = field(default_factory=dict)

    def run(self, threads: int = 1, second_stage: bool = True, rounds: int | None = None) -> Answer:
        """All phases, as far as they are needed."""
        self.budget.report(bound=self.bound)
        self.offer(self.problem.workload.current)
        one = self.problem.planned.count == 1
        large = self.problem.space.pairs * self.problem.planned.count > self.settings.small
        if not large:
            self.ask_cpsat(threads, self.settings.first_effort, 0.25)
        if not self.done and rounds is None:
            self.linear_bound()
        if not self.done:
            self.search(rounds)
        limited = large and (rounds is not None or (not one and self.too_large()))
        if not self.done and not limited:
            self.declared(threads)
        if second_stage and one and not limited and (self.proven or self.stopped) and not self.budget.expired:
            self.second_stage()
        if one:
            self.settle()
        return self.answer()

    def linear_bound(self) -> None:
        """The linear relaxation's bound: where rules have rows, of which counts and prices know none, or nodes drain.

        Where a few key groups have much of the load, what draining takes is better known by counting.
        """
        drain = self.problem.planned.count == 1 and self.problem.workload.draining.any() and not self.heavy_tailed
        if not (self.problem.lowered.linear or drain) or self.too_large():
            return
        with off_clock():
            from keyshift.solvers.allocation.statement import lp_bound

        share = self.budget.part(0.1, scale=self.problem.scale)
        self.hear(lp_bound(self.problem, budget=share, seed=self.seed), "linear relaxation")

    def too_large(self) -> bool:
        """Whether a statement over windows would take longer to write down than it is worth."""
        return self.problem.space.pairs * self.problem.planned.count > self.settings.stated

    def search(self, rounds: int | None) -> None:
        """Phases 1 and 2."""
        with off_clock():
            from keyshift.solvers.allocation.phases import Rounds

        self.details |= Rounds(self, self.seed, rounds, self.settings).run()

    def declared(self, threads: int) -> None:
        """Phase 3: CP-SAT for a while from the best answer, then HiGHS, each on its declarative statement."""
        self.ask_cpsat(threads, self.settings.last_effort)
        if not self.done:
            self._highs(threads)

    def ask_cpsat(self, threads: int, effort: float, share: float = 1.0) -> None:
        """CP-SAT, from the best answer, for so many deterministic seconds in a share of the time left."""
        with off_clock():
            from keyshift.solvers.allocation.statement import run_cpsat

        answer = run_cpsat(
            self.problem, self.budget.part(share), self.best, seed=self.seed, threads=threads, known=self.bound,
            max_deterministic_time=effort,
        )  # fmt: skip
        self.details |= answer.details
        self.hear(answer, "CP-SAT")

    def _highs(self, threads: int) -> None:
        """The same by HiGHS, which now and then proves what CP-SAT cannot."""
        with off_clock():
            from keyshift.solvers.allocation.statement import solve_highs

        answer = solve_highs(self.problem, budget=self.budget, seed=self.seed, start=self.best, threads=threads)
        self.hear(answer, "HiGHS")
        self.stopped = answer.termination == "optimal"

    def second_stage(self) -> None:
        """Among the assignments of this load distance, one of least deviation_sum."""
        if self.best is None or self.problem.space.pairs > self.settings.second_stage:
            return
        with off_clock():
            from keyshift.models.allocation.cpsat_model import AllocationCpSat
            from keyshift.solvers import cpsat

        statement = within(self.budget, lambda: AllocationCpSat(self.problem))
        if statement is None:
            return
        statement.keep("load_distance", self.objective)
        statement.minimise("deviation_sum")
        statement.set_start(self.best)
        outcome = cpsat.minimise(
            statement.model, self.budget, seed=self.seed, max_deterministic_time=self.settings.second_effort
        )
        if not outcome.found:
            return
        other = statement.assignment(outcome.solver.value)
        report = self.problem.check(other)
        slack = 1e-3 * self.problem.tolerance
        as_near = report.feasible and report.objective <= self.objective + slack
        if as_near and report.metrics["deviation_sum"] < self.deviation_sum - slack:
            self.best, self.deviation_sum = other, report.metrics["deviation_sum"]
        self.details["second_stage"] = "optimal" if outcome.termination == "optimal" and as_near else "feasible"

    def settle(self) -> None:
        """Fewer moves and emptier draining nodes, where they cost nothing."""
        if self.best is None:
            return
        other = settle(self.problem, self.best, lambda: self.budget.expired)
        slack = 1e-5 * self.problem.tolerance
        better = self.problem.objective(other) <= self.objective + slack
        sides = self.problem.metrics(other)["deviation_sum"]
        if kept(self.problem, other, PLANNED) and better and sides <= self.deviation_sum + slack:
            self.best = other

    def answer(self) -> Answer:
        """The best assignment and bound found, and why the run ended."""
        if self.infeasible and self.best is None:
            return Answer(None, termination="infeasible", message=self.infeasible)
        ended = self.budget.why if self.budget.expired else "completed"
        termination = "optimal" if self.proven or self.stopped else ended
        return Answer(self.best, self.bound, termination, details=self.details)


# Undo needless moves, and spend what they leave on draining: ties that neither stage of the objective breaks ---------


ROUNDING = 1e-12
"""The share of the mean by which a deviation may exceed the largest one so far."""


def settle(problem: KeyGroupAllocation, assignment: IntArray, expired: Callable[[], bool] = lambda: False) -> IntArray:
    """An assignment as good in both stages, with fewer moves on kept nodes or fewer key groups on draining ones.

    No deviation leaves the range between the lowest and the highest that there are. Within it a move is undone, or two
    moves that meet on a node become one, as long as that is possible; then the moves that are left to spend empty
    draining nodes, the largest key group that fits first.

    Parameters
    ----------
    problem : KeyGroupAllocation
    assignment : ndarray, shape (p,)
        Feasible.
    expired : callable, optional
        Once it is true, one pass over the moves is all.

    Returns
    -------
    ndarray, shape (p,)
    """
    state = _State(Instance(problem), assignment.copy())
    for _ in range(5):
        moved = state.moved()
        if not (undo(moved, state.sums()) or state.merge(moved, expired)) or expired():
            break
    state.drain(expired)
    return state.place


class _Sums(NamedTuple):
    """An assignment, its deviations and resources, the range that they must not leave, and the instance's arrays."""

    place: IntArray
    deviation: FloatArray
    used: FloatArray
    highest: float
    lowest: FloatArray
    current: IntArray
    load: FloatArray
    weight: FloatArray
    use: FloatArray
    room: FloatArray
    kind: IntArray
    enter: BoolArray


@njit(**LEAF)
def in_range(node, more, adding, removing, it):
    """Whether a node stays between the lowest and the highest, and within its room, with so much more load and uses; -1: none."""
    for r in range(it.use.shape[0]):
        used = it.used[r, node]
        if removing >= 0:
            used -= it.use[r, removing]
        if adding >= 0:
            used += it.use[r, adding]
        if used > it.room[r, node]:
            return False
    return it.lowest[node] <= it.deviation[node] + more * it.weight[node] <= it.highest


@njit(**LEAF)
def carry(k, target, it):
    """Put a key group on a node."""
    source = it.place[k]
    it.deviation[source] -= it.load[k] * it.weight[source]
    it.deviation[target] += it.load[k] * it.weight[target]
    for r in range(it.use.shape[0]):
        it.used[r, source] -= it.use[r, k]
        it.used[r, target] += it.use[r, k]
    it.place[k] = target


@njit(cache=True, error_model="numpy", nogil=True)
def carried(k, target, it):
    """Put a key group on a node if both nodes stay in range; whether it went."""
    if in_range(it.place[k], -it.load[k], -1, k, it) and in_range(target, it.load[k], k, -1, it):
        carry(k, target, it)
        return True
    return False


@njit(cache=True, error_model="numpy", nogil=True)
def undo(away, it):
    """Send moved key groups back one by one, in this order; whether any went."""
    done = False
    for x in range(away.size):
        done = carried(away[x], it.current[away[x]], it) or done
    return done


@njit(cache=True, error_model="numpy", nogil=True)
def arrivals(moved, first_on, following, it):
    """Lists of those that have moved, by their node: the first of each, and the one after each."""
    for x in range(moved.size):
        k = moved[x]
        following[k], first_on[it.place[k]] = first_on[it.place[k]], k


@njit(cache=True, error_model="numpy", nogil=True)
def merge(seconds, first_on, following, it):
    """Where one key group replaced another on a node, let the one go on instead of the other; whether any did.

    Of those that arrived on the node, in the order of their numbers, the first goes on that leaves all in range.
    """
    done = False
    for x in range(seconds.size):
        second = seconds[x]
        home, target = it.current[second], it.place[second]
        best, k = -1, first_on[home] if home != target else -1
        while k >= 0:
            more = it.load[second] - it.load[k]
            if (
                (best < 0 or k < best)
                and (it.current[k] == target or it.enter[it.kind[k], target])
                and in_range(home, more, second, k, it)
                and in_range(target, -more, k, second, it)
            ):
                best = k
            k = following[k]
        if best < 0:
            continue
        taken_off(second, target, first_on, following)
        taken_off(best, home, first_on, following)
        carry(second, home, it)
        carry(best, target, it)
        if it.current[best] != target:
            following[best], first_on[target] = first_on[target], best
        done = True
    return done


@njit(**LEAF)
def taken_off(k, node, first_on, following):
    """Take a key group off a node's list."""
    if first_on[node] == k:
        first_on[node] = following[k]
        return
    at = first_on[node]
    while following[at] != k:
        at = following[at]
    following[at] = following[k]


@dataclass
class _State:
    """An assignment, its deviations and resources, and the range that they must not leave."""

    instance: Instance
    place: IntArray
    deviation: FloatArray = field(init=False)
    used: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        it = self.instance
        self.deviation, self.used = it.deviations(self.place), it.used(self.place)
        kept = ~it.draining
        self.highest = float(self.deviation.max()) + ROUNDING
        self.lowest = np.where(kept, self.deviation[kept].min() - ROUNDING, -math.inf)

    def moved(self) -> IntArray:
        """Key groups away from their current node, the dearest first."""
        away = np.flatnonzero(self.place != self.instance.current)
        return away[np.lexsort((away, -self.instance.cost[away]))]

    def sums(self) -> _Sums:
        """What the compiled passes keep in step."""
        it = self.instance
        return _Sums(
            self.place, self.deviation, self.used, self.highest, self.lowest, it.current, it.load, it.weight, it.use, it.room,
            it.space.kind, it.space.enter,
        )  # fmt: skip

    def merge(self, moved: IntArray, expired: Callable[[], bool]) -> bool:
        """Two moves that meet on a node become one where that fits, so many at once that the clock is looked at in time."""
        first_on, following, done = np.full(self.instance.nodes, -1), np.full(self.place.size, -1), False
        arrivals(moved, first_on, following, self.sums())
        most = max(1, 5_000_000 * self.instance.nodes // max(moved.size, 1))
        for at in range(0, moved.size, most):
            done = bool(merge(moved[at : at + most], first_on, following, self.sums())) or done
            if expired():
                break
        return done

    def send(self, k: int, target: int) -> bool:
        """Put a key group on a node; whether every node stays in range."""
        return bool(carried(k, target, self.sums()))

    def drain(self, expired: Callable[[], bool]) -> None:
        """Move key groups off draining nodes while moves, cost and time are left."""
        it = self.instance
        away = self.place != it.current
        moves, cost = it.max_moves - int(away.sum()), it.max_cost - float(it.cost[away].sum())
        waiting = it.space.movers[(it.draining[self.place] & ~away)[it.space.movers]]
        for k in waiting[np.lexsort((waiting, -it.load[waiting]))]:
            if moves <= 0 or expired():
                break
            if it.cost[k] > cost:
                continue
            closed = it.draining | ~it.space.enter[it.space.kind[k]]
            room = np.where(closed, math.inf, self.deviation + it.load[k] * it.weight)
            if any(self.send(int(k), int(target)) for target in np.argsort(room, kind="stable")[: self._roomy(room)]):
                moves -= 1
                cost -= float(it.cost[k])

    def _roomy(self, deviation: FloatArray) -> int:
        """How many nodes stay in range."""
        return int((deviation <= self.highest).sum())

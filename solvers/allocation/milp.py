"""Key-group allocation, exactly and anytime: our own search and bounds first, then an engine for the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.workload import IntArray

if TYPE_CHECKING:
    from keyshift.solvers.allocation.planning import Planner
    from keyshift.solvers.allocation.search import Round, Search

PROVEN = 5e-7
"""An objective within so much of the mean of the bound is optimal; half of what `Problem.tolerance` grants."""
SECOND_STAGE_PAIRS = 3_000
"""The second stage is solved for so many (key group, node) pairs at most."""
SECOND_STAGE_EFFORT = 5.0
"""Deterministic seconds for it."""
SMALL = 300
"""Instances of so few (key group, node) pairs go to CP-SAT at once."""
STEPS = (6_000_000, 200_000_000, 5_000)
"""Steps of our own search before the engine takes over: at least, at most, and for each pair."""
TARGETS = (0.5, 0.75, 0.25, 0.9, 0.02, 0.6, 0.35, 0.97, 0.1)
"""Where between the bound and the best distance the plans aim, in turns."""
PLANNED_STEPS = 150_000
"""Steps that realise a plan."""
CPSAT_EFFORT = 20.0
"""Deterministic seconds that CP-SAT gets before HiGHS takes over."""
ENGINE_PAIRS = 20_000
"""Beyond so many pairs the engine takes over only when there is no time limit: the search uses the time better."""


def solve_milp(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
    second_stage: bool = True,
) -> Answer:
    """Minimise the load distance, then the two one-sided deviations, and prove it where possible; anytime.

    1. A lower bound by counting departures and arrivals (`keyshift.solvers.allocation.counts`), in milliseconds.
    2. Rounds of annealing over lists of moves (`keyshift.solvers.allocation.search`), in turns with plans: the counts of
       every node for a target distance, realised and polished (`keyshift.solvers.allocation.planning`).
    3. CP-SAT on the declarative statement, from the best answer, for a while; then HiGHS, until it is proven.

    Every phase ends early when objective and bound meet. No Pyomo model is built.

    Parameters
    ----------
    threads : int, default 1
        Threads for the third phase; more than one may return another of several optima from run to run.
    second_stage : bool, default True
        Among assignments of the least load distance look for the least ``deviation_sum``: proven by CP-SAT where
        the first stage is proven on at most `SECOND_STAGE_PAIRS` (key group, node) pairs, as
        ``details["second_stage"]`` says; otherwise only ties among the answers found are broken by it.

    Notes
    -----
    A run that ends by proof repeats itself exactly by seed: rounds are counted in steps, not in seconds.
    """
    run = _Run(problem, budget, seed)
    run.offer(start)
    run.offer(problem.workload.current)
    if problem.allowed.sum() > SMALL and not budget.expired:
        run.search()
    if not run.done:
        run.engine(threads)
    if second_stage and (run.proven or run.stopped) and not budget.expired:
        run.second_stage()
    return run.answer()


@dataclass
class _Run:
    """The best assignment and the best bound so far, and the phases that improve them."""

    problem: KeyGroupAllocation
    budget: Budget
    seed: int
    best: IntArray | None = None
    objective: float = math.inf
    deviation_sum: float = math.inf
    bound: float = 0.0
    infeasible: str = ""
    stopped: bool = False  # HiGHS ended by proof, within its tolerances
    details: dict[str, object] = field(default_factory=dict)

    @property
    def proven(self) -> bool:
        """Whether objective and bound have met."""
        return self.objective - self.bound <= PROVEN * self.problem.scale

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do, or no time."""
        return self.proven or bool(self.infeasible) or self.budget.expired

    def offer(self, assignment: IntArray | None, note: str = "") -> bool:
        """Keep an assignment if it passes the check and is better."""
        if assignment is None:
            return False
        report = self.problem.check(assignment)
        rank = (report.objective, report.metrics["deviation_sum"])
        if not report.feasible or rank >= (self.objective, self.deviation_sum):
            return False
        self.best = np.asarray(assignment).copy()
        self.objective, self.deviation_sum = rank
        self.budget.report(objective=self.objective, note=note)
        return True

    def raise_bound(self, bound: float, note: str) -> None:
        """Keep a bound if it is higher."""
        if bound > self.bound:
            self.bound = bound
            self.budget.report(bound=bound, note=note)

    def search(self) -> None:
        """Phases 1 and 2."""
        from keyshift.solvers.allocation.counts import CountBound
        from keyshift.solvers.allocation.instance import Instance
        from keyshift.solvers.allocation.planning import Planner
        from keyshift.solvers.allocation.search import Search

        instance = Instance(self.problem)
        counts = CountBound(instance)
        low = counts.bound()
        if math.isinf(low):
            self.infeasible = "so few migrations cannot bring every node within its capacity"
            return
        self.raise_bound(low * self.problem.scale, "counts")
        self.details["count_bound"] = low * self.problem.scale
        if self.done:
            return
        if instance.max_moves == 0 or instance.nodes == 1:
            return
        search = Search(instance, self.seed)
        least, most, for_each = STEPS
        steps = min(most, max(least, int(self.problem.allowed.sum()) * for_each))
        endless = math.isfinite(self.budget.time_limit) and self.problem.allowed.sum() > ENGINE_PAIRS
        planner = Planner(instance, counts, self.seed)
        turn = done = 0
        while not self.done and (done < steps or endless):
            if planner.useful and turn % 2 == 1:
                done += self._plan_once(search, planner, turn)
            else:
                todo = search.schedule(turn)
                done += self._anneal(
                    search, instance.home if todo.fresh or self.best is None else self.best, todo, turn
                )
            turn += 1
        self.details["rounds"] = turn

    def _plan_once(self, search: Search, planner: Planner, turn: int) -> int:
        """Aim between the bound and the best distance, realise the plan and polish it; how many steps that took."""
        low = self.bound / self.problem.scale
        high = search.instance.distance(search.instance.home if self.best is None else self.best)
        target = low + (high - low) * TARGETS[turn // 2 % len(TARGETS)]
        pairs = planner.pairs(target, np.random.default_rng([self.seed, turn]))
        if pairs is None:
            return PLANNED_STEPS
        if turn % 3 == 0 and pairs[:, 0].any():  # arrivals are the departures of plans, not of everybody
            planner.sample(planner.pool_of(pairs), turn)
        found = planner.realise(pairs, target, PLANNED_STEPS, turn)
        if found is not None:
            self.offer(found, "planned")
            self._anneal(search, found, search.polish, turn)
        return 2 * PLANNED_STEPS

    def _anneal(self, search: Search, start: IntArray, todo: Round, turn: int) -> int:
        """One round of search, in chunks short enough to heed the time limit; how many steps it took."""
        search.begin(start, turn)
        done = 0
        while done < todo.steps and not self.done:
            chunk = min(search.chunk, todo.steps - done)
            first, last = (todo.hot * (todo.cold / todo.hot) ** (at / todo.steps) for at in (done, done + chunk))
            value = math.inf if self.best is None else search.instance.distance(self.best)
            self.offer(search.run(chunk, first, last, value, todo.doublings), "annealed")
            done += chunk
        return done

    def engine(self, threads: int) -> None:
        """Phase 3: CP-SAT for a while from the best answer, then HiGHS."""
        from keyshift.models.allocation.cpsat_model import AllocationCpSat
        from keyshift.solvers import cpsat

        statement = AllocationCpSat(self.problem)
        if self.best is not None:
            statement.set_start(self.best)

        def report(objective: float, bound: float) -> None:
            self.budget.report(objective / float(statement.unit), max(self.bound, bound / float(statement.unit)))

        outcome = cpsat.minimise(
            statement.model, self.budget, seed=self.seed, threads=threads, report=report,
            max_deterministic_time=CPSAT_EFFORT,
        )  # fmt: skip
        if outcome.termination == "infeasible":
            self.infeasible = "CP-SAT proves that no assignment meets all limits"
            return
        self.raise_bound(statement.bound(outcome.solver.best_objective_bound), "CP-SAT")
        if outcome.found:
            self.offer(statement.assignment(outcome.solver.boolean_value), "CP-SAT")
        self.details["branches"] = outcome.solver.num_branches
        if not self.done:
            self._highs(threads)

    def _highs(self, threads: int) -> None:
        """The same by HiGHS, which now and then proves what CP-SAT cannot."""
        from keyshift.solvers.allocation.statements import solve_highs

        answer = solve_highs(self.problem, budget=self.budget, seed=self.seed, start=self.best, threads=threads)
        if answer.termination == "infeasible":
            self.infeasible = answer.message
            return
        self.offer(answer.assignment, "HiGHS")
        if answer.bound is not None:
            self.raise_bound(answer.bound, "HiGHS")
        self.stopped = answer.termination == "optimal"

    def second_stage(self) -> None:
        """Among the assignments of this load distance, one of least deviation_sum."""
        if self.best is None or self.problem.allowed.sum() > SECOND_STAGE_PAIRS:
            return
        from keyshift.models.allocation.cpsat_model import AllocationCpSat
        from keyshift.solvers import cpsat

        statement = AllocationCpSat(self.problem, "deviation_sum", max_distance=self.objective)
        statement.set_start(self.best)
        outcome = cpsat.minimise(
            statement.model, self.budget, seed=self.seed, max_deterministic_time=SECOND_STAGE_EFFORT
        )
        if not outcome.found:
            return
        other = statement.assignment(outcome.solver.boolean_value)
        report = self.problem.check(other)
        within = report.feasible and report.objective <= self.objective + 1e-9 * self.problem.scale
        if within and report.metrics["deviation_sum"] < self.deviation_sum - 1e-9 * self.problem.scale:
            self.best, self.deviation_sum = other, report.metrics["deviation_sum"]
        self.details["second_stage"] = "optimal" if outcome.termination == "optimal" and within else "feasible"

    def answer(self) -> Answer:
        """What the run is worth."""
        if self.infeasible and self.best is None:
            return Answer(None, termination="infeasible", message=self.infeasible)
        termination = "optimal" if self.proven or self.stopped else self.budget.why
        return Answer(self.best, self.bound, termination, details=self.details)

"""Mixed routing exactly: Lagrangian prices decide most keys, HiGHS or CP-SAT the few that are left."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Threads, Whole
from keyshift.models.base.pyomo import errors
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.choices import Choices, records_of
from keyshift.models.workload import IntArray
from keyshift.solvers import highs
from keyshift.solvers.checked import NO_ASSIGNMENT, kept, within
from keyshift.solvers.routing.lagrangian import Dual, Relaxation, RoutingSettings, maximise
from keyshift.solvers.routing.large_keys import LargeKeys, singled_out
from keyshift.solvers.routing.rounding import local_search, on_grid, rounded

# HiGHS and CP-SAT on some (record, node) pairs of mixed routing, all other records decided -----------------------------

TIGHT = {"mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9}
"""The check allows 1e-9 of the mean load: HiGHS's usual 1e-6 would let through what it refuses."""
_Solver = Callable[..., Answer]
"""Runs a solver on some choices; its answer's assignment is one of all keys."""


def by_highs(choices: Choices, budget: Budget, known: IntArray | None, most: float, **settings: Any) -> Answer:
    """HiGHS on these choices, from a known assignment; states above `most`, what that one moves, count as little more."""
    with off_clock():
        from keyshift.models.routing.pyomo_model import RoutingPyomo

    return _on(
        choices,
        highs.solve,
        RoutingPyomo,
        choices.state_unit,
        most,
        budget=budget,
        start=known,
        options=TIGHT,
        **settings,
    )


def by_cpsat(choices: Choices, budget: Budget, known: IntArray | None, most: float, **settings: Any) -> Answer:
    """As `by_highs`, with CP-SAT on integer loads and states."""
    with off_clock():
        from keyshift.models.routing.cpsat_model import RoutingCpSat
        from keyshift.solvers import cpsat

    return _on(choices, cpsat.solve, RoutingCpSat, most, budget=budget, start=known, **settings)


def _on(
    choices: Choices, solve: _Solver, make: Callable[..., Any], *given: Any, budget: Budget, start: IntArray | None,
    **settings: Any,
) -> Answer:  # fmt: skip
    """A solver's answer; where every record is decided there is one assignment to look at."""
    if choices.record.size == 0:
        only = choices.assignment(np.zeros(0, dtype=np.int64))
        if choices.problem.violations(only):
            return Answer(None, termination="infeasible")
        return Answer(only, choices.problem.objective(only), "optimal")
    try:
        statement = within(budget, lambda: make(choices, *given))
    except errors.InfeasibleConstraintException:
        return Answer(None, termination="infeasible")
    return Answer(start, None, budget.why) if statement is None else solve(statement, budget, start, **settings)


TOLERATED = ("theta_max",)
"""Rules that a solver breaks by its tolerances."""


def solve_milp(
    problem: MixedRouting,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
    largest: Whole = 60_000,
) -> Answer:
    """The optimum by HiGHS, from a warm start, after the Lagrangian bound has closed what cannot matter.

    1. Keys alike become one record; the Lagrangian dual bounds the optimum from below (O(records) a round).
    2. Overloaded nodes shed what they must, the cheapest first, at some prices of an entry: assignments beside the start.
    3. Pairs whose reduced cost exceeds the gap between the two are closed: no better assignment uses them.
    4. What is open, if it has at most `largest` pairs, goes to HiGHS until proven - under rules to CP-SAT -; else the bound
       stands as it is.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    largest : int, default 60,000
        Open pairs up to which the remaining program is attempted.

    Notes
    -----
    The bound is the larger of the Lagrangian one and, for the last program, the smaller of HiGHS's dual bound
    (less its doubt, `models.answer`) and the best assignment. Where all states are multiples of a unit, it
    is rounded up to the next multiple.
    """
    return _OpenKeys(problem, by_highs, budget, seed, threads, largest).run(start)


def solve_cpsat(
    problem: MixedRouting,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
    largest: Whole = 60_000,
) -> Answer:
    """As `solve_milp`, with CP-SAT on integer loads and states in place of HiGHS.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    largest : int, default 60,000
        Open pairs up to which the remaining program is attempted.
    """
    return _OpenKeys(problem, by_cpsat, budget, seed, threads, largest).run(start)


def lp_bound(problem: MixedRouting, *, budget: Budget, seed: int = 0) -> Answer:
    """The value of the linear relaxation, as the Lagrangian dual: a bound, no assignment; fit for a million keys.

    Where all states are multiples of a unit, it is rounded up to the next multiple.
    """
    dual = maximise(Relaxation(problem, records_of(problem)), budget, seed, budget.tuned(RoutingSettings).rounds)
    if dual.excludes_everything(problem):
        return Answer(
            None, termination="infeasible", message="no assignment meets all limits, not even with divisible keys"
        )
    ended: Termination = budget.why if budget.expired else "completed"
    details = {"rounds": dual.rounds, "converged": dual.converged}
    return Answer(None, on_grid(problem, dual.bound), ended, details=details)


class _OpenKeys:
    """The steps that both exact methods share."""

    def __init__(
        self,
        problem: MixedRouting,
        solver: _Solver,
        budget: Budget,
        seed: int,
        threads: int,
        largest: int,
    ) -> None:
        self.problem, self.solver, self.budget = problem, solver, budget
        self.seed, self.threads, self.largest = seed, threads, largest
        self.settings = budget.tuned(RoutingSettings)
        self.relaxation = Relaxation(problem, records_of(problem))
        self.best: IntArray | None = None
        self.value = np.inf
        self.details: dict[str, Any] = {"records": self.relaxation.keys.size}

    def run(self, start: IntArray | None) -> Answer:
        if self.problem.rules:
            part = self.budget.part(self.settings.searched)
            start = local_search(self.problem, budget=part, seed=self.seed, start=start).assignment
        self._offer(start, None)
        dual = maximise(self.relaxation, self.budget.part(0.5), self.seed, self.settings.rounds)
        self.details |= {"lagrangian_bound": dual.bound, "rounds": dual.rounds}
        if dual.excludes_everything(self.problem):
            return Answer(
                None,
                termination="infeasible",
                message="no assignment meets all limits, not even with divisible keys",
            )
        bound = on_grid(self.problem, dual.bound)
        if not (self._proven(bound) or self.budget.expired):
            self._round()
        if (needed := self._entries_needed()) > self.problem.table_limit:
            said = f"no table of {self.problem.table_limit} entries keeps the load limits: they need {needed} at least"
            return Answer(None, termination="infeasible", message=said, details=self.details)
        if self._proven(bound):
            return self._answer(bound, "optimal")
        if self.budget.expired:
            return self._answer(bound, self.budget.why)
        return self._finish(dual, bound)

    def _entries_needed(self) -> int:
        """Entries that any answer needs, where no answer is known and the table may be too small for one; else 0."""
        if self.best is not None or self.problem.table_limit >= self.problem.workload.key_groups:
            return 0
        return fewest_entries(self.problem.averaged(), self.budget.part(0.5), self.seed, self.problem.table_limit)

    def _offer(self, assignment: IntArray | None, but: Collection[str] | None = TOLERATED) -> bool:
        """Keep an assignment if it is feasible and better; whether it is feasible. `but` is for `kept`."""
        if assignment is None or not kept(self.problem, assignment, but):
            return False
        value = self.problem.objective(assignment)
        if value < self.value:
            self.best, self.value = assignment, value
            self.budget.report(objective=value, note="better assignment")
        return True

    def _proven(self, bound: float) -> bool:
        return self.best is not None and self.value - bound <= 0.5 * self.problem.tolerance_of(self.value)

    def _allowance(self, dual: Dual) -> float:
        """Reduced cost above which a pair cannot be part of anything better, in shares of the total state."""
        if self.best is None:
            return np.inf
        return (self.value - dual.bound) / self.problem.scale + 1e-9

    def _round(self) -> None:
        """Offer what nodes that only shed their excess come to."""
        for assignment in rounded(self.problem.averaged(), self.relaxation.keys, self.budget):
            if self._offer(assignment, None):
                break

    def _finish(self, dual: Dual, bound: float) -> Answer:
        """Solve what reduced costs leave open; if it is too much, say so and keep the bound."""
        allowance = self._allowance(dual)
        left = self.relaxation.count_open(dual.prices, allowance)
        self.details["open_pairs"] = left
        if left > self.largest:
            said = (
                f"{left} (key class, node) pairs stay open, more than largest = {self.largest}: "
                "the bound is the Lagrangian one"
            )
            return self._answer(bound, "gap", said)
        if self.problem.rules:  # HiGHS's program of all that rules leave open says nothing for long
            self.solver = by_cpsat
        before, settings = self.value, {"seed": self.seed, "threads": self.threads}
        choices = self.relaxation.open_choices(dual.prices, allowance)
        outcome = self.solver(choices, self.budget, self.best, before, **settings)
        self.details |= outcome.details
        refused = outcome.assignment is not None and not self._offer(outcome.assignment)
        if self.solver is by_highs and (outcome.termination == "infeasible" or refused):
            # HiGHS's tolerances let an overload through, or shut everything out: whole numbers do neither.
            outcome = by_cpsat(choices, self.budget, self.best, before, **settings)
            self._offer(outcome.assignment)
        if outcome.termination == "infeasible":
            if self.best is None:
                return Answer(None, termination="infeasible", message=f"the solver proves that {NO_ASSIGNMENT}")
            return self._answer(self.value, "optimal")  # nothing better is left
        bound = max(bound, on_grid(self.problem, min(outcome.bound or 0.0, self.value)))
        if outcome.termination == "optimal" and not self._proven(bound):
            if self.value < before / 8:
                return self._finish(dual, bound)  # its last digits count now
            if self.solver is by_highs:
                self.solver = by_cpsat
                return self._finish(dual, bound)
        return self._answer(bound, outcome.termination)

    def _answer(self, bound: float, termination: Termination, message: str = "") -> Answer:
        return Answer(self.best, min(bound, self.value), termination, message, self.details)


# How few exceptions a routing table can have: counted node by node, with the few large keys placed exactly -------------


def fewest_entries(problem: MixedRouting, budget: Budget, seed: int = 0, most: int | None = None) -> int:
    """A lower bound on the table's size that any answer needs, whatever moves: `LargeKeys`, from where the hash puts everything.

    Parameters
    ----------
    most : int, optional
        Where divisible large keys need more entries already, that figure is returned: weak duality, nobody's word.

    Notes
    -----
    Else the figure rests on HiGHS's dual bound, rounded up after a ten-thousandth of an entry is taken off.
    """
    records = records_of(problem)
    keys, large = singled_out(replace(records, current=records.home), problem.upper)
    program = LargeKeys(Relaxation(problem, keys), large).program()
    if most is not None:
        relaxed, _ = highs.relaxation_bound(program, budget, seed)
        if relaxed is not None and math.ceil(relaxed - 1e-4) > most:
            return math.ceil(relaxed - 1e-4)
    # Its presolve errs where limits are as near to each other as rounding.
    result = highs.minimise(program, budget, seed=seed, options={"presolve": "off"})
    if not math.isfinite(result.bound):
        return 0
    return max(0, math.ceil(result.bound - 1e-4))

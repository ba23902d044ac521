"""Mixed routing exactly: Lagrangian prices decide most keys, HiGHS or CP-SAT the few that are left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Threads, Whole
from keyshift.models.base.pyomo import errors
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import Choices, CompactKeys, records_of
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers import highs
from keyshift.solvers.checked import NO_ASSIGNMENT, kept, within
from keyshift.solvers.conductor import Component, Incumbent, conduct
from keyshift.solvers.routing.lagrangian import Dual, Relaxation, maximise
from keyshift.solvers.routing.rounding import local_search, on_grid, rounded
from keyshift.solvers.safe_bounds import LinearProgram, LinearRows
from keyshift.solvers.tuning import RoutingSettings


def singled_out(keys: CompactKeys, upper: FloatArray) -> tuple[CompactKeys, IntArray]:
    """The same keys with each large one on a full node a record of its own, and which records these are.

    Large are at most forty keys, each above a fiftieth of the highest limit.
    """
    full = np.bincount(keys.current, keys.load * keys.count, upper.size) > upper
    by_load = np.argsort(-keys.load, kind="stable")
    by_load = by_load[full[keys.current[by_load]] & (keys.load[by_load] > 0.02 * upper.max())]
    by_load = by_load[np.cumsum(keys.count[by_load]) <= 40]
    large = np.zeros(keys.size, dtype=bool)
    large[by_load] = True
    origin = np.repeat(np.arange(keys.size), np.where(large, keys.count, 1))
    count = np.where(large[origin], 1, keys.count[origin])
    split = CompactKeys(
        keys.current[origin], keys.home[origin], keys.load[origin], keys.state[origin], count, keys.members
    )
    return split, np.flatnonzero(large[origin])


class LargeKeys:
    r"""A relaxation of mixed routing in which only the large keys k in B are whole, and only the table counts.

    They are placed by :math:`x_{ki}`. The small keys now on node i shed load :math:`s_i` for :math:`y_i` entries; what
    they shed is a pool, of which node i takes :math:`w_i`. In units of the mean load :math:`\bar L`:

    .. math:: \min \; & \sum_i y_i + \sum_{k \in B} \sum_{i \ne h_k} x_{ki} \quad \text{subject to} \\
              (1) \quad & \textstyle\sum_i x_{ki} = 1 \quad \text{for every large key } k, \\
              (2) \quad & \textstyle B_i \le \sum_k c_k x_{ki} + T_i - s_i + w_i \le U_i \quad \text{for every node } i, \\
              (3) \quad & \textstyle\sum_i s_i = \sum_i w_i, \\
              (4) \quad & y_i \ge g_i(s_i) \quad \text{for every node}

    with :math:`g_i` the fewest entries at which node i's small keys, each in any part, shed so much: the cheapest by unit of load
    first, convex and piecewise linear, replaced by tangents. A key that is off its hash already gives its entry back when it
    leaves, as if it went home; where it really goes is left out. The entries :math:`y_i` are whole.

    Parameters
    ----------
    relaxation : Relaxation
        Its records, limits and units.
    large : ndarray of int
        Records placed exactly, of one key each.
    """

    def __init__(self, relaxation: Relaxation, large: IntArray) -> None:
        self.relaxation, self.large, self.n = relaxation, large, relaxation.upper.size
        self.nodes = [SmallKeys.of(relaxation, large, i) for i in range(self.n)]
        lines = [(i, *line) for i, node in enumerate(self.nodes) for line in zip(*node.tangents(), strict=True)]
        self.lines = np.array(lines, dtype=np.float64).reshape(-1, 3)

    def program(self) -> LinearProgram:
        """The relaxation as matrices. Columns: x, large key by large key; then s, y and w of every node."""
        r, n, large = self.relaxation, self.n, self.large.size
        x, node = np.arange(large * n).reshape(large, n), np.arange(n)
        s, y, w = (x.size + part * n + node for part in range(3))
        total, keys = (np.array([getattr(small, name) for small in self.nodes]) for name in ("total", "keys"))
        one, each, rows = np.ones(large), np.ones(n), LinearRows(x.size + 3 * n)
        rows.add(np.repeat(np.arange(large), n), x.ravel(), np.ones(x.size), one, one)  # (1)
        rows.add(
            np.concatenate([np.tile(node, large), node, node]), np.concatenate([x.ravel(), s, w]),
            np.concatenate([np.repeat(r.load[self.large], n), -each, each]), r.lower - total, r.upper - total,
        )  # (2)  # fmt: skip
        none = np.zeros(1)
        rows.add(np.zeros(2 * n, dtype=np.int64), np.concatenate([s, w]), np.repeat([1.0, -1.0], n), none, none)  # (3)
        of, slope, height = self.lines.T
        at, line = of.astype(np.int64), np.arange(of.size)
        weight, above = np.concatenate([np.ones(of.size), -slope]), np.full(of.size, np.inf)
        rows.add(np.tile(line, 2), np.concatenate([y[at], s[at]]), weight, height, above)  # (4)
        cost, least, most, whole = np.zeros((4, rows.columns))
        cost[x], cost[y] = node != r.home[self.large][:, None], 1.0
        least[s] = np.where(r.kept, 0.0, total)
        most[x], most[s], most[y], most[w] = r.kept, total, keys, np.where(r.kept, r.upper, 0.0)
        whole[x], whole[y] = True, True
        limits = np.concatenate(rows.lower), np.concatenate(rows.upper)
        return LinearProgram(cost, 0.0, rows.matrix(), *limits, least, most, whole.astype(bool))


# The entries of shedding a node's small keys, each in any part: convex, piecewise linear, and lines under it ------------


@dataclass
class SmallKeys:
    """The small keys now on one node: load, count, and whether leaving takes an entry or gives one back."""

    load: FloatArray
    count: IntArray
    entry: FloatArray
    total: float
    keys: float

    @classmethod
    def of(cls, r: Relaxation, large: IntArray, i: int) -> SmallKeys:
        on = r.current == i
        on[large] = False
        load, count = r.load[on], r.keys.count[on]
        return cls(load, count, np.where(r.home[on] == i, 1.0, -1.0), float(load @ count), float(count.sum()))

    def _falling(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Entries by unit of load, ascending; load shed, and entries, before each record leaves, and at the end."""
        held = float(self.count[self.entry < 0].sum())  # entries of those that are off their hash
        loaded = self.load > 0
        held += float((np.minimum(self.entry, 0.0) * self.count)[~loaded].sum())
        entry, load, count = self.entry[loaded], self.load[loaded], self.count[loaded]
        order = np.argsort(entry / load, kind="stable")
        shed = np.concatenate([[0.0], np.cumsum((load * count)[order])])
        paid = held + np.concatenate([[0.0], np.cumsum((entry * count)[order])])
        return (entry / load)[order], shed, paid

    def tangents(self) -> tuple[FloatArray, FloatArray]:
        """Slopes, and heights at s = 0, of lines under the entries: until no two lines meet more than three below."""
        slope, shed, paid = self._falling()
        if slope.size == 0:
            return np.zeros(0), np.zeros(0)
        at = np.unique(np.geomspace(1, slope.size, 12).astype(np.int64) - 1)
        for _ in range(8):
            left, right = at[:-1], at[1:]
            with np.errstate(all="ignore"):  # loads may be so far apart that slopes overflow: these gaps stay
                rise = paid[right] - paid[left] - slope[left] * (shed[right] - shed[left])
                meet = shed[right] - rise / (slope[right] - slope[left])
                leaves = np.clip(np.searchsorted(shed, meet, side="right") - 1, left, right)
                ahead = slope[leaves] * (meet - shed[leaves]) - slope[left] * (meet - shed[left])
                below = paid[leaves] - paid[left] + ahead
            more = np.union1d(at, leaves[below > 3.0])
            if more.size == at.size:
                break
            at = more
        chosen, first = np.unique(slope[at], return_index=True)
        where = at[first]
        height = paid[where] - chosen * shed[where]
        return chosen, height - 1e-12 * (1 + np.abs(paid[where]) + np.abs(chosen) * shed[where])


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
    """The optimum by the conductor (`keyshift.solvers.conductor`), which gives turns to these components:

    - *bound*: keys alike become one record; the Lagrangian dual bounds the optimum from below (O(records) a round). Then
      overloaded nodes shed what they must, the cheapest first, at some prices of an entry: assignments beside the start.
    - *HiGHS* and *CP-SAT* on what is open: pairs whose reduced cost exceeds the gap between the two are closed, since no better
      assignment uses them. Under rules CP-SAT alone.
    - *search*: single keys, swaps and exchanges, annealed (`local_search`).

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    largest : int, default 60,000
        Open pairs up to which the remaining program is attempted.

    Notes
    -----
    The bound is the larger of the Lagrangian one and, for the last program, the smaller of HiGHS's dual bound
    (less its error bound, `models.answer`) and the best assignment. Where all states are multiples of a unit, it
    is rounded up to the next multiple.
    """
    return RoutingPortfolio(problem, budget, seed, threads, largest, start).run(
        by_cpsat if problem.rules else by_highs, by_cpsat
    )


def solve_cpsat(
    problem: MixedRouting,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
    largest: Whole = 60_000,
) -> Answer:
    """As `solve_milp`, with CP-SAT alone, on integer loads and states; it searches only under rules.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    largest : int, default 60,000
        Open pairs up to which the remaining program is attempted.
    """
    return RoutingPortfolio(problem, budget, seed, threads, largest, start).run(by_cpsat)


NOTHING = "no assignment meets all limits, not even with divisible keys"


def lp_bound(problem: MixedRouting, *, budget: Budget, seed: int = 0) -> Answer:
    """The value of the linear relaxation, as the Lagrangian dual: a bound, no assignment; fit for a million keys.

    Where all states are multiples of a unit, it is rounded up to the next multiple.
    """
    dual = maximise(Relaxation(problem, records_of(problem)), budget, seed, budget.tuned(RoutingSettings).rounds)
    if dual.excludes_everything(problem):
        return Answer(None, termination="infeasible", message=NOTHING)
    ended: Termination = budget.why if budget.expired else "completed"
    details = {"rounds": dual.rounds, "converged": dual.converged}
    return Answer(None, on_grid(problem, dual.bound), ended, details=details)


class RoutingPortfolio:
    """The components of the exact methods for one instance, around one incumbent."""

    def __init__(
        self, problem: MixedRouting, budget: Budget, seed: int, threads: int, largest: int, start: IntArray | None
    ) -> None:
        self.problem, self.seed, self.threads, self.largest = problem, seed, threads, largest
        self.settings = budget.tuned(RoutingSettings)
        self.found = Incumbent(problem, budget, next_value=partial(on_grid, problem))
        self.relaxation = Relaxation(problem, records_of(problem))
        self.found.details["records"] = self.relaxation.keys.size
        self.found.add_solution(start)
        self.dual: Dual | None = None

    def run(self, *solvers: _Solver) -> Answer:
        """All components, with these solvers."""
        ruled = bool(self.problem.rules)
        made = [Component("bound", self.bound_turns())]
        if ruled or (len(solvers) > 1 and self.problem.workload.key_groups <= self.settings.searched):
            made.insert(0 if ruled else 1, Component("search", self.search_turns()))
        names = {by_highs: "HiGHS", by_cpsat: "CP-SAT"}
        made += [Component(names[each], self.solver_turns(each, names[each])) for each in dict.fromkeys(solvers)]
        conduct(self.found, made)
        return self.found.answer()

    def bound_turns(self) -> Iterator[None]:
        """The Lagrangian dual, and what rounding makes of the nodes' excess; whether the table has room for any answer."""
        found, problem = self.found, self.problem
        dual = self.dual = maximise(self.relaxation, found.budget, self.seed, self.settings.rounds)
        found.details |= {"lagrangian_bound": dual.bound, "rounds": dual.rounds}
        if dual.excludes_everything(problem):
            found.infeasible = NOTHING
            return
        found.raise_bound(dual.bound, "Lagrangian relaxation")
        if not found.done:
            for assignment in rounded(problem.averaged(), self.relaxation.keys, found.budget):
                if found.add_solution(assignment, "rounded"):
                    break
        if found.best is None and problem.table_limit < problem.workload.key_groups:
            needed = fewest_entries(problem.averaged(), found.budget, self.seed, problem.table_limit)
            if needed > problem.table_limit:
                found.infeasible = (
                    f"no table of {problem.table_limit} entries keeps the load limits: they need {needed} at least"
                )
        yield

    def search_turns(self) -> Iterator[None]:
        """Local search from the incumbent, again and again."""
        found, length, number = self.found, self.settings.first, 0
        while math.isfinite(found.budget.time_limit) or number == 0:
            turn = found.budget.turn(length)
            answer = local_search(self.problem, budget=turn, seed=self.seed + number, start=found.best, effort=2.0)
            found.add_solution(answer.assignment, "local search")
            number, length = number + 1, 2 * length if turn.expired else length
            yield

    def solver_turns(self, solver: _Solver, note: str) -> Iterator[None]:
        """A solver on what reduced costs leave open, for twice the work each time, until it is proven."""
        found, length = self.found, self.settings.first
        while True:
            choices = None if self.dual is None else self.open_choices(self.dual)
            if choices is None:
                yield
                continue
            turn, before = found.budget.turn(length), found.objective
            settings = {"seed": self.seed, "threads": self.threads}
            answer = solver(choices, turn, found.best, before, **settings)
            refused = answer.assignment is not None and not kept(self.problem, answer.assignment, TOLERATED)
            if solver is by_highs and (answer.termination == "infeasible" or refused):
                # HiGHS's tolerances let an overload through, or shut everything out: whole numbers do neither.
                answer = by_cpsat(choices, turn, found.best, before, **settings)
            if answer.termination == "infeasible":
                answer.message = f"the solver proves that {NO_ASSIGNMENT}"
            elif answer.bound is not None:  # nothing that is closed is better than the incumbent
                answer.bound = min(answer.bound, before)
            found.take(answer, note)
            if not turn.expired and found.objective >= before / 8:  # else its last digits count now
                return
            length *= 2
            yield

    def open_choices(self, dual: Dual) -> Choices | None:
        """The pairs that a better assignment may use; None where they are too many for a program."""
        allowance = np.inf
        if self.found.best is not None:  # in shares of the total state
            allowance = (self.found.objective - dual.bound) / self.problem.scale + 1e-9
        left = self.found.details["open_pairs"] = self.relaxation.count_open(dual.prices, allowance)
        return None if left > self.largest else self.relaxation.open_choices(dual.prices, allowance)


# How few exceptions a routing table can have: counted node by node, with the few large keys placed exactly -------------


def fewest_entries(problem: MixedRouting, budget: Budget, seed: int = 0, most: int | None = None) -> int:
    """A lower bound on the table's size that any answer needs, whatever moves: `LargeKeys`, from where the hash puts everything.

    Parameters
    ----------
    most : int, optional
        Where divisible large keys need more entries already, that figure is returned: it rests on weak duality and on no solver.

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

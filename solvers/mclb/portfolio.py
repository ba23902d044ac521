"""MCLB's default: the components that the conductor gives turns to."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Whole
from keyshift.models.errors import InputError
from keyshift.models.mclb.problem import MCLB
from keyshift.models.rules.ruled import MergedItems
from keyshift.solvers.conductor import SHORTEST, Component, Incumbent, conduct, solver_turns
from keyshift.solvers.mclb.bounds import shared_squares, window_bound
from keyshift.solvers.mclb.local_search import search_turns
from keyshift.solvers.mclb.near_sets import NearMeanSets
from keyshift.solvers.mclb.sdp import RISE, climb, semidefinite_dual
from keyshift.solvers.mclb.statement import run_cpsat, solve_scip
from keyshift.solvers.tuning import MCLBSettings

FEW, WAITS = 1_000_000, 0.5
"""So many placements could all be looked at: CP-SAT comes first. Sets wait for the others to do so much of a turn's work."""


def branch_and_bound(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, max_tree: Whole | None = None
) -> Answer:
    """The optimum, given time; within a limit the best placement with the best bound.

    The conductor (`keyshift.solvers.conductor`) gives turns to these components, beside a bound window by window:

    - *search*: annealing and splits of two nodes, from the start, a greedy placement and the current nodes (`search_turns`).
    - *sets*: on a few nodes, dozens of key groups are settled by the sets of them that a node can hold (`NearMeanSets`).
    - *shares* and *semidefinite relaxation*: the continuous relaxation within a budget, and the one of who shares a node.
    - *CP-SAT* on the statement, first where few placements are possible, and soon where a budget leaves little to choose on two
      or three nodes. More key groups than `hopeless` leave the time within a limit to the search.
    - *SCIP*, where a budget keeps one window far from even.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Of local search and of the vectors that the semidefinite bound seeks its cuts from.
    start : ndarray, optional
        A known placement to improve on.
    max_tree : int, optional
        Look at so many nodes of the tree over sets at most, and let CP-SAT meet a hundred conflicts for each: the run ends by
        itself.

    Notes
    -----
    Under rules there are no sets, and the bounds leave rules out.
    """
    run = MCLBPortfolio(problem, budget, seed, max_tree)
    run.found.add_solution(start)
    conduct(run.found, run.components())
    return run.found.answer()


def tree_of_a_point(problem: MCLB) -> dict[str, int]:
    """The options of `branch_and_bound` at a point of a front."""
    return {"max_tree": MCLBSettings().point}


class MCLBPortfolio:
    """The components of "branch-and-bound" for one instance, around one incumbent.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed, max_tree
        As for `branch_and_bound`.
    """

    def __init__(self, problem: MCLB, budget: Budget, seed: int = 0, max_tree: int | None = None) -> None:
        self.problem, self.core, self.seed, self.max_tree = problem, problem.core, seed, max_tree
        self.settings, self.found = budget.tuned(MCLBSettings), Incumbent(problem, budget)

    def components(self) -> list[Component]:
        """The components that suit the instance."""
        core, settings, limited = self.core, self.settings, math.isfinite(self.found.budget.time_limit)
        load = MergedItems.of(self.problem.lowered).sums.T @ core.load if self.problem.rules else core.load
        hopeless = core.load.shape[0] > settings.hopeless
        few = few_placements(core.nodes, core.load.shape[0], FEW)
        effort = math.inf if limited and (hopeless or self.max_tree is None) else 1.0
        rise = 0.02 * RISE if math.isinf(effort) else RISE
        # This bound takes no time, and tells the search when to stop; of a million key groups it takes as long as a placement.
        bound = self.raised((window_bound(y, core.nodes) for y in (load.T,)), "windows")
        windows = Component("windows", bound, after=SHORTEST if hopeless else 0.0)
        search = Component("search", search_turns(self.found, self.seed, effort), 4.0 if hopeless else 2.0)
        made = [windows, search]
        # Of a dozen squares CP-SAT mostly proves at once what leaves sets too many ties.
        soon = core.limited and core.load.shape[0] <= settings.small and core.nodes * core.load.shape[1] <= 12
        first = SHORTEST / 4 if soon and not few else settings.first
        cpsat = solver_turns(self.found, self.by_cpsat, "CP-SAT", first)
        if few:
            return [windows, Component("CP-SAT", cpsat), search]
        if not self.problem.rules and NearMeanSets.suits(core):
            made.append(Component("sets", self.sets_turns(), 2.0))
        if self.for_scip and self.max_tree is None:
            made.append(Component("SCIP", self.scip_turns(), 2.0, settings.first))
        if core.limited:
            shares = self.raised(shared_squares(core, self.found.budget), "shares")
            made.append(Component("shares", shares, 0.5, 0.0 if hopeless else SHORTEST))
        size = core.load.shape[0] + core.nodes
        if core.nodes > 1 and size <= settings.largest:
            # Of many key groups annealing counts a quarter of its work, and this twice its own.
            made.append(
                Component(
                    "semidefinite relaxation",
                    self.semidefinite_turns(rise),
                    8.0 if hopeless else 1.0,
                    max(settings.first / 4, 2e-9 * size**3),
                )
            )
        if not (hopeless and limited):
            made.append(Component("CP-SAT", cpsat, 2.0 if self.for_cpsat else 1.0, first))
        return made

    @property
    def for_cpsat(self) -> bool:
        """Whether a budget and few squares of loads leave so little that CP-SAT closes in on it, and nothing else does."""
        p, windows = self.core.load.shape
        few = self.core.nodes <= 3 and windows <= 12
        return self.settings.small < p <= self.settings.hopeless and self.core.limited and few

    @property
    def for_scip(self) -> bool:
        """Whether a budget may keep one window far from even: then SCIP proves what no search finds."""
        p, windows = self.core.load.shape
        plain = self.core.limited and not self.problem.rules
        return plain and windows == 1 and p > self.settings.small and not self.for_cpsat

    # The components --------------------------------------------------------------------------------------------------

    def raised(self, squares: Iterator[float], note: str) -> Iterator[None]:
        """Bounds on n times the imbalance, as many at a turn as take its least work."""
        begun = self.found.budget.work
        for least in squares:
            self.found.raise_bound(least / self.core.nodes, note)
            if self.found.budget.work - begun > SHORTEST:
                yield
                begun = self.found.budget.work

    def semidefinite_turns(self, rise: float) -> Iterator[None]:
        """The semidefinite bound, in units of the incumbent."""
        best = None if self.found.best is None else self.core.nodes * self.found.objective
        dual = semidefinite_dual(self.core, best)
        yield from self.raised(climb(dual, self.found.budget, True, self.seed, rise), "semidefinite relaxation")

    def sets_turns(self) -> Iterator[None]:
        """Sets near the mean: all that a better placement can have, or the nearest of them; in turns that list them at least."""
        found, core, length, known = self.found, self.core, self.settings.first, math.inf
        sets: NearMeanSets | None = None
        while True:
            if found.best is not None and found.objective < known:  # there are fewer of them now
                better = NearMeanSets(
                    core, core.lower(found.best), self.margin * core.nodes, self.settings.most_numbers
                )
                sets, known = better if sets is None else better.after(sets), found.objective
                least = 1.5 * sets.listing
            # Under a budget a better placement than the first one leaves far fewer sets.
            waits = WAITS * (max(length, least) if core.limited else least)
            if sets is None or (found.budget.work < waits and not found.all_wait):
                yield
                continue
            turn, sets.lowest = found.budget.turn(max(length, least)), found.bound * core.nodes / sets.unit**2
            done = sets.run(turn, math.inf if self.max_tree is None else self.max_tree)
            found.details["tree_nodes"] = sets.visited
            found.add_solution(core.lift(core.relabelled(sets.best)), "sets")
            found.raise_bound(sets.bound / core.nodes, "sets")
            found.vouched |= done
            if not turn.expired:
                return
            length *= 2
            yield

    @property
    def margin(self) -> float:
        """What another placement must improve by: a share of the tolerance, far above the rounding of a sum of squares."""
        problem, least = self.problem, 1e-12 * self.core.current.size * self.problem.scale
        return max(self.settings.margin * max(problem.tolerance, problem.tolerance_of(self.found.objective)), least)

    def by_cpsat(self, turn: Budget) -> Answer:
        """CP-SAT on the statement, from the incumbent."""
        conflicts = {} if self.max_tree is None else {"max_number_of_conflicts": 100 * self.max_tree}
        return run_cpsat(self.problem, turn, self.found.best, seed=self.seed, **conflicts)

    def scip_turns(self) -> Iterator[None]:
        """SCIP on the statement, from the incumbent, once that is far from the bound."""

        def ask(turn: Budget) -> Answer:
            try:
                return solve_scip(self.problem, budget=turn, seed=self.seed, start=self.found.best)
            except InputError:  # now and then SCIP fails on a linear program of its own
                return Answer(None, None, "gap")

        found = self.found
        while found.objective - found.bound <= max(0.05 * self.problem.scale, 0.002 * found.bound):
            yield
        yield from solver_turns(found, ask, "SCIP", self.settings.first)


def few_placements(nodes: int, key_groups: int, most: int) -> bool:
    """Whether there are at most so many placements, by logarithms: of a million key groups the number has millions of digits."""
    return key_groups * math.log(nodes) <= math.log(most) + 1e-9

"""MCLB's default: local search, sets of key groups near the mean, bounds, and a solver for what they leave open."""

from __future__ import annotations

import math

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Whole
from keyshift.models.errors import InputError
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.workload import IntArray
from keyshift.solvers.mclb.bounds import shared_squares, window_bound
from keyshift.solvers.mclb.local_search import ItemCore, PlacementSearch, local_search
from keyshift.solvers.mclb.near_sets import NearMeanSets
from keyshift.solvers.mclb.sdp import semidefinite_squares
from keyshift.solvers.mclb.statement import run_cpsat, solve_cpsat, solve_scip
from keyshift.solvers.tuning import MCLBSettings


def branch_and_bound(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, max_tree: Whole | None = None
) -> Answer:
    """The optimum, given time; within a limit the best placement with the best root bound.

    1. Search: `PlacementSearch`, from a greedy placement, the current nodes and a start.
    2. On a few nodes, dozens of key groups are settled by the sets of them that a node can hold (`NearMeanSets`); where a budget
       leaves little to choose on two or three nodes, CP-SAT goes on from there; where it keeps one window far from even, SCIP.
    3. Bound: the continuous relaxation within a budget, and the semidefinite one.
    4. Exact: CP-SAT on the statement; without a limit it ends in a proof. More key groups than `hopeless` leave the time within
       a limit to the search.

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
    Under rules local search finds the placement, and the root bounds leave rules out.
    """
    settings, core = budget.tuned(MCLBSettings), problem.core
    size = core.load.shape[0]
    conflicts = {} if max_tree is None else {"max_number_of_conflicts": 100 * max_tree}
    if problem.rules:
        return _under_rules(problem, budget, seed, start, settings, conflicts)
    if core.nodes**size <= 1_000_000:  # every placement could be looked at
        few = {"max_number_of_conflicts": 100_000, **conflicts}
        answer = run_cpsat(problem, budget.part(0.5), start, seed=seed, **few)
        if answer.termination in ("optimal", "infeasible"):
            return answer
        start = answer.assignment
    root = window_bound(core.load.T, core.nodes) / core.nodes
    budget.report(bound=root)
    search = _Incumbent(problem, None if start is None else core.lower(start), settings)
    hopeless = size > settings.hopeless
    share = 3 * settings.by_search if hopeless and not _for_scip(core, settings) else settings.by_search
    search.improve(budget.part(share), seed, root + problem.tolerance_of(root), effort=1.0)
    answer = search.settle(budget, seed, root, max_tree)
    if answer.termination in ("optimal", "infeasible"):
        return answer
    root = answer.bound or root
    if not (search.proves(root) or budget.expired):
        root = search.raised(root, budget, seed)
    if not (search.proves(root) or math.isinf(budget.remaining)):
        search.improve(budget.part(1.0 if hopeless else 0.25), seed, root + problem.tolerance)
    best = None if search.best is None else core.lift(core.relabelled(search.best))
    if search.proves(root):
        return Answer(best, root, "optimal", details=search.details)
    if budget.expired:
        return Answer(best, root, budget.why, details=search.details)
    answer = run_cpsat(problem, budget, best, seed=seed, **conflicts)
    answer.bound = None if answer.termination == "infeasible" else max(root, answer.bound or 0.0)
    return answer


def _for_cpsat(core: Core, settings: MCLBSettings) -> bool:
    """Whether a budget and few squares of loads leave so little that CP-SAT closes in on it, where everything else is short."""
    p, windows = core.load.shape
    return settings.small < p <= settings.hopeless and core.limited and core.nodes <= 3 and windows <= 12


def _for_scip(core: Core, settings: MCLBSettings) -> bool:
    """Whether a budget may keep one window far from even: then SCIP proves what no search finds."""
    return (
        core.limited
        and core.load.shape[1] == 1
        and core.load.shape[0] > settings.small
        and not _for_cpsat(core, settings)
    )


def tree_of_a_point(problem: MCLB) -> dict[str, int]:
    """The options of `branch_and_bound` at a point of a front."""
    return {"max_tree": MCLBSettings().point}


def _under_rules(
    problem: MCLB,
    budget: Budget,
    seed: int,
    start: np.ndarray | None,
    settings: MCLBSettings,
    conflicts: dict[str, int],
) -> Answer:
    """Local search, the root bounds, CP-SAT; where no proof was ever seen, the search has what the bounds leave."""
    core = problem.core
    size = core.load.shape[0]
    hopeless = size > settings.hopeless
    start = local_search(problem, budget=budget.part(settings.by_search), seed=seed, start=start).assignment
    root = window_bound(ItemCore.of_items(problem).load.T, core.nodes) / core.nodes
    value = math.inf if start is None else problem.objective(start)
    if value - root > problem.tolerance and size + core.nodes <= settings.largest:
        enough = core.nodes * (value - problem.tolerance)
        reference = None if start is None else core.nodes * value
        part = budget.part(settings.bounding)
        squares = semidefinite_squares(core, part, reference=reference, enough=enough, seed=seed)
        root = max(root, squares / core.nodes)
        budget.report(bound=root)
    if value - root <= problem.tolerance:
        return Answer(start, root, "optimal")
    if hopeless and start is not None and math.isfinite(budget.remaining):
        found = local_search(problem, budget=budget, seed=seed + 1, start=start, effort=math.inf)
        return Answer(found.assignment, root, found.termination)
    answer = run_cpsat(problem, budget, start, seed=seed, **conflicts)
    answer.bound = None if answer.termination == "infeasible" else max(root, answer.bound or 0.0)
    return answer


class _Incumbent:
    """The best placement so far, and what betters it."""

    def __init__(self, problem: MCLB, best: IntArray | None, settings: MCLBSettings) -> None:
        self.problem, self.core, self.settings = problem, problem.core, settings
        self.best: IntArray | None = None
        self.value = math.inf
        self.details: dict[str, int] = {}
        self.take(best)
        self.local: PlacementSearch | None = None

    def proves(self, root: float) -> bool:
        """Whether a bound shows that nothing is better."""
        return self.value - root <= self.problem.tolerance

    def improve(self, budget: Budget, seed: int, enough: float, effort: float = math.inf) -> None:
        """Let local search begin, or go on, while time lasts and the imbalance is not `enough`."""
        if self.local is None:
            self.local = PlacementSearch(self.core, self.best, seed, self.settings, budget)
        elif self.best is not None:
            self.local.take(self.best)
        if self.take(self.local.go_on(budget, effort, enough * self.core.nodes)):
            budget.report(objective=self.value)

    def settle(self, budget: Budget, seed: int, root: float, max_tree: int | None) -> Answer:
        """Sets near the mean, then CP-SAT or SCIP, where one of them suits, from the best; what they find is taken over."""
        settings, core, problem = self.settings, self.core, self.problem
        stated = _for_cpsat(core, settings)
        if NearMeanSets.suits(core) and self.best is not None and not budget.expired:
            sets = NearMeanSets(core, self.best, self._margin() * core.nodes, settings.most_numbers)
            sets.lowest = root * core.nodes / sets.unit**2
            part = budget.part(settings.by_near_sets / 2 if stated else settings.by_near_sets)
            done = sets.run(part, 1_000 if max_tree is None else max_tree)
            self.details["tree_nodes"] = sets.visited
            self.take(sets.best)
            root = max(root, sets.bound / core.nodes)
            budget.report(objective=self.value, bound=root)
            if done:
                best = core.lift(core.relabelled(sets.best))
                return Answer(best, root, "optimal", details=self.details)
        far = self.value - root > max(0.05 * problem.scale, 0.002 * root)
        if budget.expired or max_tree is not None or not (stated or (_for_scip(core, settings) and far)):
            return Answer(None, root, "gap")
        start = None if self.best is None else core.lift(self.best)
        try:
            solve = solve_cpsat if stated else solve_scip
            answer = solve(problem, budget=budget.part(settings.stated), seed=seed, start=start)
        except InputError:  # now and then SCIP fails on a linear program of its own
            return Answer(None, root, "gap")
        self.take(None if answer.assignment is None else core.lower(answer.assignment))
        answer.bound = max(root, answer.bound or 0.0)
        budget.report(bound=answer.bound)
        return answer

    def raised(self, root: float, budget: Budget, seed: int) -> float:
        """The root bound, raised by the relaxations."""
        core, problem = self.core, self.problem
        if core.limited:
            root = max(root, shared_squares(core, budget.part(0.1)) / core.nodes)
        if core.load.shape[0] + core.nodes <= self.settings.largest:
            reference = core.nodes * self.value if self.best is not None else None
            enough = core.nodes * (self.value - problem.tolerance)
            part = budget.part(self.settings.bounding)
            root = max(
                root, semidefinite_squares(core, part, reference=reference, enough=enough, seed=seed) / core.nodes
            )
        budget.report(bound=root)
        return root

    def take(self, found: IntArray | None) -> bool:
        """Whether a placement within the budget is better: then it is the best."""
        value = np.inf if found is None else self.core.squares(found) / self.core.nodes
        better = value < self.value and found is not None and self.core.moved(found) <= self.core.budget
        if better:
            self.best, self.value = found, value
        return better

    def _margin(self) -> float:
        """What another placement must improve by: a share of the tolerance, far above the rounding of a sum of squares."""
        least = 1e-12 * self.core.current.size * self.problem.scale
        tolerance = max(self.problem.tolerance, self.problem.tolerance_of(self.value))
        return max(self.settings.margin * tolerance, least)

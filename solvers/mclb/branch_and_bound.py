"""Branch and bound of our own for MCLB: incumbents by local search, root bounds, then a compiled depth-first search."""

from __future__ import annotations

import math
import sys

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.errors import InputError
from keyshift.models.guards import Whole
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.mclb import branch_and_bound_kernels as kernels
from keyshift.solvers.mclb.bounds import shared_squares, window_bound
from keyshift.solvers.mclb.local_search import ItemCore, PlacementSearch, local_search
from keyshift.solvers.mclb.near_sets import NearMeanSets
from keyshift.solvers.mclb.sdp import semidefinite_squares
from keyshift.solvers.mclb.settings import MCLBSettings
from keyshift.solvers.mclb.statement import solve_cpsat, solve_scip
from keyshift.solvers.rows import rule_rows

SLICE, FIRST_LOOK = 2_000_000, 20
"""Loads that the tree reads between two looks at the clock, and slices before the bounds: most small instances end in these."""
ROUNDED = 1e-12
"""Rounding in the search stays below this share of the total second moment over the nodes."""


def _margin(problem: MCLB, settings: MCLBSettings, objective: float = 0.0) -> float:
    """What a subtree must improve by: a share of the tolerance, far above the rounding of the search."""
    least = ROUNDED * problem.workload.key_groups * problem.scale
    return max(settings.margin * max(problem.tolerance, problem.tolerance_of(objective)), least)


def branch_and_bound(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, max_tree: Whole | None = None
) -> Answer:
    """The optimum, given time; within a limit the best placement with the best root bound.

    1. Search: `PlacementSearch`, from a greedy placement, the current nodes and a start.
    2. On a few nodes, dozens of key groups are settled by the sets of them that a node can hold (`NearMeanSets`); where a budget
       leaves little to choose on two or three nodes, CP-SAT goes on from there; where it keeps one window far from even, SCIP.
    3. Bound: the continuous relaxation within a budget, and the semidefinite one.
    4. Exact: key groups are placed one after another, the largest first, each on the node where it adds least; a partial
       placement is cut when its completion with divisible load is no better than the incumbent. Of interchangeable empty nodes
       only the first is tried. Exponential in the number of key groups; without a limit it ends in a proof. More of them than
       `hopeless` leave the time within a limit to the search.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Of local search and of the vectors that the semidefinite bound seeks its cuts from.
    start : ndarray, optional
        A known placement to improve on.
    max_tree : int, optional
        End the search after this many tree nodes; then key groups are placed one after another, however few they are.

    Notes
    -----
    When the tree is exhausted the bound is the incumbent less half of the tolerance. Rounding in the search, some
    1e-14 of the total second moment, stays far below that margin. Under rules local search finds the placement, the root bounds
    leave rules out, the tree is cut where a row of theirs cannot be kept any more, and CP-SAT goes on where it does not end.
    """
    if problem.rules:
        return _under_rules(problem, budget, seed, start)
    core, settings = problem.core, MCLBSettings.now()
    size = core.load.shape[0]
    root = window_bound(core.load.T, core.nodes) / core.nodes
    budget.report(bound=root)
    search = DepthFirst(problem, core, None if start is None else core.lower(start), settings)
    hopeless, small = size > settings.hopeless, size <= settings.small
    share = 3 * settings.by_search if hopeless and not _for_scip(core, settings) else settings.by_search
    search.improve(budget.part(share), seed, root + problem.tolerance_of(root), effort=1.0)
    answer = search.settle(budget, seed, root) if max_tree is None else Answer(None, root, "gap")
    if answer.termination in ("optimal", "infeasible"):
        return answer
    root = answer.bound or root
    done = small and search.run(budget, min(FIRST_LOOK * search.slice, max_tree or sys.maxsize))
    proven = not done and search.value - root <= problem.tolerance
    if not (done or proven or budget.expired):
        root = search.raised(root, budget, seed)
        proven = search.value - root <= problem.tolerance
    if not (done or proven or small or math.isinf(budget.remaining)):
        share = 1.0 if hopeless else 0.75 if max_tree is None else 0.2
        search.improve(budget.part(share), seed, root + problem.tolerance)
        proven = search.value - root <= problem.tolerance
    done = done or (not proven and search.run(budget, max_tree))
    bound = max(root, search.value - _margin(problem, settings)) if done else root
    ended: Termination = "optimal" if done or proven else budget.why if budget.expired else "completed"
    if search.best is None:
        message = "no placement keeps within the budget" if done else ""
        return Answer(None, bound, "infeasible" if done else ended, message)
    best = core.relabelled(search.best)
    return Answer(core.lift(best), bound, ended, details={"tree_nodes": search.visited})


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
    core = problem.core
    return {"max_tree": max(1, MCLBSettings.now().point // (core.nodes * core.load.shape[1]))}


def _under_rules(problem: MCLB, budget: Budget, seed: int, start: np.ndarray | None) -> Answer:
    """Local search, the root bounds, CP-SAT; where no proof was ever seen, the search has what the bounds leave."""
    core, settings = problem.core, MCLBSettings.now()
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
    if not hopeless:
        answer = _tree_under_rules(problem, budget.part(settings.by_search), start, root)
        if answer.termination in ("optimal", "infeasible"):
            return answer
        start = answer.assignment
    answer = solve_cpsat(problem, budget=budget, seed=seed, start=start)
    answer.bound = max(root, answer.bound or 0.0)
    return answer


def _tree_under_rules(problem: MCLB, budget: Budget, start: IntArray | None, root: float) -> Answer:
    """The tree over key groups that move as one, cut also where rows of rules cannot be kept any more."""
    core = ItemCore.of_items(problem)
    search = DepthFirst(problem, core, None if start is None else core.lower(start)[core.heads])
    done = search.run(budget, None)
    details = {"tree_nodes": search.visited}
    if search.best is None:
        ended: Termination = "infeasible" if done else budget.why
        return Answer(None, root, ended, "no placement keeps within the budget and the rules" if done else "", details)
    found = core.lift(search.best[core.label])
    if not kept(problem, found):  # rows were kept but for rounding: nothing is proven
        return Answer(start, root, budget.ended("completed"), details=details)
    bound = max(root, search.value - search.data.margin / core.nodes) if done else root
    return Answer(found, bound, "optimal" if done else budget.why, details=details)


def _rules_of(core: ItemCore, order: IntArray) -> kernels.TreeRules | None:
    """The rows of the items in the order of placing, and what those of each depth and deeper may add."""
    made = rule_rows(core.forms, int(core.forms.closed.shape[1]))  # type: ignore[union-attr]  # not None
    if made is None:
        return None
    rows = made._replace(domain=np.ascontiguousarray(made.domain[:, core.names]), current=core.current)
    low, high = np.zeros((2, order.size + 1, rows.most.size))
    for depth in range(order.size - 1, -1, -1):
        k = int(order[depth])
        low[depth], high[depth] = low[depth + 1], high[depth + 1]
        for x in range(rows.starts[k], rows.starts[k + 1]):
            f = rows.family[x]
            at = np.unique(rows.domain[rows.kind[f]])
            at = rows.offset[f] + at[at >= 0]
            low[depth, at] += min(rows.weight[x], 0.0)
            high[depth, at] += max(rows.weight[x], 0.0)
    return kernels.TreeRules(rows, order, low, high, np.zeros(rows.most.size))


class DepthFirst:
    """The state of the depth-first search between two slices."""

    def __init__(
        self, problem: MCLB, core: Core, incumbent: IntArray | None, settings: MCLBSettings | None = None
    ) -> None:
        self.settings = settings = settings or MCLBSettings.now()
        self.problem, self.core, self.best = problem, core, incumbent
        self.local: PlacementSearch | None = None
        self.order = np.argsort(-np.square(core.load).sum(axis=1), kind="stable")
        load = np.ascontiguousarray(core.load[self.order])
        p, m = load.shape
        rest = np.zeros((p + 1, m))
        rest[:-1] = np.cumsum(load[::-1], axis=0)[::-1]
        self.constant = float(np.square(rest[0]).sum()) / core.nodes
        self.value = np.inf if incumbent is None else core.squares(incumbent) / core.nodes
        self.visited = 0
        self.slice = max(100, SLICE // (core.nodes * m))
        n = core.nodes
        self.data = kernels.TreeData(
            load, rest, np.ascontiguousarray(core.stake.T[self.order]), core.interchangeable, float(core.budget),
            _margin(problem, settings) * n,
        )  # fmt: skip
        self.rules: kernels.TreeRules | None = None
        if isinstance(core, ItemCore):
            self.data.stake[core.forms.closed[self.order][:, core.names]] = np.inf  # type: ignore[index]  # not None
            self.rules = _rules_of(core, self.order)
        nowhere, orders = np.full((2, p), -1, dtype=np.int64), np.tile(np.arange(n), (m, 1))
        self.state = kernels.TreeState(
            nowhere[0], np.zeros((p, n), dtype=bool), np.zeros((n, m)), np.zeros(n, dtype=np.int64), orders,
            np.zeros(2), nowhere[1],
        )  # fmt: skip

    def run(self, budget: Budget, max_tree: int | None) -> bool:
        """Search on until the tree is exhausted (True) or a limit is met."""
        core = self.core
        while self.state.frame[0] >= 0:
            if budget.expired or (max_tree is not None and self.visited >= max_tree):
                return False
            limit = self.constant + self.value * core.nodes - self.data.margin
            _, visited = kernels.explore(limit, self.slice, self.data, self.state, self.rules)
            budget.spend(visited * core.nodes * core.load.shape[1] / 3)
            self.visited += visited
            self._keep()
            budget.report(objective=None if self.best is None else self.value)
        return True

    def improve(self, budget: Budget, seed: int, enough: float, effort: float = math.inf) -> None:
        """Let local search begin, or go on, while time lasts and the imbalance is not `enough`."""
        core = self.core
        if self.local is None:
            self.local = PlacementSearch(core, self.best, seed)
        elif self.best is not None:
            self.local.take(self.best)
        if self.take(self.local.go_on(budget, effort, enough * core.nodes)):
            budget.report(objective=self.value)

    def settle(self, budget: Budget, seed: int, root: float) -> Answer:
        """Sets near the mean, then CP-SAT or SCIP, where one of them suits, from the best; what they find is taken over."""
        settings, core, problem = self.settings, self.core, self.problem
        stated = _for_cpsat(core, settings)
        if NearMeanSets.suits(core) and self.best is not None and not budget.expired:
            sets = NearMeanSets(core, self.best, _margin(problem, settings, self.value) * core.nodes)
            sets.lowest = root * core.nodes / sets.unit**2
            done = sets.run(budget.part(settings.by_near_sets / 2 if stated else settings.by_near_sets))
            self.take(sets.best)
            root = max(root, sets.bound / core.nodes)
            budget.report(objective=self.value, bound=root)
            if done:
                best = core.lift(core.relabelled(sets.best))
                return Answer(best, root, "optimal", details={"tree_nodes": sets.visited})
        far = self.value - root > max(0.05 * problem.scale, 0.002 * root)
        if budget.expired or not (stated or (_for_scip(core, settings) and far)):
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

    def _keep(self) -> None:
        """Take over a better placement, valued anew."""
        found = self.state.best
        if found[0] < 0:
            return
        placement = np.empty_like(found)
        placement[self.order] = found
        value = self.core.squares(placement) / self.core.nodes
        if value < self.value:
            self.best, self.value = placement, value

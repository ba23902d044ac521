"""Branch and bound of our own for MCLB: incumbents by local search, root bounds, then a compiled depth-first search."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Settings, Termination
from keyshift.models.errors import InputError
from keyshift.models.guards import Whole
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.mclb import branch_and_bound_kernels as kernels
from keyshift.solvers.mclb.bounds import shared_squares, window_bound
from keyshift.solvers.mclb.local_search import ItemCore, PlacementSearch, local_search
from keyshift.solvers.mclb.near_sets import FewNodes
from keyshift.solvers.mclb.pair_splits import PairSplits, descend
from keyshift.solvers.mclb.sdp import SemidefiniteSettings, semidefinite_squares
from keyshift.solvers.mclb.set_partitioning import SetPartitioning
from keyshift.solvers.mclb.statement import solve_cpsat, solve_scip
from keyshift.solvers.rows import rule_rows

ROUNDED = 1e-12
"""Rounding in the search stays below this share of the total second moment over the nodes."""


@dataclass(frozen=True)
class TreeSettings(Settings):
    """Tuning parameters of the branch and bound.

    Attributes
    ----------
    by_descent : float
        The share of the time for the placements that `descend` shakes before sets.
    unsplit, by_splits : int, float
        With more key groups than these, the sets begin from a placement that `PairSplits` finds in this share of the time.
    by_near_sets, near_alone : float
        The share of the time that `FewNodes` has, where it suits; half of it before CP-SAT. The second where key groups are
        too many for `SetPartitioning`.
    few, by_sets, sets_first : int, float, int
        With at most this many key groups, `SetPartitioning` is tried too, for this share of the time; with more nodes than
        `sets_first` before `FewNodes`.
    few_nodes, few_windows, stated, stated_seconds : int, int, float, float
        With a budget and at most this many nodes and windows, CP-SAT runs after the first search, for this share of the
        time and at most this many seconds.
    scip_windows, first_scip, by_scip, scip_least : int, float, float, tuple of float
        With a budget, more than `small` key groups and at most this many windows, the first search has `first_scip` of the time
        and SCIP `by_scip` of what is left: unless the first search came nearer to the bound than these shares of the problem's
        scale and of the bound itself.
    slice : int
        Loads that the search reads between two checks of the clock.
    first_search, first_alone : float
        The largest share of the time for the first local search; the second with more than `hopeless` key groups.
    small, first_look : int
        With at most `small` key groups the search gets `first_look` slices before the semidefinite bound, and most such
        instances end within them. Larger instances spend three quarters of the time left on more local search.
    hopeless, tree_seconds : int, float
        With more key groups than this, or more than `few` and a shorter limit, local search gets all the time: the tree
        never ended in our experiments, or took longer.
    bounding : float
        The semidefinite bound's share of the time left in that case.
    margin : float
        A subtree is pruned unless it can improve by more than this share of the problem's tolerance.
    ruled : float
        Under rules, the tree's share of the time left before CP-SAT.
    point : int
        Loads that the tree search may read for one point of a front: small instances end in a proof, others keep the
        root bound.
    """

    by_descent: float = 0.1
    unsplit: int = 24
    by_splits: float = 0.1
    by_near_sets: float = 0.4
    near_alone: float = 0.7
    few: int = 40
    by_sets: float = 0.4
    sets_first: int = 6
    few_nodes: int = 3
    few_windows: int = 12
    stated: float = 0.8
    stated_seconds: float = 20.0
    scip_windows: int = 1
    first_scip: float = 0.3
    by_scip: float = 0.85
    scip_least: tuple[float, float] = (0.05, 0.002)
    slice: int = 2_000_000
    first_search: float = 0.25
    first_alone: float = 0.75
    small: int = 30
    first_look: int = 20
    hopeless: int = 60
    tree_seconds: float = 5.0
    bounding: float = 0.5
    margin: float = 0.5
    ruled: float = 0.25
    point: int = 400_000_000


def _margin(problem: MCLB, settings: TreeSettings, objective: float = 0.0) -> float:
    """What a subtree must improve by: a share of the tolerance, far above the rounding of the search."""
    least = ROUNDED * problem.workload.key_groups * problem.scale
    return max(settings.margin * max(problem.tolerance, problem.tolerance_of(objective)), least)


def branch_and_bound(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, max_tree: Whole | None = None
) -> Answer:
    """The optimum, given time; within a limit the best placement with the best root bound.

    Dozens of key groups are answered by the sets of them that nodes can hold, from a placement that `descend` and
    `PairSplits` find: on a few nodes by `FewNodes`, else by `SetPartitioning`. Where a budget keeps one window far from even,
    SCIP goes on from a local search, and CP-SAT on two or three nodes. More than these, or where the sets are too many: key
    groups are placed one after another, the largest first, each on the node where it adds least; a partial placement is cut
    when its completion with divisible load is no better than the incumbent. Of interchangeable empty nodes only the first is
    tried. Exponential in the number of key groups; without a limit it ends in a proof.

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
    core = problem.core
    root = window_bound(core.load.T, core.nodes) / core.nodes
    budget.report(bound=root)
    settings = TreeSettings.now()
    known = None if start is None else core.lower(start)
    engines = _by_sets(core, settings) if max_tree is None else []
    if engines:
        known = descend(core, seed, start=known, limit=budget.part(settings.by_descent))
        if core.load.shape[0] > settings.unsplit and PairSplits.suits(core):
            known = PairSplits(core, known, seed).go_on(budget.part(settings.by_splits), enough=root * core.nodes)
    for engine, share in engines:
        margin = _margin(problem, settings, core.squares(known) / core.nodes) * core.nodes  # type: ignore[arg-type]  # not None
        sets = engine(core, known, margin)
        sets.lowest = root * core.nodes / sets.unit**2
        done = sets.run(budget.part(share))
        known, root = sets.best, max(root, sets.bound / core.nodes)
        budget.report(objective=sets.value / core.nodes, bound=root)
        if done or budget.expired:
            best = core.lift(core.relabelled(known))
            return Answer(best, root, "optimal" if done else budget.why, details={"tree_nodes": sets.visited})
    search = DepthFirst(problem, core, known, settings)
    hopeless = _hopeless(core, budget, settings)
    by_scip = _for_scip(core, settings)
    share = settings.first_scip if by_scip else settings.first_alone if hopeless else settings.first_search
    search.improve(budget.part(share), seed, root + problem.tolerance_of(root), effort=1.0)
    answer = search.ask_solvers(budget, seed, root) if max_tree is None else Answer(None, root, "gap")
    if answer.termination in ("optimal", "infeasible"):
        return answer
    root = answer.bound or root
    small = core.load.shape[0] <= settings.small
    done = small and search.run(budget, min(settings.first_look * search.slice, max_tree or sys.maxsize))
    proven = not done and search.value - root <= problem.tolerance
    if not (done or proven or budget.expired) and core.limited:
        squares = shared_squares(core, budget.part(0.1))
        root = max(root, squares / core.nodes)
    if not (done or proven or budget.expired) and core.load.shape[0] + core.nodes <= SemidefiniteSettings.now().largest:
        reference = core.nodes * search.value if search.best is not None else None
        enough = core.nodes * (search.value - problem.tolerance)
        part = budget.part(settings.bounding if hopeless else 0.5)
        squares = semidefinite_squares(core, part, reference=reference, enough=enough, seed=seed)
        root = max(root, squares / core.nodes)
        budget.report(bound=root)
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


def _hopeless(core: Core, budget: Budget, settings: TreeSettings) -> bool:
    """Whether the tree has too many key groups for its limit."""
    return core.load.shape[0] > (settings.few if budget.time_limit < settings.tree_seconds else settings.hopeless)


def _for_cpsat(core: Core, settings: TreeSettings) -> bool:
    """Whether a budget and few squares of loads leave so little that CP-SAT closes in on it, where everything else is short."""
    p, windows = core.load.shape
    size = settings.small < p <= settings.hopeless
    return size and core.limited and core.nodes <= settings.few_nodes and windows <= settings.few_windows


def _for_scip(core: Core, settings: TreeSettings) -> bool:
    """Whether a budget on so few windows keeps placements far from the mean: then SCIP proves what no search finds."""
    p, windows = core.load.shape
    return p > settings.small and core.limited and windows <= settings.scip_windows and not _for_cpsat(core, settings)


def _by_sets(core: Core, settings: TreeSettings) -> list[tuple[Any, float]]:
    """The engines that put sets of dozens of key groups together, and their shares of the time."""
    stated = _for_cpsat(core, settings)
    made: list[tuple[Any, float]] = []
    if FewNodes.suits(core):
        alone = core.load.shape[0] > settings.few
        share = settings.by_near_sets / 2 if stated else settings.near_alone if alone else settings.by_near_sets
        made.append((FewNodes, share))
    if core.load.shape[0] <= settings.few and not stated:
        made.append((SetPartitioning, settings.by_sets))
    return made[::-1] if core.nodes > settings.sets_first else made


def tree_of_a_point(problem: MCLB) -> dict[str, int]:
    """The options of `branch_and_bound` at a point of a front."""
    core = problem.core
    return {"max_tree": max(1, TreeSettings.now().point // (core.nodes * core.load.shape[1]))}


def _under_rules(problem: MCLB, budget: Budget, seed: int, start: np.ndarray | None) -> Answer:
    """Local search, the root bounds, CP-SAT; where no proof was ever seen, the search has what the bounds leave."""
    core, settings = problem.core, TreeSettings.now()
    size = core.load.shape[0]
    hopeless = size > settings.hopeless
    start = local_search(problem, budget=budget.part(settings.first_search), seed=seed, start=start).assignment
    root = window_bound(ItemCore.of_items(problem).load.T, core.nodes) / core.nodes
    value = math.inf if start is None else problem.objective(start)
    if value - root > problem.tolerance and size + core.nodes <= SemidefiniteSettings.now().largest:
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
        answer = _tree_under_rules(problem, budget.part(settings.ruled), start, root)
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
    rows = made._replace(domain=np.ascontiguousarray(made.domain[:, core.names]))
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
    return kernels.TreeRules(rows, core.current, order, low, high, np.zeros(rows.most.size))


class DepthFirst:
    """The state of the depth-first search between two slices."""

    def __init__(
        self, problem: MCLB, core: Core, incumbent: IntArray | None, settings: TreeSettings | None = None
    ) -> None:
        self.settings = settings = settings or TreeSettings.now()
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
        self.slice = max(100, settings.slice // (core.nodes * m))
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

    def ask_solvers(self, budget: Budget, seed: int, root: float) -> Answer:
        """CP-SAT or SCIP, where one of them closes in, from the best; what it finds is taken over."""
        settings = self.settings
        far = max(least * size for least, size in zip(settings.scip_least, (self.problem.scale, root), strict=True))
        if _for_cpsat(self.core, settings):
            solve, part = solve_cpsat, budget.part(settings.stated, settings.stated_seconds)
        elif _for_scip(self.core, settings) and self.value - root > far and not budget.expired:
            solve, part = solve_scip, budget.part(settings.by_scip)
        else:
            return Answer(None, root, "gap")
        start = None if self.best is None else self.core.lift(self.best)
        try:
            answer = solve(self.problem, budget=part, seed=seed, start=start)
        except InputError:  # now and then SCIP fails on a linear program of its own
            return Answer(None, root, "gap")
        self.take(None if answer.assignment is None else self.core.lower(answer.assignment))
        answer.bound = max(root, answer.bound or 0.0)
        budget.report(bound=answer.bound)
        return answer

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

"""Branch and bound of our own for MCLB: incumbents by local search, root bounds, then a compiled depth-first search."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.workload import IntArray
from keyshift.solvers.mclb import tree_kernels as kernels
from keyshift.solvers.mclb.bounds import window_bound

SLICE = 20_000
"""Tree nodes between two looks at the clock."""
MARGIN = 0.5
"""A subtree is left alone unless it can improve by so much of the problem's tolerance."""


def branch_and_bound(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, max_tree: int | None = None
) -> Answer:
    """The optimum, given time; within a limit the best placement with the best root bound.

    Key groups are placed one after another, the largest first, each on the node where it adds least; a partial
    placement is cut when its completion with divisible load is no better than the incumbent. Of interchangeable
    empty nodes only the first is tried. Exponential in the number of key groups; without a limit it ends in a proof.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Of the semidefinite bound's start only: the search itself draws no random numbers.
    start : ndarray, optional
        A known placement to improve on.
    max_tree : int, optional
        End the search after so many tree nodes.

    Notes
    -----
    When the tree is exhausted the bound is the incumbent less `MARGIN` of the tolerance. Rounding in the search, some
    1e-14 of the total second moment, stays far below that margin.
    """
    core = problem.core
    root = window_bound(core.load.T, core.nodes) / core.nodes
    incumbent = None if start is None else core.lower(start)
    search = _Search(problem, core, incumbent)
    done = search.run(budget, max_tree)
    bound = max(root, search.value - MARGIN * problem.tolerance) if done else root
    if search.best is None:
        return Answer(None, bound, "infeasible" if done else budget.why, "no placement keeps within the budget")
    best = core.relabelled(search.best)
    return Answer(core.lift(best), bound, "optimal" if done else budget.why, details={"tree_nodes": search.visited})


class _Search:
    """The state of the depth-first search between two slices."""

    def __init__(self, problem: MCLB, core: Core, incumbent: IntArray | None) -> None:
        self.core, self.best = core, incumbent
        load = core.load
        self.order = np.argsort(-np.square(load).sum(axis=1), kind="stable")
        self.load = np.ascontiguousarray(load[self.order])
        p, m = self.load.shape
        self.rest = np.zeros((p + 1, m))
        self.rest[:-1] = np.cumsum(self.load[::-1], axis=0)[::-1]
        self.constant = float(np.square(self.rest[0]).sum()) / core.nodes
        self.margin = MARGIN * problem.tolerance * core.nodes
        self.value = np.inf if incumbent is None else core.squares(incumbent) / core.nodes
        self.visited = 0

    def run(self, budget: Budget, max_tree: int | None) -> bool:
        """Search until the tree is exhausted (True) or a limit is met."""
        core = self.core
        p, n = self.load.shape[0], core.nodes
        choice, tried = np.full(p, -1, dtype=np.int64), np.zeros((p, n), dtype=bool)
        sums, count = np.zeros((n, self.load.shape[1])), np.zeros(n, dtype=np.int64)
        frame, found = np.zeros(2), np.full(p, -1, dtype=np.int64)
        state, current = core.state[self.order], core.current[self.order]
        while frame[0] >= 0:
            if budget.expired or (max_tree is not None and self.visited >= max_tree):
                return False
            limit = self.constant + self.value * n - self.margin
            _, visited = kernels.explore(
                self.load, self.rest, state, current, core.interchangeable, core.budget, limit,
                choice, tried, sums, count, frame, found, SLICE, self.margin,
            )  # fmt: skip
            self.visited += visited
            self._keep(found)
            budget.report(objective=None if self.best is None else self.value)
        return True

    def _keep(self, found: IntArray) -> None:
        """Take over a better placement, valued anew."""
        if found[0] < 0:
            return
        placement = np.empty_like(found)
        placement[self.order] = found
        value = self.core.squares(placement) / self.core.nodes
        if value < self.value:
            self.best, self.value = placement, value

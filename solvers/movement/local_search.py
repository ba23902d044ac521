"""A fast method of our own for least movement within load limits: moves, swaps and returns, annealed."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.guards import NonNegative
from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.workload import BoolArray, IntArray
from keyshift.solvers.within_rows import Task, load_limits, search_within


def local_search(
    problem: MovementWithinLimits,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    effort: NonNegative = 1.0,
) -> Answer:
    """Simulated annealing on the state moved, at a price for loads outside the limits (`search_within`).

    No guarantee. A step costs O(windows). Where there are more nodes than may be in use, those of least state are let go
    of, and in every second round one of them for another.

    Parameters
    ----------
    problem : MovementWithinLimits
    budget : Budget
    seed : int
    start : ndarray, optional
        A placement within the limits that the answer will not be worse than.
    effort : float, default 1
        Multiplies how often in a row the search may cool without a gain.
    """
    turns = _Turns(problem, start, seed)
    return search_within(problem, turns, budget=budget, seed=seed, start=start, effort=effort)


class _Turns:
    """The task of each turn: the nodes of a known placement, and in every second turn another for one of them."""

    def __init__(self, problem: MovementWithinLimits, start: IntArray | None, seed: int) -> None:
        self.problem, self.rng = problem, np.random.default_rng([seed, 61])
        self.used = _nodes_kept(problem, start)
        self.first = self._task(self.used)

    def __call__(self, turn: int) -> Task:
        used = _other(self.problem, self.used, self.rng) if turn % 2 else self.used
        return self.first if used is self.used else self._task(used)

    def _task(self, used: BoolArray) -> Task:
        """The problem on these nodes."""
        problem, slack = self.problem, SLACK / 2 * self.problem.upper
        least, most = (np.where(used, limit, 0.0) for limit in (problem.lower - slack, problem.upper + slack))
        each = [least] * len(problem.load), [most] * len(problem.load)
        return Task(problem.lowered, used, load_limits(problem.load, *each), problem.workload.state)


def _nodes_kept(problem: MovementWithinLimits, start: IntArray | None) -> BoolArray:
    """The nodes to use: those of a known placement; of the others, those with most state."""
    held = np.bincount(problem.workload.current, problem.workload.state, problem.node_limit)
    if start is not None:
        held[np.unique(start)] = np.inf
    ranked = np.argsort(-np.where(problem.open_nodes, held, -1.0), kind="stable")
    used = np.zeros(problem.node_limit, dtype=bool)
    used[ranked[: problem.nodes_after]] = True
    return used & problem.open_nodes


def _other(problem: MovementWithinLimits, used: BoolArray, rng: np.random.Generator) -> BoolArray:
    """One node for another."""
    spare = np.flatnonzero(problem.open_nodes & ~used)
    if not spare.size:
        return used
    other = used.copy()
    other[rng.choice(np.flatnonzero(used))], other[rng.choice(spare)] = False, True
    return other

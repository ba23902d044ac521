"""A search of our own for mixed routing under rules: single keys, swaps and exchanges, annealed."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.guards import NonNegative
from keyshift.models.routing import MixedRouting
from keyshift.solvers.rows import RowFamily
from keyshift.solvers.within_rows import Task, load_limits, search_within


def local_search(
    problem: MixedRouting, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, effort: NonNegative = 1.0
) -> Answer:
    """Keys one by one, two in exchange, or those that are merged, annealed (`search_within`).

    No guarantee. It is what finds an assignment under rules; without them the heuristics of [Fang2016] do in less time.

    Parameters
    ----------
    problem : MixedRouting
    budget : Budget
    seed : int
    start : ndarray, optional
        An assignment within the limits that the answer will not be worse than.
    effort : float, default 1
        Multiplies how often in a row the search may cool without a gain.
    """
    each, w = problem.by_window, problem.workload
    least, most = ([side(window) for window in each] for side in (_least, _most))
    limits = [*load_limits([window.workload.last_load for window in each], least, most), *_entries(problem)]
    task = Task(problem.lowered, w.kept, limits, w.state)
    return search_within(problem, lambda turn: task, budget=budget, seed=seed, start=start, effort=effort)


def _least(window: MixedRouting) -> np.ndarray:
    return window.lower - window.slack / 2


def _most(window: MixedRouting) -> np.ndarray:
    return window.upper + window.slack / 2


def _entries(problem: MixedRouting) -> list[RowFamily]:
    """The table's room as one row, to which the keys of each hash add where they are elsewhere."""
    n, none = problem.workload.nodes, np.zeros(0)
    made = []
    for home in np.unique(problem.home).tolist():
        keys = np.flatnonzero(problem.home == home)
        made.append(RowFamily(keys, np.ones(keys.size), np.where(np.arange(n) == home, -1, 0), none, none))
    made[-1] = made[-1]._replace(least=np.zeros(1), most=np.array([float(problem.table_limit)]))
    return made

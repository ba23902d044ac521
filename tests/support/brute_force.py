"""The oracle: try every assignment."""

from __future__ import annotations

import itertools

import numpy as np

import keyshift as ks


def brute_force(problem: ks.Problem) -> tuple[float | None, list[int] | None]:
    """Least objective over all assignments of key groups to nodes, and one that attains it; None if infeasible."""
    w = problem.workload
    best, where = None, None
    for candidate in itertools.product(range(w.nodes), repeat=w.key_groups):
        assignment = np.array(candidate)
        if problem.violations(assignment):
            continue
        value = problem.objective(assignment)
        if best is None or value < best:
            best, where = value, list(candidate)
    return best, where


def lexicographic(problem: ks.Problem) -> list[float] | None:
    """The least values of a problem's priorities, one after another, over all assignments; None if infeasible."""
    w = problem.workload
    ranks = [
        problem.rank(np.array(candidate))
        for candidate in itertools.product(range(w.nodes), repeat=w.key_groups)
        if not problem.violations(np.array(candidate))
    ]
    best = []
    for place, measure in enumerate(problem.stages if ranks else ()):
        least = min(rank[place] for rank in ranks)
        ranks = [rank for rank in ranks if rank[place] <= least + problem.tie(measure, least)]
        best.append(least)
    return best or None

"""A faster oracle for MCLB: all assignments of a small instance at once."""

from __future__ import annotations

import itertools

import numpy as np

import keyshift as ks


def all_values(problem: ks.MCLB) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every assignment, its imbalance and the state it moves; infeasible ones (draining) left out, budgets not applied."""
    w = problem.workload
    kept = np.flatnonzero(w.kept)
    placements = np.array(list(itertools.product(kept.tolist(), repeat=w.key_groups)), dtype=np.int64)
    on = placements[:, :, None] == kept[None, None, :]  # (assignments, p, n)
    loads = np.einsum("tk,aki->ati", w.load, on.astype(float))
    imbalance = loads.var(axis=2).sum(axis=1)
    moved = ((placements != w.current) * w.state).sum(axis=1)
    return placements, imbalance, moved


def optimum(problem: ks.MCLB) -> float | None:
    """Least imbalance within the budget; None when no assignment keeps it."""
    _, imbalance, moved = all_values(problem)
    if problem.max_state_moved is not None:
        imbalance = imbalance[moved <= problem.max_state_moved * (1 + 1e-9)]
    return float(imbalance.min()) if imbalance.size else None


def whole_front(problem: ks.MCLB) -> list[tuple[float, float]]:
    """All undominated pairs (state moved, imbalance), by rising movement."""
    _, imbalance, moved = all_values(problem)
    points: list[tuple[float, float]] = []
    for x, y in sorted(zip(moved.tolist(), imbalance.tolist(), strict=True)):
        if not points or y < points[-1][1] - problem.tolerance:
            points.append((x, y))
    return points

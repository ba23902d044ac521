"""The shortest transfer schedule by brute force: every order, each transfer as early as the ones before it allow."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from keyshift.models.plans.transfers import TransferScheduling


def random_transfers(rng: np.random.Generator, most: int = 6, limited: bool = False) -> TransferScheduling:
    """A tiny instance; with limits, often tight ones."""
    e, n, m = int(rng.integers(1, most + 1)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    source = rng.integers(0, n, e)
    target = (source + rng.integers(1, n, e)) % n
    seconds = rng.integers(1, 6, e).astype(float) if rng.random() < 0.6 else rng.uniform(0.1, 3, e)
    resources = 1 if limited else 0
    usage = rng.integers(0, 5, (resources, e)).astype(float)
    leaving = np.array([np.bincount(source, weights=row, minlength=n) for row in usage]).reshape(resources, n)
    held = leaving + rng.integers(0, 3, (resources, n))
    arriving = np.array([np.bincount(target, weights=row, minlength=n) for row in usage]).reshape(resources, n)
    limit = np.maximum(held, held + arriving - leaving) + rng.integers(0, 5, (resources, n))
    limit = np.maximum(limit, 1.0)
    return TransferScheduling(source, target, seconds, n, m, held, usage, limit)


def shortest(problem: TransferScheduling) -> float:
    """The least makespan over all orders; infinite when none meets the limits."""
    return min((_in_order(problem, order) for order in permutations(range(problem.transfers))), default=0.0)


def _in_order(p: TransferScheduling, order: tuple[int, ...]) -> float:
    starts: dict[int, float] = {}
    for j in order:
        moments = sorted({0.0, *(s + p.seconds[k] for k, s in starts.items())})
        earliest = max(starts.values(), default=0.0)
        when = next((t for t in moments if t >= earliest - 1e-12 and _may_start(p, starts, j, t)), None)
        if when is None:
            return np.inf
        starts[j] = when
    return max(s + p.seconds[j] for j, s in starts.items())


def _may_start(p: TransferScheduling, starts: dict[int, float], j: int, now: float) -> bool:
    running = [k for k, s in starts.items() if s + p.seconds[k] > now + 1e-12]
    for i in (p.source[j], p.target[j]):
        if sum(i in (p.source[k], p.target[k]) for k in running) >= p.parallel:
            return False
    i = p.target[j]
    for r in range(p.limit.shape[0]):
        there = p.held[r, i] + p.usage[r, j]
        there += sum(p.usage[r, k] for k in starts if p.target[k] == i)
        there -= sum(p.usage[r, k] for k in starts if p.source[k] == i and k not in running)
        if there > p.limit[r, i] + 1e-9:
            return False
    return True


def least_overload(p: TransferScheduling) -> float:
    """The least share by which some limit is exceeded, over all orders of one transfer at a time."""
    best = np.inf
    for order in permutations(range(p.transfers)):
        level, worst = p.held.copy(), 0.0
        for j in order:
            over = (level[:, p.target[j]] + p.usage[:, j]) / p.limit[:, p.target[j]] - 1
            worst = max(worst, float(over.max(initial=0.0)))
            level[:, p.target[j]] += p.usage[:, j]
            level[:, p.source[j]] -= p.usage[:, j]
        best = min(best, worst)
    return best

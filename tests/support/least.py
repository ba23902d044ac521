"""The least objective of a tiny instance of any problem, by trying everything."""

from __future__ import annotations

import itertools

import interval_oracle
import numpy as np

import keyshift as ks


def candidates(problem: ks.Problem):
    """Every assignment there could be."""
    if isinstance(problem, ks.KeySplitting):
        size, places = problem.stream.messages, range(problem.workers)
    else:
        w = problem.workload
        size, places = w.key_groups, range(getattr(problem, "places", w.nodes))
        if isinstance(problem, ks.ReplicatedAllocation):
            places = [row for row in itertools.product((0, 1), repeat=w.nodes) if any(row)]
    for candidate in itertools.product(places, repeat=size):
        yield np.array(candidate)


def least(problem: ks.Problem, keeps=lambda assignment: True) -> float | None:
    """Least objective over assignments that keep the problem's rules, and another one; None if there is none."""
    if isinstance(problem, ks.MigrationPolicy):
        return interval_oracle.policy(problem)
    if isinstance(problem, ks.MigrationSequence):
        return interval_oracle.sequence(problem)
    if isinstance(problem, ks.IntervalMigration):
        return interval_oracle.single_step(problem)
    values = (
        problem.objective(a)
        for a in map(problem.canonical, candidates(problem))
        if keeps(a) and not problem.violations(a)
    )
    return min(values, default=None)

"""Bounds under rules: safe, and of the linear relaxation where rules concentrate load."""

from __future__ import annotations

import numpy as np

import keyshift as ks
from keyshift import rules


def crowded():
    """Racks of which the first has most of the load."""
    rng = np.random.default_rng(3)
    load = rng.lognormal(0, 0.6, 80) * 10
    current = np.where(np.arange(80) < 45, rng.integers(0, 2, 80), rng.integers(2, 8, 80))
    return ks.Workload(
        load=load, state=load, current=current, nodes=8, domains={"rack": [f"r{i // 2}" for i in range(8)]}
    )


def test_the_default_knows_what_rows_of_rules_force():
    w = crowded()
    problem = ks.KeyGroupAllocation(w, max_migrations=40, rules=[rules.Moves(1, out_of={"rack": "r0"})])
    answer = ks.solve(problem, time_limit=3)
    linear = ks.solve(problem, "lp", time_limit=10)
    assert linear.bound > 0.5 * answer.objective
    assert ks.solve(problem, "prices", time_limit=3).bound < linear.bound
    assert answer.objective >= answer.bound >= linear.bound * (1 - 1e-6)

"""Bounds under rules: safe by counts and by prices; the linear relaxation knows the rows."""

from __future__ import annotations

import numpy as np
import pytest
from rules.drawn import best_of
from rules.test_rules import drawn

import keyshift as ks
from keyshift import rules
from keyshift.models import Budget
from keyshift.solvers.allocation import counting
from keyshift.solvers.allocation.pricing.tree import price_bound
from keyshift.solvers.tuning import AllocationSettings


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
    assert answer.objective >= answer.bound >= linear.bound * (1 - 1e-6)


@pytest.mark.parametrize(
    "settings", [(), pytest.param((AllocationSettings(most_out=1, most_in=2),), marks=pytest.mark.slow)]
)
def test_bounds_by_counts_and_prices_are_safe_under_rules(settings, monkeypatch):
    monkeypatch.setattr(counting, "MOST_EXACT", 0 if settings else counting.MOST_EXACT)
    tight = 0
    for seed in range(2000, 2040):
        plain, problem = drawn("allocation", seed)
        best = best_of(problem, plain)
        answer = price_bound(problem, budget=Budget(settings=settings))
        if best is None:
            continue
        assert answer.termination != "infeasible", seed
        assert answer.bound <= best + problem.tolerance_of(best), seed
        tight += answer.bound >= best - 1e-5 * problem.scale
    assert settings or tight > 5

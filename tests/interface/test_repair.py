"""Repair: a start that already breaks limits is repaired as far as can be, and nothing gets worse."""

from __future__ import annotations

import numpy as np
import pytest
from limit_oracle import all_assignments, random_workload

import keyshift as ks
from keyshift.plans.remedying import Excess


def draw(kind: str, rng: np.random.Generator) -> ks.Problem:
    w = random_workload(rng).replace(draining=None)
    if kind == "allocation":
        memory = np.ceil(w.resources["memory"].sum() / w.nodes * rng.uniform(0.8, 1.1))
        return ks.KeyGroupAllocation(w, max_migrations=int(rng.integers(0, 3)), resource_capacity={"memory": memory})
    if kind == "collocation":
        return ks.CollocatedAllocation(
            w, max_load_distance=float(rng.integers(0, 20)), max_migrations=int(rng.integers(0, 3))
        )
    return ks.MixedRouting(w, float(rng.uniform(0, 0.2)), int(rng.integers(0, 3)))


def hold(kind: str, seeds: range) -> None:
    for seed in seeds:
        problem = draw(kind, np.random.default_rng(seed))
        excess, w = Excess.of(problem), problem.workload
        solution = ks.repair(problem, time_limit=None)
        possible = [a for a in all_assignments(problem, w.nodes) if excess.at(1.0).check(a).feasible]
        assert any((a == w.current).all() for a in possible)  # staying put is never worse than now
        least = min(excess.needed(a) for a in possible)
        left = solution.details["excess_left"]
        assert left == pytest.approx(least, abs=3e-6), (kind, seed)
        assert solution.details["excess_left_proven"]
        assert solution.status == "optimal"
        assert excess.at(1.0).check(solution.assignment).feasible
        best = min(problem.objective(a) for a in possible if excess.at(left * (1 + 1e-9)).check(a).feasible)
        assert solution.objective == pytest.approx(best, abs=problem.tolerance * 2), (kind, seed)
        if least == 0:
            assert problem.check(solution.assignment).feasible


@pytest.mark.parametrize("kind", ["allocation", "collocation", "routing"])
def test_repair_leaves_the_least_excess(kind):
    hold(kind, range(3))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["allocation", "collocation", "routing"])
def test_repair_leaves_the_least_excess_often(kind):
    hold(kind, range(50, 150))


def test_other_problems_cannot_be_repaired():
    w = ks.Workload(load=[1, 2], state=[1, 1], current=[0, 1], nodes=2)
    with pytest.raises(ks.InputError, match="mclb cannot be repaired"):
        ks.repair(ks.MCLB(w))

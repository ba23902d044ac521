"""MCLB by sets of key groups: against every placement, whatever part of the sets is listed."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest
from brute_force import brute_force
from instances import mclb

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.mclb.local_search import descend
from keyshift.solvers.mclb.set_partitioning import PartitioningSettings, SetPartitioning

MANY, FEW, FEWER = (
    PartitioningSettings(),
    PartitioningSettings(40, 40, batch=3),
    PartitioningSettings(most_columns=12, most_cells=0),
)


def searched(problem: ks.MCLB, settings: PartitioningSettings, poor: bool) -> tuple[bool, SetPartitioning]:
    core = problem.core
    start = np.where(core.current < 0, 0, core.current) if poor else descend(core, 0, rounds=5)
    margin = 0.5 * problem.tolerance_of(core.squares(start) / core.nodes) * core.nodes
    sets = SetPartitioning(core, start, margin, settings)
    return sets.run(Budget(60)), sets


@functools.cache
def tiny() -> list[tuple[ks.MCLB, float]]:
    rng = np.random.default_rng(5)
    drawn = [mclb.random_problem(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4))) for _ in range(60)]
    return [(problem, least) for problem in drawn if (least := brute_force(problem)[0]) is not None]


@pytest.mark.parametrize("settings", [MANY, FEW, FEWER], ids=["all sets", "by price", "the nearest"])
@pytest.mark.parametrize("poor", [False, True], ids=["good start", "poor start"])
def test_sets_agree_with_every_placement(settings, poor):
    proven = 0
    for problem, least in tiny():
        done, sets = searched(problem, settings, poor)
        found, n = problem.objective(problem.core.lift(sets.best)), problem.core.nodes
        assert not problem.violations(problem.core.lift(sets.best))
        assert sets.bound / n <= least + 1e-12 * problem.scale
        if done:
            proven += 1
            assert found == pytest.approx(least, abs=problem.tolerance_of(least))
    assert proven >= (30 if settings is MANY else 10)


def test_sets_prove_what_placing_one_key_group_after_another_does_not():
    rng = np.random.default_rng(8)
    for limit in (None, 20.0):
        load = rng.integers(1, 10, (4, 24)).astype(float)
        w = ks.Workload(load=load, state=rng.integers(1, 5, 24), current=rng.integers(0, 7, 24), nodes=7)
        found = ks.solve(ks.MCLB(w, max_state_moved=limit), time_limit=60)
        assert found.status == "optimal"


def test_thirty_two_key_groups_have_a_bound():
    load = np.random.default_rng(2).random((3, 32))
    w = ks.Workload(load=load, state=np.ones(32), current=np.arange(32) % 5, nodes=5)
    assert ks.solve(ks.MCLB(w), time_limit=8).bound > 0


def test_sets_of_many_windows_heed_the_limit():
    """A tree over twenty windows prunes nothing: looking through all pairs of subsets took minutes."""
    rng = np.random.default_rng(4)
    load = 10 * (rng.pareto(1.3, 30) + 1) * rng.uniform(0.5, 1.5, (20, 30))
    w = ks.Workload(load=load, state=np.ones(30), current=rng.integers(0, 2, 30), nodes=2)
    core, began = ks.MCLB(w, max_state_moved=9.0).core, time.process_time()
    assert not SetPartitioning(core, np.maximum(core.current, 0), 0.0).run(Budget(0.5))
    assert time.process_time() - began < 5

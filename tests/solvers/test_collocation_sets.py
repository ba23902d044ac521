"""Collocated allocation by sets of key groups: against every assignment, whatever part of the sets a round looks at."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from brute_force import brute_force
from instances import collocation

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.collocation.arrays import arrays_of
from keyshift.solvers.collocation.sets import CollocationSets, CollocationSetsSettings

MANY, FEW = CollocationSetsSettings(), CollocationSetsSettings(most_columns=30, fresh=5)


@functools.cache
def tiny() -> list[tuple[ks.CollocatedAllocation, float | None]]:
    rng = np.random.default_rng(7)
    drawn = [collocation.random_problem(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4))) for _ in range(150)]
    return [(p, brute_force(p)[0]) for p in drawn if CollocationSets.suits(p, arrays_of(p))]


@pytest.mark.parametrize("settings", [MANY, FEW], ids=["all sets", "by price"])
@pytest.mark.parametrize("begun", [False, True], ids=["no start", "current nodes"])
def test_sets_agree_with_every_assignment(settings, begun):
    proven = infeasible = 0
    for problem, least in tiny():
        data, current = arrays_of(problem), problem.workload.current
        start = current if begun and not problem.violations(current) else None
        closer = 0.5 * problem.tolerance / (problem.saved * data.traffic_unit)
        sets = CollocationSets(problem, data, start, closer, data.allowed, settings)
        done = sets.run(Budget(60))
        if least is None:
            infeasible += done
            assert sets.best is None
            continue
        remote = least / problem.saved / data.traffic_unit
        if problem.minimise == "total_load":
            remote = 1 - (float(problem.remote_loads.sum()) - least) / (problem.saved * data.traffic_unit)
        assert sets.lowest <= remote + 1e-9
        if done:
            proven += 1
            assert problem.objective(sets.best) == pytest.approx(least, abs=problem.tolerance)
    assert proven > 40
    assert infeasible > 5


def test_twenty_key_groups_that_all_talk_are_proven():
    rng = np.random.default_rng(1)
    traffic = rng.integers(0, 100, (20, 20)).astype(float)
    np.fill_diagonal(traffic, 0)
    w = ks.Workload(load=rng.uniform(1, 10, 20), state=np.ones(20), current=np.arange(20) % 5, nodes=5, traffic=traffic)
    found = ks.solve(ks.CollocatedAllocation(w, max_load_distance=20, max_migrations=6), time_limit=60)
    assert found.status == "optimal"
    assert found.details["sets"] >= 0

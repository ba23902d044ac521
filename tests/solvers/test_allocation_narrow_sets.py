"""Key-group allocation by sets near the mean: against every assignment, and dozens of key groups that end proven."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws, rest_slow
from instances.allocation import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.incumbent import Incumbent
from keyshift.solvers.allocation.narrow_sets import NarrowSets, NarrowSettings, Portion

FEW = NarrowSettings(first=3, priced=2)


@pytest.mark.parametrize("settings", [NarrowSettings(), FEW], ids=["all sets", "priced, a few at a time"])
@draws(25, 150)
def test_covers_agree_with_every_assignment(settings, count):
    rng, proven = np.random.default_rng(5), 0
    for number in range(count):
        problem = random_problem(rng, int(rng.integers(2, 7)), int(rng.integers(2, 4)))
        found = Incumbent(problem, Budget(60))
        least = brute_force(problem)[0]
        if not found.offer(problem.workload.current):
            continue
        sets = NarrowSets(found, Instance(problem), number, settings)
        sets.even_out(3)
        sets.prove()
        assert found.bound <= least + 1e-12 * problem.scale
        if found.proven:
            proven += 1
            assert found.objective == pytest.approx(least, abs=problem.tolerance)
    assert proven > 0.4 * count


def test_too_many_sets_with_the_same_load_are_none():
    """No distance is so small that it leaves fewer of them."""
    w = ks.Workload(load=np.ones(12), state=np.ones(12), current=np.zeros(12), nodes=2)
    instance = Instance(ks.KeyGroupAllocation(w))
    part = Portion(instance, w.current, np.arange(12), np.arange(2))
    assert part.near(0.5, 0.0, NarrowSettings(most_columns=100)) is None
    near, _ = part.near(0.5, 0.0, NarrowSettings(most_columns=1000))
    assert near.bits.size == 924


def test_distances_of_whole_loads_on_nodes_that_drain():
    rng, closed = np.random.default_rng(8), 0
    for _ in range(120):
        p, n = int(rng.integers(3, 7)), int(rng.integers(2, 4))
        w = ks.Workload(
            load=rng.choice([2, 4, 6], p), state=np.ones(p), current=rng.integers(0, n, p), nodes=n,
            draining=np.arange(n) == n - 1,
        )  # fmt: skip
        problem = ks.KeyGroupAllocation(w, into_draining=bool(rng.random() < 0.3))
        found, least = Incumbent(problem, Budget()), brute_force(problem)[0]
        found.raise_bound(0.0, "whole loads")
        assert found.bound <= least + 1e-12
        closed += least > 0 and found.bound == pytest.approx(least, rel=1e-6)
    assert closed > 15


@pytest.mark.parametrize(
    ("nodes", "key_groups", "limits"),
    rest_slow(1, [(3, 75, {"max_migrations": 12}), (7, 30, {"max_migrations": 9})]),
)
def test_uneven_loads_of_teaching_size_are_proven(nodes, key_groups, limits):
    rng = np.random.default_rng(nodes)
    load, state = rng.uniform(1, 10, key_groups), rng.integers(1, 10, key_groups)
    w = ks.Workload(load=load, state=state, current=np.arange(key_groups) % nodes, nodes=nodes)
    found = ks.solve(ks.KeyGroupAllocation(w, **limits), gap=0, second_stage=False, time_limit=60)
    assert found.status == "optimal", found


@pytest.mark.parametrize(
    "settings",
    [NarrowSettings(first=3), NarrowSettings(first=3, most_key_groups=4, heavy_columns=15)],
    ids=["all key groups", "the heaviest in a short word"],
)
@draws(20, 120)
def test_what_the_heaviest_key_groups_find_beside_them_bounds_every_assignment(settings, count):
    rng, told = np.random.default_rng(7), 0
    for number in range(count):
        problem = random_problem(rng, int(rng.integers(3, 8)), int(rng.integers(2, 4)))
        least, found = brute_force(problem)[0], Incumbent(problem, Budget(60))
        if not found.offer(problem.workload.current):
            continue
        NarrowSets(found, Instance(problem), number, settings).heaviest_first(2)
        assert found.bound <= least + 1e-12 * problem.scale
        told += found.bound > 0.5 * least > 0
    assert told > 0.1 * count


def test_a_heavy_key_group_beside_which_little_fits_is_proven_at_once():
    """73 key groups: the node of the heaviest is as near the mean as one more key group brings it."""
    load = 1000.0 * np.arange(1, 74) ** -0.8
    current = np.argsort(np.argsort(np.arange(73) * 0.618 % 1)) % 7
    w = ks.Workload(load=load, state=np.ones(73), current=current, nodes=7)
    found = ks.solve(ks.KeyGroupAllocation(w), second_stage=False, time_limit=60)
    beside = np.abs(load[0] + np.append(load[1:], 0.0) - load.sum() / 7).min()
    assert found.status == "optimal", found
    assert found.objective == pytest.approx(beside, rel=1e-6)

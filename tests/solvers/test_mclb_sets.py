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
from keyshift.models.answer import STEP
from keyshift.solvers.mclb import near_sets
from keyshift.solvers.mclb.branch_and_bound import TreeSettings, _hopeless
from keyshift.solvers.mclb.near_sets import FewNodes, NearSettings
from keyshift.solvers.mclb.pair_splits import PairSplits, descend
from keyshift.solvers.mclb.set_partitioning import PartitioningSettings, SetPartitioning

MANY, FEW, FEWER = (
    PartitioningSettings(),
    PartitioningSettings(40, 40, batch=3),
    PartitioningSettings(most_columns=12, most_cells=0),
)


ALL_NEAR, GROWING = (
    NearSettings(),
    NearSettings(shares=(3, 10**6), first_sets=2, growth=1.5, looked=5, cells=3, piece=2),
)


def searched(
    problem: ks.MCLB, settings: PartitioningSettings | NearSettings, poor: bool
) -> tuple[bool, SetPartitioning | FewNodes]:
    core = problem.core
    start = np.where(core.current < 0, 0, core.current) if poor else descend(core, 0, rounds=5)
    margin = 0.5 * problem.tolerance_of(core.squares(start) / core.nodes) * core.nodes
    engine = FewNodes if isinstance(settings, NearSettings) else SetPartitioning
    sets = engine(core, start, margin, settings)
    return sets.run(Budget(60)), sets


@functools.cache
def tiny() -> list[tuple[ks.MCLB, float]]:
    rng = np.random.default_rng(5)
    drawn = [mclb.random_problem(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4))) for _ in range(60)]
    return [(problem, least) for problem in drawn if (least := brute_force(problem)[0]) is not None]


@pytest.mark.parametrize(
    ("key_groups", "units", "alone"), [(40, 2, False), (41, 2, True), (60, 6, False), (61, 6, True), (60, None, False)]
)
def test_a_tree_of_dozens_of_key_groups_needs_seconds(key_groups, units, alone):
    core = next(iter(ks.family("guo-mclb", nodes=4, key_groups=key_groups, windows=3)))[1].core
    assert _hopeless(core, Budget(effort=units), TreeSettings()) == alone


def test_shaken_placements_end_with_their_share_of_the_limit():
    core = next(iter(ks.family("guo-mclb", nodes=4, key_groups=40, windows=3)))[1].core
    limit = Budget(effort=0.01)
    some = core.squares(descend(core, 0, limit=limit))
    assert limit.expired
    assert limit.elapsed < 0.011
    assert core.squares(descend(core, 0)) < some < core.squares(descend(core, 0, rounds=0))


@pytest.mark.parametrize(
    "settings",
    [MANY, FEW, FEWER, ALL_NEAR, GROWING],
    ids=["all sets", "by price", "the nearest", "near the mean", "growing"],
)
@pytest.mark.parametrize("poor", [False, True], ids=["good start", "poor start"])
def test_sets_agree_with_every_placement(settings, poor):
    proven = 0
    for problem, least in tiny():
        if isinstance(settings, NearSettings) and problem.core.nodes == 1:
            continue
        done, sets = searched(problem, settings, poor)
        found, n = problem.objective(problem.core.lift(sets.best)), problem.core.nodes
        assert not problem.violations(problem.core.lift(sets.best))
        assert sets.bound / n <= least + 1e-12 * problem.scale
        if done:
            proven += 1
            assert found == pytest.approx(least, abs=problem.tolerance_of(least))
    assert proven >= (10 if settings in (FEW, FEWER) else 30)


class Looks(Budget):
    """Ends at the so many-th look at it."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    @property
    def expired(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("step", [5, pytest.param(2, marks=pytest.mark.slow)])
def test_wherever_near_sets_are_interrupted_their_bound_is_safe(step):
    informative = 0
    for problem, least in tiny():
        core = problem.core
        for looks in range(1, 60, step) if core.nodes > 1 else ():
            sets = FewNodes(core, np.maximum(core.current, 0), 1e-9 * problem.scale, GROWING)
            done = sets.run(Looks(looks))
            assert sets.bound / core.nodes <= least + 1e-9 * problem.scale, looks
            informative += not done and sets.bound > 0
    assert informative > 40 / step


def test_sets_prove_what_placing_one_key_group_after_another_does_not():
    rng = np.random.default_rng(8)
    for limit in (None, 20.0):
        load = rng.integers(1, 10, (4, 24)).astype(float)
        w = ks.Workload(load=load, state=rng.integers(1, 5, 24), current=rng.integers(0, 7, 24), nodes=7)
        found = ks.solve(ks.MCLB(w, max_state_moved=limit), time_limit=60)
        assert found.status == "optimal"


@pytest.mark.parametrize("nodes", [3, 5])
def test_thirty_two_key_groups_in_three_windows_are_proven(nodes):
    load = np.random.default_rng(2).random((3, 32))
    w = ks.Workload(load=load, state=np.ones(32), current=np.arange(32) % nodes, nodes=nodes)
    found = ks.solve(ks.MCLB(w), time_limit=20, gap=0.0)
    assert found.status == "optimal"
    assert found.bound > 0


def test_forty_eight_key_groups_are_proven_where_no_set_near_the_mean_is_heavy():
    load = np.random.default_rng(3).uniform(1, 10, (3, 48))
    core = ks.MCLB(ks.Workload(load=load, state=np.ones(48), current=np.arange(48) % 7, nodes=7)).core
    start = PairSplits(core, descend(core, 0, rounds=5), 0).go_on(Budget(5))
    sets = FewNodes(core, start, 1e-3 * core.squares(start))
    assert sets.run(Budget(30))
    assert sets.bound > 0.99 * core.squares(sets.best)


def test_effort_counts_the_sets_that_are_looked_at(monkeypatch):
    """Fifty million of them were one look at the budget: a unit of work took minutes."""
    looked, put_together = [0], near_sets.put_together

    def counted(*instance):
        code, more = put_together(*instance)
        looked[0] += more
        return code, more

    monkeypatch.setattr(near_sets, "put_together", counted)
    load, budget = np.random.default_rng(3).random((3, 32)), Budget(effort=1.0)
    core = ks.MCLB(ks.Workload(load=load, state=np.ones(32), current=np.arange(32) % 8, nodes=8)).core
    start = descend(core, 0, rounds=5)
    assert FewNodes(core, start, 1e-3 * core.squares(start)).run(budget)
    assert 0 < STEP * looked[0] / NearSettings().looks <= budget.elapsed


def test_more_than_one_node_may_be_empty():
    load = np.array([[100.0, 100.0, 1.0, 1.0], [100.0, 90.0, 0.0, 1.0]])
    core = ks.MCLB(ks.Workload(load=load, state=np.ones(4), current=[0, 0, 0, 0], nodes=6)).core
    sets = FewNodes(core, np.zeros(4, np.int64), 1e-3, ALL_NEAR)
    assert sets.run(Budget(10))
    assert sets.value == pytest.approx(core.squares(np.array([0, 1, 2, 3])))


def test_sets_of_many_windows_heed_the_limit():
    """A tree over twenty windows prunes nothing: looking through all pairs of subsets took minutes."""
    rng = np.random.default_rng(4)
    load = 10 * (rng.pareto(1.3, 30) + 1) * rng.uniform(0.5, 1.5, (20, 30))
    w = ks.Workload(load=load, state=np.ones(30), current=rng.integers(0, 2, 30), nodes=2)
    core, began = ks.MCLB(w, max_state_moved=9.0).core, time.process_time()
    assert not SetPartitioning(core, np.maximum(core.current, 0), 0.0).run(Budget(0.5))
    assert time.process_time() - began < 5


def test_more_subsets_than_the_settings_allow_are_not_listed():
    problem, _ = tiny()[0]
    sets = SetPartitioning(problem.core, np.maximum(problem.core.current, 0), 0.0, PartitioningSettings(most_subsets=1))
    assert sets._sets(Budget(60)) == []

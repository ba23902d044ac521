"""Needless moves are undone and spare moves drain, at no cost to either stage."""

from __future__ import annotations

import numpy as np
import pytest
from instances.allocation import random_problem

import keyshift as ks
from keyshift.generators.allocation import synthetic_workload
from keyshift.solvers.allocation.ties import settle


def draining_load(problem: ks.KeyGroupAllocation, assignment: np.ndarray) -> int:
    return int(problem.workload.draining[assignment].sum())


@pytest.mark.parametrize("seed", range(5))
def test_nothing_gets_worse(seed):
    rng = np.random.default_rng(seed)
    fewer = emptier = 0
    for _ in range(200):
        problem = random_problem(rng, int(rng.integers(1, 9)), int(rng.integers(1, 4)))
        w = problem.workload
        start = np.where(rng.random(w.key_groups) < 0.5, rng.integers(0, w.nodes, w.key_groups), w.current)
        before = problem.check(start)
        if not before.feasible:
            continue
        settled = settle(problem, start)
        after = problem.check(settled)
        assert after.feasible
        for name in ("load_distance", "deviation_sum"):
            assert after.metrics[name] <= before.metrics[name] + 1e-11 * problem.scale
        assert draining_load(problem, settled) <= draining_load(problem, start)
        emptier += draining_load(problem, settled) < draining_load(problem, start)
        fewer += after.metrics["migrations"] < before.metrics["migrations"]
    assert fewer > 0
    assert emptier > 0


def test_a_needless_exchange_is_undone():
    w = ks.Workload(load=[2, 2, 3, 3], state=np.ones(4), current=[0, 1, 0, 1], nodes=2)
    problem = ks.KeyGroupAllocation(w)
    assert settle(problem, np.array([1, 0, 0, 1])).tolist() == [0, 1, 0, 1]


def test_two_moves_that_meet_become_one():
    """Key group 0 goes to node 1 and 1 from there to node 2: sending 0 straight on does the same."""
    w = ks.Workload(load=[2, 2, 2, 2], state=np.ones(4), current=[0, 1, 0, 0], nodes=3)
    problem = ks.KeyGroupAllocation(w)
    settled = settle(problem, np.array([1, 2, 0, 0]))
    assert settled.tolist() == [2, 1, 0, 0]


def test_spare_moves_empty_draining_nodes():
    w = ks.Workload(
        load=[9, 4, 4, 1, 1, 1], state=np.ones(6), current=[0, 1, 1, 2, 2, 2], nodes=3, draining=[False, False, True]
    )
    settled = settle(ks.KeyGroupAllocation(w, max_migrations=2), w.current)
    assert settled.tolist() == [0, 1, 1, 1, 2, 2]  # mean 10: two on node 1 leave it at 9 - one more would need node 0
    assert settle(ks.KeyGroupAllocation(w, max_migrations=0), w.current).tolist() == w.current.tolist()
    assert settle(ks.KeyGroupAllocation(w, max_migration_cost=0.5), w.current).tolist() == w.current.tolist()


def test_milp_moves_no_more_than_it_must():
    """One node off among many that are fine: the optimum needs three moves, the limit would allow nine."""
    w = ks.Workload(
        load=np.ones(200),
        state=np.ones(200),
        current=[0] * 23 + [1] * 17 + list(np.repeat(np.arange(2, 10), 20)),
        nodes=10,
    )
    s = ks.solve(ks.KeyGroupAllocation(w, max_migrations=9))
    assert s.status == "optimal"
    assert s.objective == 0
    assert s.metrics["migrations"] == 3


def test_large_instances_settle_quickly():
    problem = ks.KeyGroupAllocation(synthetic_workload(50, 5000, varies=0.4), max_migrations=1000)
    rng = np.random.default_rng(0)
    start = problem.workload.current.copy()
    start[rng.choice(5000, 1000, replace=False)] = rng.integers(0, 50, 1000)
    settled = settle(problem, start)
    assert problem.objective(settled) <= problem.objective(start) + 1e-9
    assert (settled != problem.workload.current).sum() < 500

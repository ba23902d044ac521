"""The baselines of [Ding2015]'s experiments, and the price of contiguity."""

from __future__ import annotations

import numpy as np
import pytest
from instances.intervals import random_problem

import keyshift as ks
from keyshift.heuristics.intervals.baselines import consistent_hashing, nodes_alive, redist, storm


def example(nodes_after, nodes=3, m=12, tau=0.2, **more):
    rng = np.random.default_rng(0)
    current = np.sort(rng.integers(0, nodes, m))
    w = ks.Workload(load=rng.integers(1, 9, m), state=rng.integers(1, 9, m), current=current, nodes=nodes, **more)
    return ks.IntervalMigration(w, nodes_after, tau)


def test_storm_counts_tasks():
    for n in (1, 2, 4, 5):
        after = storm(example(n))
        sizes = np.bincount(after)
        assert sizes.size == n
        assert sizes.max() - sizes.min() <= 1
        assert (np.diff(after) >= 0).all()


def test_consistent_hashing_moves_as_few_tasks_as_even_numbers_need():
    for n in (1, 2, 3, 4, 5):
        p = example(n)
        after = consistent_hashing(p, np.random.default_rng(1))
        held = np.bincount(after, minlength=p.places)
        assert held.max() - held[nodes_alive(p)].min() <= 1
        before = np.bincount(p.workload.current, minlength=p.places)
        assert (after != p.workload.current).sum() == np.maximum(before - held, 0).sum()
    with_seed = [consistent_hashing(example(5), np.random.default_rng(s)).tolist() for s in (1, 1, 2)]
    assert with_seed[0] == with_seed[1] != with_seed[2]


def test_redist_keeps_what_fits():
    p = example(4, tau=0.5)
    after = redist(p)
    loads = np.bincount(after, weights=p.workload.last_load)
    assert loads.max() <= p.prefix.in_units(p.limit)
    assert (after == p.workload.current).any()


def test_baselines_leave_draining_nodes():
    p = example(3, draining=[False, True, False])
    for after in (storm(p), redist(p), consistent_hashing(p, np.random.default_rng(0))):
        assert 1 not in after
        assert set(after.tolist()) <= {0, 2, 3}


def test_an_answer_that_breaks_a_rule_is_dropped():
    solution = ks.solve(example(4, m=40), "consistent-hashing")
    assert solution.status == "none"
    assert "found no feasible assignment" in solution.message


def test_the_free_assignment_bounds_the_intervals():
    rng = np.random.default_rng(3)
    price = 0.0
    for _ in range(15):
        p = random_problem(rng, int(rng.integers(2, 8)), 3)
        if p.conflicts():
            continue
        free, intervals = ks.solve(p, "free"), ks.solve(p)
        assert free.bound <= intervals.objective + 1e-9
        assert free.bound <= free.details["state_moved"] + 1e-9
        price = max(price, intervals.objective - free.details["state_moved"])
    assert price > 0


def test_the_free_assignment_knows_what_cannot_be():
    w = ks.Workload(load=[2, 2, 2], state=[1, 1, 1], current=[0, 0, 0], nodes=1)
    p = ks.IntervalMigration(w, 2, 0)
    assert p.conflicts()
    answer = next(m for m in ks.methods(p) if m.name == "free").function(p, budget=ks.models.Budget())
    assert answer.termination == "infeasible"


@pytest.mark.parametrize("method", ["milp", "cp-sat", "free"])
def test_large_statements_are_refused(method):
    w = ks.Workload(load=np.ones(2000), state=np.ones(2000), current=np.repeat(np.arange(100), 20), nodes=100)
    assert "more than the" in ks.solve(ks.IntervalMigration(w, 120, 0.5), method).message

"""Baselines, the generator, and explanations of key-group allocation."""

from __future__ import annotations

import numpy as np

import keyshift as ks
from keyshift.generators.allocation import synthetic_workload
from keyshift.heuristics.allocation.flux import drain_first
from keyshift.models import Budget


def test_generator_is_the_papers():
    w = synthetic_workload(20, 400, varies=0.4, seed=1)
    loads = np.bincount(w.current, w.last_load, 20)
    drifted = np.sort(loads)[[0, 1, -2, -1]]
    np.testing.assert_allclose(drifted / 20, [0.8, 0.8, 1.2, 1.2], atol=0.02)
    assert (np.abs(np.sort(loads)[2:-2] / 20 - 1) < 0.03).all()
    assert (np.bincount(w.current) == 20).all()
    again = synthetic_workload(20, 400, varies=0.4, seed=1)
    np.testing.assert_array_equal(w.load, again.load)


def test_potc_only_ever_lowers_the_higher_node():
    problem = ks.KeyGroupAllocation(synthetic_workload(10, 100), max_migrations=12)
    before = problem.objective(problem.workload.current)
    solution = ks.solve(problem, "potc", seed=1)
    assert solution.metrics["migrations"] <= 12
    assert solution.objective <= before
    stay = ks.solve(problem, "potc", choices=1)
    assert stay.metrics["migrations"] == 0


def test_flux_uses_the_limit_on_moves_up_and_no_more():
    workload = synthetic_workload(20, 400)
    free = ks.solve(ks.KeyGroupAllocation(workload), "flux").metrics["migrations"]
    assert free > 5
    assert ks.solve(ks.KeyGroupAllocation(workload, max_migrations=5), "flux").metrics["migrations"] == 5


def test_drain_first_drains_before_it_balances():
    w = synthetic_workload(10, 100, drain=2)
    few = ks.solve(ks.KeyGroupAllocation(w, max_migrations=5), "drain-first", time_limit=1.0)
    assert few.details == {"drained": 5, "left": 15}
    assert w.draining[w.current[few.assignment != w.current]].all()
    problem = ks.KeyGroupAllocation(w, max_migrations=30)
    many = ks.solve(problem, "drain-first", time_limit=0.5)
    assert not w.draining[many.assignment].any()
    assert ks.solve(problem, time_limit=1.0).objective <= many.objective


def test_integrated_scale_in_mends_an_overload_that_drain_first_leaves():
    calm = synthetic_workload(20, 200, varies=0.0, drain=4, seed=2)
    w = calm.replace(load=calm.last_load * np.where(calm.current == 0, 2.0, 1.0))
    problem = ks.KeyGroupAllocation(w, max_migrations=10)
    assert ks.solve(problem, time_limit=2.0).objective < 0.7 * ks.solve(problem, "drain-first").objective


def test_draining_first_tells_no_bound_of_what_is_left_to_balance():
    problem = next(iter(ks.family("madsen-scale-in", nodes=8, key_groups=60, drain=2, max_migrations=18)))[1]
    told = []
    budget = Budget(0.3, watch=lambda now: told.append(now.bound))
    assert problem.check(drain_first(problem, budget=budget).assignment).feasible
    assert budget.progress.bound is None
    assert not any(told)


def problem(load, current, nodes, **options):
    w = ks.Workload(
        load=load, state=np.ones(len(load)), current=current, nodes=nodes, resources={"memory": np.ones(len(load))}
    )
    return ks.KeyGroupAllocation(w, **options)


def test_one_round_pairs_most_with_least_loaded():
    # Loads 12, 8, 4, 0: the first gives to the last, the second to the third. From the first (7, 5) the 7 lowers the
    # higher of 12 and 0 to 7; from the second (5, 3) the 5 would lift the third to 9 > 8, the 3 to 7.
    p = problem([7, 5, 5, 3, 4], [0, 0, 1, 1, 2], 4)
    s = ks.solve(p, "flux", rounds=1)
    np.testing.assert_array_equal(s.assignment, [3, 0, 1, 2, 2])
    assert s.details["rounds"] == 1


def test_the_migration_limit_holds_and_the_next_smaller_key_group_is_tried():
    w = ks.Workload(load=[7, 5, 1], state=[10, 2, 1], current=[0, 0, 0], nodes=2)
    s = ks.solve(ks.KeyGroupAllocation(w, max_migration_cost=2), "flux")
    np.testing.assert_array_equal(s.assignment, [0, 1, 0])

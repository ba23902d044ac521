"""Baselines, the generator, and explanations of key-group allocation."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 5, "key_groups": 4}, "at least one key group"),
        ({"nodes": 5, "key_groups": 20, "varies": -1}, "varies = -1"),
        ({"nodes": 5, "key_groups": 20, "drain": 5}, "drain = 5"),
    ],
)
def test_generator_refuses_nonsense(options, message):
    with pytest.raises(ks.InputError, match=message):
        synthetic_workload(**options)


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


def test_explanation_values_every_move_by_undoing_it():
    w = ks.Workload(load=[5, 4, 3, 2], state=[1, 2, 3, 4], current=[1, 1, 1, 1], nodes=2)
    problem = ks.KeyGroupAllocation(w, max_migrations=2)
    said = ks.explain(problem, [1, 0, 0, 1], marginals=False)
    assert said.moves[["key_group", "gain"]].to_numpy().tolist() == [[1, 4.0], [2, 3.0]]
    assert said.binding == ("(2) all 2 migrations are used",)
    assert "key group 1: node 1 -> 0" in str(said)


def test_explanation_names_nodes_and_capacities_that_bind():
    w = ks.Workload(load=[5, 3], state=[1, 1], current=[0, 1], nodes=2, resources={"memory": [2, 2]})
    problem = ks.KeyGroupAllocation(w, max_migration_cost=0.5, resource_capacity={"memory": 3})
    text = str(ks.explain(problem, [0, 1], marginals=False))
    for part in ("(2) the migration cost left, 0.5", "(3) node 0", "(4) node 1", "(7) node 0 has 1 of memory left"):
        assert part in text


def test_drain_first_says_that_the_time_was_up():
    w = ks.Workload(load=[4, 3, 2, 1], state=[1] * 4, current=[0, 0, 1, 1], nodes=3, draining=[False, True, False])
    from keyshift.heuristics.allocation.flux import drain_first

    budget = ks.models.Budget(0.0)
    assert drain_first(ks.KeyGroupAllocation(w), budget=budget).termination == "time_limit"


def test_draining_first_tells_no_bound_of_what_is_left_to_balance():
    problem = next(iter(ks.family("madsen-scale-in", nodes=8, key_groups=60, drain=2, max_migrations=18)))[1]
    told = []
    budget = Budget(0.3, watch=lambda now: told.append(now.bound))
    assert problem.check(drain_first(problem, budget=budget).assignment).feasible
    assert budget.progress.bound is None
    assert not any(told)

"""Transfer schedules: against all orders, bounds on the right side, limits on the way."""

from __future__ import annotations

import dataclasses

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest
from schedule_oracle import least_overload, random_transfers, shortest

from keyshift.models.plans.pyomo_model import TransferPyomo
from keyshift.models.plans.transfers import TransferScheduling, Way, peaks
from keyshift.solvers.plans import fast_schedule, lower_bound, machine_bound, order_of, overload_of


def way_of(problem: TransferScheduling) -> Way:
    n = problem.nodes
    level = problem.held[0] if problem.held.shape[0] else np.ones(n)
    return Way(np.ones(3), np.ones(n), np.zeros(n, dtype=bool), level, level)


def raised(problem: TransferScheduling, overload: float) -> TransferScheduling:
    return dataclasses.replace(problem, limit=problem.limit * (1 + overload))


def agree_with_brute_force(seed: int, limited: bool) -> bool:
    """Compare overload, bound and schedule; whether the schedule is a shortest one."""
    rng = np.random.default_rng(seed)
    problem = random_transfers(rng, 5, limited)
    order = order_of(problem, way_of(problem), np.ones(problem.transfers))
    if limited:
        assert order.overload == pytest.approx(least_overload(problem), abs=1e-12)
        assert order.bound == pytest.approx(order.overload, abs=1e-12)
        assert overload_of(problem, order.order) <= order.overload + 1e-12
        problem = raised(problem, order.overload)
    best = shortest(problem)
    fast = fast_schedule(problem, seed=seed, order=order.order)
    assert not problem.violations(fast.starts)
    assert lower_bound(problem) <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= fast.seconds <= best * 1.5
    return fast.seconds <= best * (1 + 1e-9)


@pytest.mark.parametrize("limited", [False, True])
def test_schedules_agree_with_all_orders(limited):
    assert sum(agree_with_brute_force(seed, limited) for seed in range(30)) >= 29


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
def test_schedules_agree_with_all_orders_hundreds_of_times(limited):
    assert sum(agree_with_brute_force(seed, limited) for seed in range(100, 300)) >= 196


def test_a_triangle_takes_all_three_transfers():
    """Three nodes that send to each other: no node is busy for more than two, yet only one transfer runs at a time."""
    none = np.zeros((0, 3))
    p = TransferScheduling(
        np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([4.0, 4.0, 4.0]), 3, 1, none, np.zeros((0, 3)), none
    )
    assert lower_bound(p) == pytest.approx(12)
    assert fast_schedule(p).seconds == 12


def test_machine_bound_counts_whole_jobs():
    assert machine_bound(np.array([3.0, 3.0, 3.0]), 2) == 6  # not 4.5: one machine gets two
    assert machine_bound(np.array([5.0, 1.0]), 2) == 5
    assert machine_bound(np.empty(0), 2) == 0


def test_the_check_finds_each_broken_rule():
    held, limit = np.array([[2.0, 0.0, 3.0]]), np.array([[2.0, 3.0, 3.0]])
    p = TransferScheduling(
        np.array([0, 2]), np.array([1, 1]), np.array([2.0, 2.0]), 3, 1, held, np.array([[2.0, 2.0]]), limit
    )
    rules = [v.rule for v in p.violations(np.array([0.0, 1.0]))]
    assert rules == ["parallel", "limit"]
    assert [v.rule for v in p.violations(np.array([0.0, 2.0]))] == ["limit"]
    assert [v.rule for v in p.violations(np.array([-1.0, 2.0]))] == ["start", "limit"]
    p = dataclasses.replace(p, limit=np.array([[2.0, 4.0, 3.0]]))
    assert p.violations(np.array([0.0, 2.0])) == []


def test_a_key_group_counts_at_both_ends_while_it_moves():
    peak = peaks(
        np.array([5.0, 5.0]),
        np.array([2.0, 3.0]),
        np.array([0, 1]),
        np.array([1, 0]),
        np.array([0.0, 1.0]),
        np.array([1.0, 2.0]),
    )
    assert peak.tolist() == [6.0, 7.0]  # node 0: 5 - 2 + 3; node 1: 5 + 2


@pytest.mark.parametrize(("moves", "nodes", "parallel"), [(100, 8, 1), (100, 20, 2), (1000, 20, 1), (1000, 20, 3)])
def test_large_plans_end_near_the_bound(moves, nodes, parallel):
    rng = np.random.default_rng(moves + parallel)
    source = rng.integers(0, nodes, moves)
    target = (source + rng.integers(1, nodes, moves)) % nodes
    none = np.zeros((0, nodes))
    p = TransferScheduling(
        source, target, rng.pareto(1.5, moves) + 0.1, nodes, parallel, none, np.zeros((0, moves)), none
    )
    schedule = fast_schedule(p)
    assert not p.violations(schedule.starts)
    assert schedule.bound <= schedule.seconds <= 1.05 * schedule.bound


@pytest.mark.parametrize("limited", [False, True])
def test_its_file_is_solved_by_highs_with_the_optimum_of_all_orders(limited, tmp_path):
    rng, open_ones = np.random.default_rng(5 + limited), 0
    for _ in range(12):
        problem = random_transfers(rng, 4, limited)
        best = shortest(problem)
        statement = TransferPyomo(problem)
        path = tmp_path / "m.mps"
        statement.model.write(str(path), io_options={"symbolic_solver_labels": True})
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(path))
        highs.run()
        found = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        assert found == np.isfinite(best)
        if found:
            assert statement.unit * highs.getInfo().objective_function_value == pytest.approx(best, rel=1e-6)
            pyo.SolverFactory("appsi_highs").solve(statement.model)
            starts = statement.starts()
            assert problem.violations(starts) == []
            assert problem.makespan(starts) == pytest.approx(best)
            open_ones += problem.transfers > 2
    assert open_ones >= 3

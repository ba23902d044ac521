"""Numbers of any size, one decimal, capacities far apart: every method of a problem, held to the brute force."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from draws import rest_slow

import keyshift as ks
from keyshift.catalogue import FORMULATIONS


def allocation(load, state, current, nodes, **options) -> ks.KeyGroupAllocation:
    return ks.KeyGroupAllocation(ks.Workload(load=load, state=state, current=current, nodes=nodes), **options)


def collocation(load, edges, **options) -> ks.CollocatedAllocation:
    traffic = np.zeros((len(load), len(load)))
    for k, other, tuples in edges:
        traffic[k, other] = tuples
    current = np.arange(len(load)) // 2
    w = ks.Workload(load=load, state=np.ones(len(load)), current=current, nodes=2, traffic=traffic)
    return ks.CollocatedAllocation(w, **options)


def mclb(load, state, most) -> ks.MCLB:
    w = ks.Workload(load=[load], state=state, current=[0] * len(load), nodes=2)
    return ks.MCLB(w, max_state_moved=most)


def movement(load, state, current, nodes, lower, upper, **options) -> ks.MovementWithinLimits:
    w = ks.Workload(load=load, state=state, current=current, nodes=nodes)
    return ks.MovementWithinLimits(w, lower, upper, **options)


def routing(load, state, current, home, **options) -> ks.MixedRouting:
    w = ks.Workload(load=load, state=state, current=current, home=home, nodes=2)
    return ks.MixedRouting(w, **options)


EDGES = ((0, 2, 3.0), (1, 3, 1.0), (0, 3, 2.0))
CASES = {
    "budget met by one decimal": allocation([9, 4, 6, 4], [0.5, 0.5, 0.5, 0.4], [0] * 4, 2, max_migration_cost=0.4),
    "budget past 64 bits": allocation([3, 2], [1 / 3, 1 / 7], [0, 0], 2, max_migration_cost=1e9),
    "states a trillion apart in a budget": allocation(
        [3, 2, 3, 1], [1e-6, 1e6, 1e-6, 1e6], [0] * 4, 2, max_migration_cost=1e-6
    ),
    "nodes a million apart": allocation([3, 2, 1], [1, 1, 1], [0, 0, 0], [1e-3, 1e3]),
    "nodes a million apart, one move": allocation(
        [3, 2, 1, 7, 5], [1, 1, 1, 2, 2], [0, 0, 1, 1, 0], [1.0, 1e6], max_migrations=1
    ),
    "nodes 70,000 apart": allocation([3, 2, 1, 7], [1, 1, 1, 2], [0, 0, 1, 1], [1.0, 7e4]),
    "ceiling of billionths": allocation([3e-9, 2e-9, 1e-9], [1] * 3, [0, 0, 1], 2, mean="ceiling"),
    "ceiling of trillions": allocation([3e12, 2e12, 1e12 + 1, 7e11], [1] * 4, [0, 0, 1, 1], 2, mean="ceiling"),
    "traffic in trillions": collocation([3, 2, 2, 3], [(k, j, 1e12 * t) for k, j, t in EDGES]),
    "traffic in billionths of a thousandth": collocation([3, 2, 2, 3], [(k, j, 1e-12 * t) for k, j, t in EDGES]),
    "traffic in trillions that costs load": collocation(
        [3, 2, 2, 3], [(k, j, 1e12 * t) for k, j, t in EDGES], serialisation=1e-13, deserialisation=1e-13,
        minimise="total_load",
    ),
    "load in trillions": collocation([3e12, 2e12, 2e12, 3e12], EDGES),
    "series: budget met by one decimal": mclb([9, 4, 6, 4], [0.5, 0.5, 0.5, 0.4], 0.4),
    "series: sum of decimals": mclb([1, 2, 3], [0.1, 0.2, 0.3], 0.3),
    "series: decimals that round up": mclb([3, 0, 3, 1], [0.7, 0.1, 0.3, 0.2], 0.6),
    "series: states a trillion apart": mclb([3, 2, 3, 1], [1e-6, 1e6, 1e-6, 1e6], 1e-6),
    "limits a hair apart": movement([5, 5, 0], [3, 2, 1], [0, 0, 1], 3, 5 - 1e-9, 5, nodes_after=2),
    "limits a hair apart, any nodes": movement([5, 5, 0], [3, 2, 1], [0, 0, 1], 3, 5 - 1e-9, 5),
    "an empty node below a hair": movement([0, 0], [3, 2], [0, 1], 2, 1e-10, 1.0, nodes_after=1),
    "movement of next to nothing": movement([3] * 4, [2.8e-5, 1e12, 0, 1e6], [0, 0, 0, 1], 2, 0, 6, nodes_after=2),
    "routing of billionths": routing(
        [3e-9, 2e-9, 1e-9, 2e-9], [1, 2, 1, 2], [0, 0, 0, 1], [0, 1, 0, 1], theta_max=0.3, max_table_size=2
    ),
    "routing of next to nothing": routing([3] * 4, [2.8e-5, 1e12, 0, 1e6], [0, 0, 0, 1], [0, 0, 0, 1], theta_max=0.0),
}  # fmt: skip


@pytest.mark.parametrize("label", CASES)
def test_every_method_agrees_with_the_brute_force(label):
    problem = CASES[label]
    best, _ = brute_force(problem)
    assert best is not None
    for method in FORMULATIONS[problem.name].methods:
        solution = ks.solve(problem, method.name, time_limit=60.0)
        if method.kind == "exact":
            assert solution.status == solution.termination == "optimal", solution
            assert solution.objective <= best + solution.tolerance, solution
        assert solution.status != "infeasible", solution
        assert solution.bound is None or solution.bound <= best * (1 + 1e-12), solution


def test_what_highs_leaves_unexplored_is_taken_off_its_bound():
    """It stopped at 3.0000111, as 3.0000101 is less than its tolerance better, and said so much as a bound."""
    traffic = np.array(
        [[1.000001, 1 + 1e-15, 0, 0], [0, 0, 1.0000001, 0], [0, 0, 0, 1.000001], [0, 1.00001, 0, 1.0000001]]
    )
    w = ks.Workload(
        load=[1 + 1e-12, 1.0000001, 1 + 1e-15, 1.0000001], state=[3.0, 0, 3, 0], current=[1, 2, 0, 2], nodes=3, traffic=traffic
    )  # fmt: skip
    problem = ks.CollocatedAllocation(w, alpha=0.1, max_migration_cost=0.0, deserialisation=0.5, max_load_distance=50.0)
    best, _ = brute_force(problem)
    for seed in range(3):
        assert ks.solve(problem, "milp-plain", seed=seed).bound <= best


@pytest.mark.parametrize("limit", [{"max_migration_cost": 2.6666666666666664e-6, "alpha": 1e-6}, {"max_migrations": 1}])
def test_a_limit_on_what_has_to_leave_is_a_sentence(limit):
    """Only node 0 has room, so that no key group can stay: Pyomo takes no row without a variable."""
    w = ks.Workload(
        load=[6e9, 617283945.0], state=[8 / 3, 3 / 7], current=[1, 2], nodes=3, draining=[False, True, True],
        traffic=[[0, 1], [0, 0]],
    )  # fmt: skip
    room = {"load": [6617283945.0, 0, 0]}
    for problem in (
        ks.KeyGroupAllocation(w, resource_capacity=room, **limit),
        ks.CollocatedAllocation(w, resource_capacity=room, **limit),
    ):
        for method in FORMULATIONS[problem.name].methods:
            solution = ks.solve(problem, method.name, time_limit=60.0)
            assert solution.status == "infeasible" or (method.kind != "exact" and solution.status == "none"), solution


@pytest.mark.parametrize("method", ["min-table", "min-mig", "mixed", "mixed-bf"])
@pytest.mark.parametrize("degree", [1, 2, 8])
def test_compact_routing_in_any_unit(method, degree):
    """Loads round to powers of a degree: in billionths, as in trillions, to those of the same keys in ones."""
    load = np.array([3.0, 2, 1, 2, 5, 1])
    found = [
        ks.solve(
            routing(load * unit, load * unit, [0, 0, 0, 1, 1, 0], [0, 1, 0, 1, 1, 0], theta_max=0.5),
            method,
            compact=degree,
        )
        for unit in (1.0, 2.0**-30, 2.0**40, 1e-9, 1e12)
    ]
    assert all(solution.assignment is not None for solution in found), found
    for solution in found[1:3]:
        np.testing.assert_array_equal(solution.assignment, found[0].assignment)


@pytest.mark.parametrize("method", ["milp", "cp-sat", "highs"])
def test_a_start_that_meets_the_budget_by_one_decimal_is_kept(method):
    problem = CASES["budget met by one decimal"]
    solution = ks.solve(problem, method, start=[0, 0, 0, 1], time_limit=60.0)
    assert (solution.status, solution.objective) == ("optimal", 7.5)


@pytest.mark.parametrize("seed", rest_slow(2, range(4)))
def test_one_decimal_data(seed):
    """Budgets that a sum of one-decimal states meets exactly: no float knows these."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        p = int(rng.integers(3, 6))
        load, state = rng.integers(0, 10, p).astype(float), rng.integers(0, 9, p) / 10
        most = float(sum(rng.permutation(state)[:2]))
        for problem, methods in (
            (allocation(load, state, [0] * p, 2, max_migration_cost=most), ("milp", "highs", "cp-sat")),
            (mclb(load, state, most), ("cp-sat", "milp", "scip", "branch-and-bound")),
        ):
            best, _ = brute_force(problem)
            for method in methods:
                solution = ks.solve(problem, method, time_limit=60.0)
                assert solution.status == "optimal", (problem, solution)
                assert solution.objective <= best + solution.tolerance, (problem, solution)
                assert solution.bound <= best * (1 + 1e-12), (problem, solution)

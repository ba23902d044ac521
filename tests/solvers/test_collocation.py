"""Collocated allocation: the problem, its exact models and its bounds, against brute force and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws, rest_slow
from instances.collocation import random_problem

import keyshift as ks
from keyshift.models.answer import Budget
from keyshift.solvers.collocation import portfolio
from keyshift.solvers.collocation.local_search import search_turns
from keyshift.solvers.conductor import Component, conduct

BOUNDS = ("lp", "lagrange", "cut", "sdp")


def workload(load, current, nodes, edges, **options):
    traffic = np.zeros((len(load), len(load)))
    for k, other, tuples in edges:
        traffic[k, other] = tuples
    return ks.Workload(load=load, state=np.ones(len(load)), current=current, nodes=nodes, traffic=traffic, **options)


def small(seed):
    rng = np.random.default_rng(seed)
    return random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4)))


def agree_with_brute_force(seeds, methods):
    feasible = 0
    for seed in seeds:
        problem = small(seed)
        best, _ = brute_force(problem)
        feasible += best is not None
        for method in methods:
            solution = ks.solve(problem, method, seed=1)
            if best is None:
                assert solution.status == "infeasible", (seed, solution)
            else:
                assert solution.status == "optimal", (seed, solution)
                assert solution.objective == pytest.approx(best, abs=problem.tolerance), seed
                assert solution.bound <= best * (1 + 1e-12), seed
    assert 0.4 * len(seeds) < feasible < 0.95 * len(seeds)  # both verdicts are put to the test


@pytest.mark.parametrize("method", ["milp", "milp-plain", "cp-sat", "lp"])
def test_a_limit_broken_by_key_groups_that_cannot_move_is_infeasible(method):
    # The other node drains and takes nothing, so the row of the memory has no variable left in it.
    w = workload([4, 6, 3], [0, 0, 0], 2, [(0, 1, 4)], draining=[False, True], resources={"memory": [3, 3, 3]})
    solution = ks.solve(ks.CollocatedAllocation(w, max_migrations=2, resource_capacity={"memory": [8, 8]}), method)
    assert (solution.status, solution.assignment) == ("infeasible", None)


@pytest.mark.parametrize("seed", rest_slow(8, range(400, 480)))
def test_bounds_are_below_the_optimum(seed):
    problem = small(seed)
    best, _ = brute_force(problem)
    for method in BOUNDS:
        bound = ks.solve(problem, method).bound
        if best is not None:
            assert bound is not None
            assert bound <= best + 1e-12 * abs(best)


def test_by_hand():
    # Two talkative pairs, both apart; one move. Bringing 2 to 0 saves 5, bringing 3 to 1 only 3; loads allow both.
    w = workload([1, 1, 1, 1, 2, 2], [0, 0, 1, 1, 0, 1], 2, [(0, 2, 5), (3, 1, 3)])
    problem = ks.CollocatedAllocation(w, max_load_distance=30, max_migrations=1)
    assert problem.objective(w.current) == 8
    best = ks.solve(problem)
    assert (best.objective, best.bound, best.status) == (3, 3, "optimal")
    assert best.metrics["collocation_factor"] == 5 / 8
    runner_up = ks.check(problem, [0, 0, 1, 0, 0, 1])
    assert not runner_up.feasible or runner_up.objective > 3
    assert ks.check(problem, [0, 1, 1, 1, 0, 1]).objective == 5
    two = ks.solve(ks.CollocatedAllocation(w, max_load_distance=30, max_migrations=2))
    assert two.objective == 0  # swap: 2 to node 0, 1 to node 1


def test_the_load_distance_binds():
    w = workload([4, 2, 4, 2], [0, 1, 1, 0], 2, [(0, 2, 9), (1, 3, 1)])
    loose = ks.solve(ks.CollocatedAllocation(w, max_load_distance=100 / 3 + 1e-9))
    tight = ks.solve(ks.CollocatedAllocation(w, max_load_distance=33))
    assert (loose.objective, tight.objective) == (0, 10)
    free = ks.solve(ks.CollocatedAllocation(w, max_load_distance=None))
    assert free.objective == 0
    points = ks.solve(ks.CollocatedAllocation(w, max_load_distance=2.0, distance_unit="load"))
    assert points.objective == 0
    assert ks.solve(ks.CollocatedAllocation(w, max_load_distance=1.9, distance_unit="load")).objective == 10


@pytest.mark.parametrize(
    ("assignment", "percent", "rule"),
    [
        ([0, 0, 1, 1], 0.0, None),
        ([0, 0, 0, 1], 50.0, None),
        ([0, 0, 0, 1], 49.9, "max_load_distance"),
        ([1, 1, 1, 1], 99.0, "max_load_distance"),
    ],
)
def test_the_load_rule_alone(assignment, percent, rule):
    w = workload([1, 1, 1, 1], [0, 0, 1, 1], 2, [(0, 1, 1)])
    report = ks.check(ks.CollocatedAllocation(w, max_load_distance=percent), assignment)
    assert [v.rule for v in report.violations] == ([] if rule is None else [rule])


def test_a_draining_node_may_be_empty_but_not_overloaded():
    w = workload([1, 1, 1, 6], [0, 0, 1, 2], 3, [(0, 1, 1)], draining=[False, False, True])
    limits = ks.CollocatedAllocation(w, max_load_distance=70)
    assert [v.where for v in ks.check(limits, [0, 0, 0, 1]).violations] == []
    assert [v.where for v in ks.check(ks.CollocatedAllocation(w, max_load_distance=20), [0, 0, 1, 2]).violations] != []


def test_infeasible_is_said_honestly():
    w = workload([10, 1, 1, 1], [0, 0, 0, 1], 2, [(0, 3, 1)])
    for method in ("milp", "milp-plain", "cp-sat"):
        found = ks.solve(ks.CollocatedAllocation(w, max_load_distance=5), method)
        assert found.status == "infeasible"
        assert "key group 0 alone loads" in found.message
    stuck = ks.solve(ks.CollocatedAllocation(w.replace(load=[5, 4, 1, 1]), max_load_distance=5, max_migrations=0))
    assert "nothing may move" in stuck.message


def test_what_collocation_saves_is_taken_off_the_node():
    w = workload([2, 2, 2, 2], [0, 1, 0, 1], 2, [(0, 1, 10), (2, 3, 4), (0, 0, 99)])
    problem = ks.CollocatedAllocation(
        w, max_load_distance=None, serialisation=0.1, deserialisation=0.2, minimise="total_load"
    )
    assert ks.check(problem, [0, 1, 0, 1]).objective == pytest.approx(8 + 0.3 * 14)
    assert ks.check(problem, [0, 0, 0, 1]).objective == pytest.approx(8 + 0.3 * 4)
    np.testing.assert_allclose(problem.load_model.node_loads(w, np.array([0, 0, 0, 1])), [6 + 0.1 * 4, 2 + 0.2 * 4])
    figures = ks.check(problem, [0, 0, 0, 1]).metrics
    assert figures["total_load"] == pytest.approx(9.2)
    assert figures["remote_traffic"] == 4


@draws(6, 12)
def test_both_objectives_have_the_same_optima_where_costs_are_even(count):
    for seed in range(count):
        problem = small(seed)
        other = {"remote_traffic": "total_load", "total_load": "remote_traffic"}[problem.minimise]
        problem = replace(problem, costs=None)
        twin = replace(problem, minimise=other)
        found = ks.solve(problem)
        if found.assignment is not None and problem.load_model.per_tuple > 0:
            assert ks.solve(twin).objective == pytest.approx(twin.objective(found.assignment), abs=twin.tolerance)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_load_distance": -1}, "max_load_distance"),
        ({"minimise": "latency"}, "minimise"),
        ({"distance_unit": "furlong"}, "distance_unit"),
        ({"sides": "lower"}, "sides"),
        ({"serialisation": -0.1}, "serialisation"),
        ({"max_migrations": 1.5}, "max_migrations"),
        ({"resource_capacity": {"load": 9}, "serialisation": 1.0}, "load"),
    ],
)
def test_bad_options_are_named(options, named):
    with pytest.raises(ks.InputError, match=named):
        ks.CollocatedAllocation(workload([1, 1], [0, 1], 2, [(0, 1, 1)]), **options)


def test_traffic_is_needed():
    with pytest.raises(ks.InputError, match="traffic"):
        ks.CollocatedAllocation(ks.Workload(load=[1], state=[1], current=[0], nodes=1))


def test_load_model_by_definition():
    rng = np.random.default_rng(5)
    for _ in range(20):
        p, n = 7, 3
        traffic = rng.integers(0, 5, (p, p)) * (rng.random((p, p)) < 0.5)
        w = ks.Workload(load=rng.random(p), state=np.ones(p), current=rng.integers(0, n, p), nodes=n, traffic=traffic)
        model, a = ks.replays.LoadModel(0.3, 0.1), rng.integers(0, n, p)
        by_hand = [
            w.last_load[k] + sum(0.3 * traffic[k, j] + 0.1 * traffic[j, k] for j in range(p) if a[j] != a[k])
            for k in range(p)
        ]
        np.testing.assert_allclose(model.key_group_loads(w, a), by_hand)
        with pytest.warns(DeprecationWarning, match="retired and goes in 0.5: write LoadModel"):
            fitted = ks.replays.LoadModel.fitted(w, a, np.array(by_hand))
        np.testing.assert_allclose([fitted.serialisation, fitted.deserialisation], [0.3, 0.1], atol=1e-9)


def test_load_model_for_a_share():
    w = workload([3, 5], [0, 1], 2, [(0, 1, 4)])
    model = ks.replays.LoadModel.for_share(w, 0.5)
    assert model.total_load(w, w.current) == pytest.approx(16)
    assert model.measured(w).last_load.sum() == pytest.approx(16)
    assert ks.replays.LoadModel.for_share(workload([3], [0], 1, []), 0.5) == ks.replays.LoadModel()
    with pytest.raises(ks.InputError, match="share"):
        ks.replays.LoadModel.for_share(w, 1.0)


def test_four_hundred_key_groups_one_to_one_are_proven():
    rng = np.random.default_rng(0)
    p, n = 400, 20
    load = rng.uniform(0.95, 1.05, p) * 100
    current = np.concatenate([rng.permutation(np.arange(40) % n) for _ in range(10)])
    edges = [
        (40 * o + j, 40 * (o + 1) + int(other), round(1000 * load[40 * o + j]))
        for o in range(9)
        for j, other in enumerate(rng.permutation(40))
    ]
    problem = ks.CollocatedAllocation(workload(load, current, n, edges), max_migrations=10)
    solution = ks.solve(problem)
    assert solution.status == "optimal"
    assert solution.metrics["migrations"] == 10
    assert solution.objective < problem.objective(problem.workload.current)


def test_a_search_goes_on_until_the_bound_or_the_end_of_the_limit():
    rng = np.random.default_rng(3)
    edges = [(k, int(other), 1 + k) for k, other in enumerate(rng.permutation(24))]
    problem = ks.CollocatedAllocation(workload(np.ones(24), np.arange(24) % 3, 3, edges), max_migrations=6)
    current, best = problem.workload.current, ks.solve(problem)
    assert best.status == "optimal"
    for bound, end in ((best.bound, "optimal"), (0.0, "time_limit")):
        run = portfolio.CollocationPortfolio(problem, Budget(effort=0.3), start=current)
        run.found.raise_bound(bound, "known")
        conduct(run.found, [Component("search", search_turns(run.found, 0, 100_000, True, True))])
        assert run.found.answer().termination == end
        assert run.found.objective == pytest.approx(best.objective)
    assert best.objective < problem.objective(current)


def test_a_bound_that_a_second_opinion_refutes_is_dropped():
    w = ks.Workload(
        load=[8 / 3, 1000010.0000000001, 1000010.0000000001, 2], state=[9.275908374470869e-4, 6.941992651201067,
        3.712675858051237, 0.4586558924427466], current=[1, 1, 0, 1], nodes=3,
        traffic=np.array([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], float),
    )  # fmt: skip
    limits = {"max_migrations": 1_000_000, "max_load_distance": 666673.7222222222, "distance_unit": "load"}
    s = ks.solve(ks.CollocatedAllocation(w, deserialisation=1.0, **limits), "milp-plain", seed=2)
    assert (s.status, s.objective) == ("optimal", 0)


@pytest.mark.parametrize(
    ("costs", "sentence"),
    [
        ({"rack": -1}, r"costs\['rack'\] = -1 must be at least 0"),
        ({"rack": float("nan")}, r"costs\['rack'\] = nan must be a finite number"),
        ({"shelf": 1}, "no domain 'shelf'; it has 'node', 'rack', 'zone'"),
        ({"node": 5, "rack": 1}, "a tuple between racks may not cost 1, less than between nodes, 5"),
        ({"node": 0, "rack": 0}, "one of them must be above 0"),
        ({}, "must map labels of nodes to costs"),
        ([1], "must map labels of nodes to costs"),
    ],
)
def test_costs_that_cannot_be_meant_are_refused(costs, sentence):
    with pytest.raises(ks.InputError, match=sentence):
        ks.CollocatedAllocation(on_racks(), costs=costs)


def test_the_widest_label_that_differs_sets_the_cost_of_a_tuple():
    """By hand: nodes 0 and 1 share a rack but not a zone, 0 and 2 a zone but not a rack, 0 and 3 neither."""
    apart = {1: 9.0, 2: 4.0, 3: 9.0}
    for node, cost in apart.items():
        problem = ks.CollocatedAllocation(on_racks(), costs={"zone": 9, "node": 1, "rack": 4}, max_load_distance=None)
        assert problem.objective(problem.canonical([0, node])) == 5 * cost
        assert problem.objective(problem.canonical([node, node])) == 0
    with pytest.raises(ks.InputError, match="leave out serialisation"):
        ks.CollocatedAllocation(on_racks(), costs={"rack": 1}, serialisation=0.1)
    with pytest.raises(ks.InputError, match="same between all nodes"):
        problem.record()


def on_racks():
    domains = {"rack": ["a", "a", "b", "b"], "zone": ["x", "y", "x", "y"]}
    return ks.Workload(load=[1, 1], state=[1, 1], current=[0, 0], nodes=4, traffic=[[0, 3], [2, 0]], domains=domains)


@pytest.mark.parametrize("method", ["cut", "milp"])
def test_bounds_on_the_levels_add_up_to_what_two_that_must_part_cost(method):
    """Two key groups of which no node, and no rack, may carry both: their 10 tuples cost 3, 1 for the nodes and 2 for the racks."""
    w = ks.Workload(
        load=[1, 1], state=[1, 1], current=[0, 1], nodes=2, domains={"rack": ["a", "b"]}, traffic=[[0, 10], [0, 0]]
    )
    found = ks.solve(
        ks.CollocatedAllocation(w, costs={"node": 1, "rack": 3}, max_load_distance=0.1), method, time_limit=5
    )
    assert 30 * (1 - 1e-6) <= found.bound <= 30


def test_bounds_of_two_levels_are_summed_with_their_steps():
    """Four key groups, one a node; two racks. Each pair of a rack's nodes talks as much as pairs across: 1 + 2 a tuple across."""
    traffic = np.triu(np.full((4, 4), 5.0), 1)
    w = ks.Workload(
        load=[1] * 4,
        state=[1] * 4,
        current=[0, 1, 2, 3],
        nodes=4,
        domains={"rack": ["a", "a", "b", "b"]},
        traffic=traffic,
    )
    problem = ks.CollocatedAllocation(w, costs={"node": 1, "rack": 3}, max_load_distance=0.1)
    optimum = ks.solve(problem, "cp-sat").objective
    assert optimum == 5 * (6 + 2 * 4)
    found = ks.solve(problem, "cut", time_limit=5)
    assert 0.99 * optimum <= found.bound <= optimum

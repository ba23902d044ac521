"""Mixed routing's heuristics: the paper's examples, Theorem 1, termination, honesty."""

from __future__ import annotations

import itertools
import types

import numpy as np
import pytest
from draws import draws
from instances.routing import battery, random_problem
from interpreted import interpret

import keyshift as ks
from keyshift.generators.routing import ZipfStream
from keyshift.heuristics.routing import mixed as readj
from keyshift.heuristics.routing import mixed as routing
from keyshift.heuristics.routing import three_phases
from keyshift.heuristics.routing.mixed import readj_plan
from keyshift.heuristics.routing.three_phases import RoutingPlanner
from keyshift.models import Budget
from keyshift.models.routing import compact as compact_module
from keyshift.models.routing.compact import compact, discretised

FIGURE_4 = ks.Workload(
    load=[7, 4, 2, 1, 5, 1], state=[7, 4, 2, 1, 5, 1], current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1], nodes=2
)


def second_interval(keys=2000, nodes=5, seed=0, limit=None, theta=0.08, **options):
    """A stream's second interval, its keys where a plan for the first one left them."""
    stream = ZipfStream(keys, nodes, seed=seed, **options)
    first = routing.mixed_plan(ks.MixedRouting(stream.workload(), theta_max=theta, max_table_size=limit))
    stream.advance()
    return ks.MixedRouting(stream.workload(first.assignment), theta_max=theta, max_table_size=limit)


# Figure 4 -----------------------------------------------------------------------------------------------------------


def test_figure_4_llfd():
    plan = routing.llfd_plan(ks.MixedRouting(FIGURE_4, theta_max=0))
    assert plan.assignment.tolist() == [1, 0, 1, 0, 0, 1]  # d1 = {k2, k4, k5}, d2 = {k1, k3, k6}
    assert plan.table_size == 4
    assert plan.loads.tolist() == [10, 10]
    assert plan.feasible


def test_figure_4_min_table():
    problem = ks.MixedRouting(FIGURE_4, theta_max=0, max_table_size=2)
    plan = routing.min_table_plan(problem)
    assert plan.assignment.tolist() == [0, 1, 0, 0, 1, 1]  # d1 = {k1, k3, k4}, d2 = {k2, k5, k6}
    assert plan.table_size == 2
    assert plan.loads.tolist() == [10, 10]
    assert plan.moved_back == 2
    assert plan.feasible


def test_figure_4_gamma():
    """With beta = 1, k1 and k2 have one priority; with beta = 0.5, k2's is higher ([Fang2016], section III-B)."""
    problem = ks.MixedRouting(FIGURE_4)
    assert (RoutingPlanner(problem, "gamma", 1.0).gamma() == 1).all()
    half = RoutingPlanner(problem, "gamma", 0.5).gamma()
    assert half[1] > half[0]


# Theorem 1 ----------------------------------------------------------------------------------------------------------


def perfect_instance(rng):
    """Loads that some assignment balances perfectly, none as large as the mean, placed at random."""
    n, mean = int(rng.integers(2, 6)), int(rng.choice([6, 10, 12, 30, 100, 1000]))
    load = []
    for _ in range(n):
        parts = min(int(rng.integers(2, 7)), mean)
        cuts = np.sort(rng.choice(np.arange(1, mean), parts - 1, replace=False))
        load += np.diff(np.concatenate([[0], cuts, [mean]])).tolist()
    current = rng.integers(0, n, len(load))
    return ks.Workload(load=load, state=load, current=current, home=current, nodes=n)


def holds_theorem_1(w):
    """LLFD from all keys and from Phase II's, aiming at 0 and at the bound itself; the largest theta / bound."""
    bound = (1 - 1 / w.nodes) / 3
    worst = 0.0
    for theta, everything in itertools.product((0.0, bound), (True, False)):
        plan = routing.llfd_plan(ks.MixedRouting(w, theta_max=theta), everything=everything)
        assert plan.theta <= bound * (1 + 1e-9), (w.last_load, w.current, theta, everything)
        worst = max(worst, plan.theta / bound)
    return worst


@draws(200, 1000)
def test_theorem_1(count):
    rng = np.random.default_rng(0)
    worst = max(holds_theorem_1(perfect_instance(rng)) for _ in range(count))
    assert worst == pytest.approx(1.0)  # and it is tight


@pytest.mark.slow
def test_theorem_1_on_ten_thousand():
    rng = np.random.default_rng(1)
    assert max(holds_theorem_1(perfect_instance(rng)) for _ in range(10_000)) == pytest.approx(1.0)


def test_without_a_perfect_assignment_the_bound_need_not_hold():
    w = ks.Workload(load=[3, 3, 3], state=[1, 1, 1], current=[0, 0, 0], home=[0, 0, 0], nodes=2)
    assert routing.llfd_plan(ks.MixedRouting(w, theta_max=0)).theta > (1 - 1 / 2) / 3


# Mixed --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 2000])
@pytest.mark.parametrize("seed", range(3))
def test_mixed_ends_at_adversarial_table_limits(limit, seed):
    stream = ZipfStream(2000, 5, seed=seed)
    rng = np.random.default_rng(seed)
    w = stream.workload(rng.integers(0, 5, 2000))  # nearly every key is an exception
    plan = routing.mixed_plan(ks.MixedRouting(w, max_table_size=limit))
    assert plan.trials <= routing.DOUBLED + 13  # doubling passes any table of 2000 keys
    if limit == 2000:
        assert plan.trials == 1
        assert plan.feasible
    else:
        assert "the routing table has" in plan.misses


def test_mixed_with_room_is_min_mig_and_without_it_min_table():
    problem = second_interval(window=5)
    assert routing.mixed_plan(problem).assignment.tolist() == routing.min_mig_plan(problem).assignment.tolist()
    tight = ks.MixedRouting(problem.workload, max_table_size=1)
    assert routing.mixed_plan(tight).table_size <= routing.min_table_plan(tight).table_size


def test_mixed_frees_the_table_it_needs():
    """After some intervals of MinMig the table is long; between MinMig's and MinTable's next one, Mixed finds its way."""
    stream = ZipfStream(2000, 5, window=5, seed=4)
    current = stream.home
    for _ in range(5):
        problem = ks.MixedRouting(stream.workload(current))
        current = routing.min_mig_plan(problem, beta=1.0).assignment
        stream.advance()
    problem = ks.MixedRouting(stream.workload(current))
    roomy, smallest = routing.min_mig_plan(problem), routing.min_table_plan(problem)
    assert smallest.table_size < roomy.table_size
    between = ks.MixedRouting(problem.workload, max_table_size=(smallest.table_size + roomy.table_size) // 2)
    plan = routing.mixed_plan(between)
    assert plan.feasible
    assert plan.trials > 1
    assert plan.moved_back > 0
    assert roomy.state_moved < plan.state_moved < smallest.state_moved


def test_mixed_bf_is_no_worse_than_mixed():
    for seed in range(4):
        problem = second_interval(600, 4, seed=seed, limit=30, window=3)
        every, one = routing.mixed_bf_plan(problem), routing.mixed_plan(problem)
        if one.feasible:
            assert every.feasible
            assert every.state_moved <= one.state_moved
        assert every.details["to_try"] == problem.workload.key_groups or every.trials == every.details["to_try"]


def test_mixed_bf_tries_as_many_as_it_is_told():
    problem = second_interval(600, 4, seed=1, window=3)
    assert routing.mixed_bf_plan(problem, trials=3).trials <= 3
    budget = Budget(0.0)
    answer = routing.mixed_bf(problem, budget=budget)
    assert answer.termination == "time_limit"
    assert answer.assignment is not None


# Honesty ------------------------------------------------------------------------------------------------------------


def test_a_plan_that_misses_says_by_how_much():
    problem = ks.MixedRouting(FIGURE_4, theta_max=0, max_table_size=1)
    plan = routing.min_table_plan(problem)
    assert not plan.feasible
    assert plan.misses == "the routing table has 2 entries, the limit is 1"
    solution = ks.solve(problem, "min-table")
    assert solution.assignment is None
    assert solution.status == "none"
    assert "the routing table has 2 entries" in solution.message
    assert solution.details["plan_table_size"] == 2
    assert solution.details["plan_state_moved"] == 12


def test_llfd_counts_what_it_forces():
    w = ks.Workload(load=[3, 3, 3], state=[1, 1, 1], current=[0, 0, 0], home=[0, 0, 0], nodes=2)
    plan = routing.llfd_plan(ks.MixedRouting(w, theta_max=0))
    assert plan.forced == 1
    assert not plan.feasible
    assert plan.loads.max() == 6


def test_the_table_of_a_plan_routes_every_key():
    plan = routing.mixed_plan(second_interval(seed=2))
    assert plan.table.assignment(plan.problem.home).tolist() == plan.assignment.tolist()
    assert plan.table.size == plan.table_size


def test_draining_nodes_are_vacated_by_all():
    stream = ZipfStream(500, 4, seed=3)
    w = stream.workload().replace(draining=[False, True, False, False])
    problem = ks.MixedRouting(w, theta_max=0.2)
    for name in ("llfd", "min-table", "min-mig", "mixed", "readj"):
        s = ks.solve(problem, name)
        assert s.status == "feasible", s
        assert not (s.assignment == 1).any()


def test_keys_without_load_go_home():
    w = ks.Workload(
        load=[0, 0, 1, 1], state=[1, 1, 1, 1], current=[2, 2, 0, 1], home=[1, 2, 0, 1], nodes=3, draining=[0, 0, 1]
    )
    plan = routing.min_mig_plan(ks.MixedRouting(w))
    assert plan.assignment[0] == 1
    assert plan.assignment[1] in (0, 1)
    assert plan.feasible


# The compact form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_records_without_discretisation_plan_as_keys_do(seed):
    problem = second_interval(window=2, seed=seed)
    records = compact(problem.workload)
    for make in (routing.min_table_plan, routing.min_mig_plan, routing.mixed_plan):
        by_key, by_record = make(problem), make(problem, keys=records)
        assert by_record.load_error == pytest.approx(0, abs=1e-12)
        assert by_record.theta <= problem.theta_max + 1e-9
        assert by_record.state_moved == pytest.approx(by_key.state_moved, rel=0.02)


@pytest.mark.parametrize("degree", [1, 8, 64])
def test_compact_plans_hold_on_the_true_loads(degree):
    problem = second_interval(20_000, 8, seed=1, window=5)
    solution = ks.solve(problem, "mixed", compact=degree)
    assert solution.status == "feasible", solution
    assert solution.details["load_error"] <= 0.01


def test_the_estimate_error_is_what_it_says():
    problem = second_interval(5000, 5, seed=1)
    plan = routing.mixed_plan(problem, keys=discretised(problem.workload, 64, printed=True))
    true = np.bincount(plan.assignment, problem.workload.last_load, 5)
    assert plan.load_error == pytest.approx(np.max(np.abs(plan.estimated - true) / true))
    assert plan.load_error > 0


def test_a_record_may_be_split_by_phase_one():
    w = ks.Workload(load=[1] * 8, state=[1] * 8, current=[0] * 8, home=[1] * 8, nodes=2)
    problem = ks.MixedRouting(w, theta_max=0.0)
    planner = RoutingPlanner(problem, "gamma", keys=compact(w))
    assert planner.keys.size == 1
    assert planner.table_size == 8
    plan = planner.run(3)
    assert np.bincount(plan.assignment).tolist() == [4, 4]


def test_a_bad_degree_is_refused():
    with pytest.raises(ks.InputError, match="power of two"):
        ks.solve(ks.MixedRouting(FIGURE_4), "mixed", compact=3)


# Readj --------------------------------------------------------------------------------------------------------------


def test_readj_moves_back_first():
    w = ks.Workload(load=[5, 5, 1], state=[1, 1, 1], current=[0, 0, 0], home=[0, 1, 0], nodes=2)
    plan = readj_plan(ks.MixedRouting(w), sigma=10)  # no key takes part in moves and swaps
    assert plan.assignment.tolist() == [0, 1, 0]
    assert plan.moved_back == 1


def test_readj_swaps():
    """From 6 + 5 against 3 + 2, three units of load have to cross: 6 for 3 or 5 for 2, and 6 for 3 moves less state."""
    w = ks.Workload(load=[6, 5, 3, 2], state=[1, 5, 1, 5], current=[0, 0, 1, 1], home=[0, 0, 1, 1], nodes=2)
    plan = readj_plan(ks.MixedRouting(w, theta_max=0), sigma=0)
    assert plan.assignment.tolist() == [1, 0, 0, 1]
    assert plan.loads.tolist() == [8, 8]
    assert plan.feasible


def test_readj_leaves_light_keys_alone():
    w = ks.Workload(load=[6, 1, 1, 1, 1], state=[1] * 5, current=[0] * 5, home=[0] * 5, nodes=2)
    assert (readj_plan(ks.MixedRouting(w), sigma=0.5).assignment[1:] == 0).all()
    assert ks.solve(ks.MixedRouting(w, theta_max=0.2), "readj").objective == 1


def test_readj_stops_with_the_budget():
    answer = ks.catalogue.find_method(ks.MixedRouting(FIGURE_4), "readj").function(
        ks.MixedRouting(FIGURE_4), budget=Budget(0.0)
    )
    assert answer.termination == "time_limit"
    assert answer.assignment is not None


# The compiled loops -------------------------------------------------------------------------------------------------


def test_compiled_loops_do_what_their_text_says(monkeypatch):
    rng = np.random.default_rng(2)
    problems = [*battery().values(), *(random_problem(rng, 12, 3) for _ in range(30))]
    makers = (
        routing.llfd_plan, routing.min_table_plan, routing.min_mig_plan, routing.mixed_plan,
        lambda p: readj_plan(p, sigma=0.01), lambda p: routing.compact_plan(p, 4, routing.mixed_plan),
    )  # fmt: skip
    compiled = [make(p).assignment.tolist() for p in problems for make in makers]
    assert isinstance(three_phases.llfd.py_func, types.FunctionType)
    interpret(monkeypatch, three_phases)
    interpret(monkeypatch, readj)
    interpret(monkeypatch, compact_module)
    assert isinstance(three_phases.llfd, types.FunctionType)
    assert [make(p).assignment.tolist() for p in problems for make in makers] == compiled


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [10, 40])
def test_a_million_keys(nodes):
    problem = second_interval(1_000_000, nodes, seed=1)
    full = ks.solve(problem, "mixed")
    assert full.status == "feasible", full
    bound = ks.solve(problem, "lp").bound
    for degree in (1, 8, 64, 256):
        s = ks.solve(problem, "mixed", compact=degree)
        assert s.status == "feasible" or s.message, s
        assert s.details["load_error"] <= 0.01
        assert bound <= s.details["plan_state_moved"]


def test_loads_too_far_apart_for_a_quotient_in_64_bits_end():
    """A node is 1e12 too full of keys of 1e-9: so many of them as would be needed are no whole number that a word holds."""
    w = ks.Workload(
        load=[2e-9, 3, 2e-9, 1e-9, 1e-9, 1e12], state=[5.8e10, 1.7e10, 4.5e10, 4.6e10, 4.5e10, 5e10], current=[1, 1, 0, 2, 0, 2],
        home=[1, 1, 2, 1, 0, 2], nodes=[1.0, 1.1, 0.7],
    )  # fmt: skip
    problem = ks.MixedRouting(w, theta_max=2.0, max_table_size=2, sides="both")
    assert "3 entries" in ks.solve(problem, "mixed-bf", beta=0.0, trials=1, compact=2).message

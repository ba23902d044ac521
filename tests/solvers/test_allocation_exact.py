"""Key-group allocation: every method against brute force, the bounds, the second stage."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws, rest_slow
from instances.allocation import random_problem

import keyshift as ks
from keyshift.generators.allocation import synthetic_workload
from keyshift.models import Budget
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting import CountBound, carried_away
from keyshift.solvers.allocation.portfolio import Portfolio
from keyshift.solvers.allocation.search import from_highest_to_lowest
from keyshift.solvers.tuning import AllocationSettings


def instances(seed: int, count: int) -> list[ks.KeyGroupAllocation]:
    rng = np.random.default_rng(seed)
    return [random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4))) for _ in range(count)]


def lexicographic(problem: ks.KeyGroupAllocation) -> tuple[float, float] | None:
    """Least (load distance, deviation sum), by trying every assignment."""
    w, found = problem.workload, []
    for candidate in itertools.product(range(w.nodes), repeat=w.key_groups):
        report = problem.check(candidate)
        if report.feasible:
            found.append((report.objective, report.metrics["deviation_sum"]))
    if not found:
        return None
    least = min(found)[0]
    return least, min(total for distance, total in found if distance <= least + 1e-9 * problem.scale)


@pytest.mark.usefixtures("without_subsets")
def test_search_alone_agrees_with_brute_force():
    """Without the shortcut for small instances the counts and the search face every option too."""
    short = AllocationSettings(small=0, steps_for_each=1_500)
    for problem in instances(11, 30):
        best = brute_force(problem)[0]
        answer = Portfolio(problem, Budget(), settings=short).run()
        if best is None:
            assert answer.termination == "infeasible"
            continue
        assert answer.termination == "optimal"
        assert not problem.violations(answer.assignment)
        assert problem.objective(answer.assignment) == pytest.approx(best, abs=problem.tolerance)
        assert answer.bound <= best + problem.tolerance


@pytest.mark.parametrize("seed", rest_slow(1, range(2)))
def test_count_bound_never_exceeds_the_optimum_and_is_often_tight(seed):
    tight = 0
    for problem in (problems := instances(50 + seed, 300)):
        best = brute_force(problem)[0]
        counts = CountBound(Instance(problem))
        exact = counts.bound()
        counts.exact = False
        by_multiplier = counts.bound()
        if best is not None:
            assert exact * problem.scale <= best * (1 + 1e-12)
            assert by_multiplier * problem.scale <= best * (1 + 1e-12)
            tight += best - exact * problem.scale <= problem.tolerance
    assert tight > len(problems) / 2


@pytest.mark.parametrize("seed", rest_slow(1, range(4)))
def test_what_so_many_moves_carry_away_never_exceeds_the_optimum(seed):
    above_zero = tight = 0
    for problem in (problems := instances(900 + seed, 200)):
        best, bound = brute_force(problem)[0], carried_away(Instance(problem)) * problem.scale
        if best is not None:
            assert bound <= best * (1 + 1e-12)
            above_zero += bound > 0
            tight += bound > 0 and best - bound <= problem.tolerance
    assert tight > len(problems) / 10
    assert above_zero > tight


def test_few_moves_on_many_nodes_are_proven_in_one_pass():
    """Of 20,000 key groups on 100 nodes 100 may move: what leaves the highest nodes is worth all there is to know."""
    rng = np.random.default_rng(0)
    w = ks.Workload(
        load=rng.gamma(2.0, 1.0, 20_000), state=np.ones(20_000), current=rng.integers(0, 100, 20_000), nodes=100
    )
    problem = ks.KeyGroupAllocation(w, max_migrations=100)
    instance = Instance(problem)
    place = from_highest_to_lowest(instance)
    assert not problem.violations(place)
    assert (place != w.current).sum() == 100
    assert 0.04 < carried_away(instance) <= instance.distance(place) <= carried_away(instance) + 0.003


def test_the_load_nearest_to_even_moves_first():
    """Node 0 has 16 and node 1 has 2: 7 makes them even, and 6 is nearer to it than 10."""
    w = ks.Workload(load=[6, 10, 2], state=[1, 1, 1], current=[0, 0, 1], nodes=2)
    place = from_highest_to_lowest(Instance(ks.KeyGroupAllocation(w, max_migrations=1)))
    assert place.tolist() == [1, 0, 1]


def test_many_that_are_alike_are_levelled():
    """Of 200,000 alike each draw meets those that have moved before: it must not walk past them one by one."""
    w = ks.Workload(load=np.ones(200_000), state=np.ones(200_000), current=np.zeros(200_000, dtype=int), nodes=50)
    problem = ks.KeyGroupAllocation(w)
    place = from_highest_to_lowest(Instance(problem))
    assert (np.bincount(place) == 4_000).all()


def test_moves_from_the_highest_to_the_lowest_keep_the_limits_and_help():
    helped = 0
    for problem in instances(33, 200):
        place = from_highest_to_lowest(Instance(problem))
        if place is not None and not problem.violations(problem.workload.current):
            assert not problem.violations(place)
            assert problem.objective(place) <= problem.objective(problem.workload.current) + problem.tolerance
            helped += problem.objective(place) < problem.objective(problem.workload.current)
    assert helped > 10


def test_count_bound_cut_short_is_lower_not_wrong():
    """Whenever the time runs out: among the nodes of the table, or among the distances of the bisection."""
    problem = ks.KeyGroupAllocation(synthetic_workload(6, 60, varies=0.6), max_migrations=4)
    whole = CountBound(Instance(problem)).bound()
    seen = set()
    for patience in range(25):
        left = iter([False] * patience)
        bound = CountBound(Instance(problem), lambda left=left: next(left, True)).bound()
        assert bound <= whole
        seen.add(bound)
    assert {0.0, whole} < seen
    assert (CountBound(Instance(problem), lambda: True).table == 0).all()  # nodes not looked at allow everything


def test_where_nodes_drain_the_linear_relaxation_says_more_than_counting():
    w = synthetic_workload(6, 60, varies=0.6)
    w = w.replace(draining=np.arange(6) < 2)
    problem = ks.KeyGroupAllocation(w, max_migrations=14)
    run = Portfolio(problem, Budget(60.0))
    assert run.linear_helps
    list(run.linear_turns())
    counts = CountBound(Instance(problem)).bound() * problem.scale
    assert run.found.bound > counts + 0.01 * problem.scale
    uneven = dataclasses.replace(problem, workload=w.replace(load=w.load * np.r_[1000.0, np.ones(59)]))
    assert not Portfolio(uneven, Budget(60.0)).linear_helps  # of heavy tails counting knows more


def test_cpsat_is_kept_from_a_presolve_that_proves_wrong_optima():
    load = [92054.4701902, 486367.51063376, 834310.13919627, 187006.43771713, 24159.03718062]
    w = ks.Workload(load=load, state=np.ones(5), current=[1, 0, 0, 2, 1], nodes=3)
    problem = ks.KeyGroupAllocation(w, mean="ceiling")
    for method in ("cp-sat", "milp"):
        assert ks.solve(problem, method).objective == pytest.approx(brute_force(problem)[0])


def test_proves_a_full_size_instance_by_counting_alone():
    problem = ks.KeyGroupAllocation(synthetic_workload(40, 800), max_migrations=10)
    first, second = (ks.solve(problem, seed=5) for _ in range(2))
    assert first.status == "optimal"
    assert "branches" not in first.details
    np.testing.assert_array_equal(first.assignment, second.assignment)
    assert first.bound == second.bound


@pytest.mark.parametrize("by", ["solvers", "subsets"])
@draws(30, 60)
def test_second_stage_is_lexicographic(by, count, request):
    seen = 0
    if by == "solvers":
        request.getfixturevalue("without_subsets")
    for problem in instances(77, count):
        best = lexicographic(problem)
        if best is None:
            continue
        seen += 1
        solution = ks.solve(problem, "milp")
        if solution.details.get("second_stage") == "optimal":
            assert solution.metrics["deviation_sum"] == pytest.approx(best[1], abs=1e-6 * problem.scale)
        assert solution.objective <= best[0] + problem.tolerance
    assert seen > count / 3


@pytest.mark.parametrize("into_draining", [False, True])
def test_lemma_1_fails_for_indivisible_loads(into_draining):
    # One node at 110 of which 10 can move, ten at 99, one empty node that drains; the mean is 100.
    w = ks.Workload(
        load=[10, 100] + [99] * 10, state=[1] + [100] * 11, current=[0, 0, *range(1, 11)], nodes=12,
        draining=[False] * 11 + [True],
    )  # fmt: skip
    problem = ks.KeyGroupAllocation(w, max_migrations=1, max_migration_cost=1, into_draining=into_draining)
    solution = ks.solve(problem)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(1.0 if into_draining else 9.0)


def test_limits_by_cost_alone_bound_the_moves():
    w = ks.Workload(load=[4, 3, 2, 1], state=[1, 2, 3, 4], current=[0, 0, 0, 0], nodes=2)
    problem = ks.KeyGroupAllocation(w, max_migration_cost=3.0)
    assert Instance(problem).max_moves == 2
    assert Instance(dataclasses.replace(problem, max_migration_cost=None)).max_moves == 4

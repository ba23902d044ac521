"""The search over all choices of a few moves, against brute force."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from draws import draws, rest_slow
from instances import collocation

import keyshift as ks
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.allocation.few_moves import BRANCH, FewMoves


def drawn(rng: np.random.Generator) -> ks.KeyGroupAllocation:
    n, p = int(rng.integers(2, 5)), int(rng.integers(3, 8))
    kind = rng.integers(3)
    load = [rng.integers(0, 6, p) + 0.0, rng.random(p) * 10.0 ** rng.integers(-9, 12), 10 * rng.pareto(1.2, p) + 0.1][
        kind
    ]
    w = ks.Workload(
        load=load + (load.sum() == 0), state=rng.integers(1, 5, p), current=rng.integers(0, n, p),
        nodes=rng.integers(1, 3, n).astype(float) if rng.random() < 0.5 else n,
        draining=np.arange(n) == (n - 1 if rng.random() < 0.3 else -1),
    )  # fmt: skip
    if rng.random() < 0.7:
        return ks.KeyGroupAllocation(w, max_migrations=int(rng.integers(1, 5)))
    return ks.KeyGroupAllocation(w, max_migration_cost=float(rng.uniform(0.3, 0.9) * w.state.sum()))


def least(problem: ks.KeyGroupAllocation) -> float:
    w = problem.workload
    each = (np.array(one) for one in itertools.product(range(w.nodes), repeat=w.key_groups))
    return min(problem.objective(one) for one in each if not problem.violations(one))


@pytest.mark.parametrize("seed", rest_slow(20, range(60)))
def test_the_least_distance_by_brute_force(seed):
    rng = np.random.default_rng([seed, 7])
    problem = drawn(rng)
    instance = Instance(problem)
    counts = CountBound(instance)
    if instance.max_moves == 0 or problem.violations(problem.workload.current):
        return
    start = instance.distance(instance.current)
    search, found, asked = FewMoves(instance, counts.table, start + 1e-6), None, 0
    while not search.ended:
        place = search.go_on(int(rng.integers(1, 200)), lambda: False)
        asked += 1
        if place is not None:
            assert not problem.violations(place)
            found = problem.objective(place)
    assert asked > 1
    assert found == pytest.approx(least(problem), rel=1e-9, abs=1e-9 * problem.scale)


def test_branches_are_work():
    problem, heard = drawn(np.random.default_rng(1)), []
    it = Instance(problem)
    few = FewMoves(it, CountBound(it).table, it.distance(it.current))
    few.go_on(1_000, lambda: False, heard.append)
    assert sum(heard) == BRANCH * int(few.counts[3]) > 0


@pytest.mark.slow
def test_teaching_sizes_that_no_other_bound_closes_are_proven():
    """3 nodes, 40 key groups, 6 moves: counting proves nothing at all, and CP-SAT runs into its limit."""
    _, problem = next(iter(ks.family("madsen-allocation", nodes=3, key_groups=40, seed=3)))
    problem = ks.KeyGroupAllocation(problem.workload, max_migrations=6)
    assert ks.solve(problem, time_limit=30).termination == "optimal"


def test_the_search_goes_on_beside_the_enumeration():
    """128 key groups of heavy tails on 8 nodes, 10 moves: all choices are too many, and what is near the mean is found by search."""
    rng = np.random.default_rng([722, 13])
    load, state = rng.pareto(1.1, 128) + 0.05, rng.random(128) + 0.1
    w = ks.Workload(load=load, state=state, current=rng.integers(0, 8, 128), nodes=8)
    found = ks.solve(ks.KeyGroupAllocation(w, max_migrations=10), effort=4, gap=0.0)
    assert found.objective < 0.15, "0.19 where the enumeration has all the work after its first turn"


def heavy_tailed() -> ks.Workload:
    """Few of 128 key groups have most of the load, of the state and of what is said."""
    rng = np.random.default_rng(2)
    load, state = rng.pareto(1.1, (2, 128)) + 0.05
    ends, traffic = rng.integers(0, 128, (512, 2)), np.zeros((128, 128))
    traffic[ends[:, 0], ends[:, 1]] = (rng.pareto(1.1, 512) + 0.05) * (ends[:, 0] != ends[:, 1])
    return ks.Workload(load=load, state=state, current=rng.integers(0, 8, 128), nodes=8, traffic=traffic)


@pytest.mark.parametrize(
    "problem",
    [
        ks.KeyGroupAllocation(heavy_tailed(), max_migrations=10),
        ks.CollocatedAllocation(heavy_tailed(), max_migrations=10, max_load_distance=200.0),
        ks.CollocatedAllocation(heavy_tailed(), max_migrations=32, max_load_distance=200.0),
    ],
    ids=["allocation", "collocation", "a quarter"],
)
def test_heavy_tails_are_a_solvers_question(problem):
    """Enumeration, prices and the Lagrangian bound take five times the work and more; HiGHS proves both, given half of the time."""
    assert ks.solve(problem, effort=2).status == "optimal"


def within_moves(current: np.ndarray, nodes: int, most: int):
    """All assignments in which at most so many key groups have moved."""
    for moved in range(most + 1):
        for groups in itertools.combinations(range(current.size), moved):
            for targets in itertools.product(range(nodes), repeat=moved):
                other = current.copy()
                other[list(groups)] = targets
                yield other


@draws(4, 100)
def test_collocation_of_few_moves_equals_all_choices(count):
    rng, solved, moving = np.random.default_rng(11), 0, 0
    for _ in range(count):
        p, scale = int(rng.choice([16, 17, 24])), 10.0 ** rng.integers(-9, 12)
        problem = collocation.random_problem(rng, p, 3)
        w = problem.workload.replace(load=problem.workload.load * scale, traffic=problem.workload.traffic * scale)
        if problem.distance_unit == "load" and problem.max_load_distance is not None:
            problem = dataclasses.replace(problem, max_load_distance=problem.max_load_distance * scale)
        problem = dataclasses.replace(problem, workload=w, max_migrations=max(1, p // 8 - 1))
        kept = [a for a in within_moves(w.current, 3, problem.max_migrations) if not problem.violations(a)]
        least = min(map(problem.objective, kept), default=None)
        found = ks.solve(problem, gap=0.0, time_limit=60, search_steps=1)  # so that the bound and HiGHS have to find it
        if least is None:
            assert found.status == "infeasible", (problem, found)
            continue
        assert found.status == "optimal", (problem.arguments(), found)
        assert found.objective == pytest.approx(least, abs=2 * problem.tolerance_of(least)), problem.arguments()
        assert found.bound <= least + problem.tolerance_of(least)
        solved, moving = solved + 1, moving + (least < problem.objective(w.current))
    assert solved > count / 4
    assert moving > count / 10

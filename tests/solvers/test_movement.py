"""Least movement within load limits: the linear relaxation against brute force, in any unit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from draws import draws
from instances.movement import random_problem
from scipy.optimize import linprog

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.movement.statement import forced_movement, least_state, local_search


def feasible_placements(problem) -> list[np.ndarray]:
    """All of them, on all the nodes there are to choose from; the least state moved comes first."""
    every = map(np.array, itertools.product(range(problem.places), repeat=problem.workload.key_groups))
    return sorted((place for place in every if not problem.violations(place)), key=problem.objective)


def optimum(problem) -> float | None:
    return next(map(problem.objective, feasible_placements(problem)), None)


def of_size(problem, loads: float, states: float):
    w = problem.workload.replace(load=problem.workload.load * loads, state=problem.workload.state * states)
    given = problem.arguments()
    return type(problem)(
        **{
            **given,
            "workload": w,
            "lower": problem.lower * loads,
            "upper": problem.upper * loads,
            "nodes_after": problem.nodes_after,
        }
    )


@draws(20, 40)
@pytest.mark.parametrize(("loads", "states"), [(1.0, 1.0), (1e-9, 1e12), (1e12, 1e-9)])
def test_the_linear_relaxation_is_never_above_the_optimum(loads, states, count):
    rng, feasible, tight = np.random.default_rng(61), 0, 0
    for _ in range(count):
        problem = of_size(random_problem(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4))), loads, states)
        best, solution = optimum(problem), ks.solve(problem, "lp")
        if best is None:
            assert solution.status in ("infeasible", "none")
            continue
        feasible += 1
        assert solution.status == "none"
        assert solution.bound <= best * (1 + 1e-12)
        tight += best > 0 and solution.bound > 0
    assert feasible > count / 3
    assert tight > count / 20


@pytest.mark.parametrize(
    ("load", "state", "current", "options", "least"),
    [
        ([[0, 0], [1.301626610841315e-08, 0.005743065902528876]], [1e9, 1e6], [0, 1],
         {"lower": 0.005743078918220676, "upper": 0.005743078918794984}, 1e6),
        ([1e6, 1e-4, 3, 1e12], [1.5e11, 5.7e11, 2.3e11, 3e10], [1, 0, 1, 1],
         {"lower": 1000000999903.0, "upper": 1000001000003.0001, "nodes_after": 1}, 4.1e11),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["milp", "cp-sat"])
def test_a_placement_at_its_limits_is_not_overlooked(method, load, state, current, options, least):
    w = ks.Workload(load=load, state=state, current=current, nodes=2)
    s = ks.solve(ks.MovementWithinLimits(w, **options), method)  # HiGHS had proven 1e9, and 5.7e11
    assert (s.status, s.objective) == ("optimal", pytest.approx(least, rel=1e-9))


@draws(24, 60)
@pytest.mark.parametrize(("loads", "states"), [(1.0, 1.0), (1e-9, 1e12), (1e12, 1e-9)])
def test_what_the_limits_force_is_never_above_the_optimum_nor_the_search_below_it(loads, states, count):
    rng, tight, reached, gained = np.random.default_rng(69), 0, 0, 0
    for seed in range(count):
        problem = of_size(random_problem(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4))), loads, states)
        best, found = optimum(problem), local_search(problem, budget=Budget(5), seed=seed, effort=0.2).assignment
        if best is None:
            assert found is None
            continue
        dearest = feasible_placements(problem)[-1]
        improved = local_search(problem, budget=Budget(5), seed=seed, start=dearest, effort=0.2).assignment
        gained += problem.objective(improved) <= 0.9 * problem.objective(dearest)
        assert problem.objective(improved) <= problem.objective(dearest)
        least = forced_movement(problem)
        assert least <= best * (1 + 1e-12)
        tight += best > 0 and least >= 0.999 * best
        reached += found is not None and problem.objective(found) <= best * (1 + 1e-9)
    assert tight > count / 12
    assert reached > 0.4 * count
    assert gained > count / 3


def test_the_least_state_of_so_much_load_is_that_of_a_linear_program():
    rng = np.random.default_rng(65)
    for _ in range(20):
        load, state = rng.integers(0, 9, (2, int(rng.integers(2, 9))))
        need = float(load.sum()) * rng.uniform(0.05, 0.95)
        program = linprog(state, A_ub=-load[None, :], b_ub=[-need], bounds=(0, 1))
        assert least_state(load.astype(float), state.astype(float), need) == pytest.approx(program.fun, abs=1e-9)


def test_one_key_group_of_another_size_leaves_the_bound_below_the_optimum():
    rng, feasible = np.random.default_rng(63), 0
    for _ in range(60):
        load, state = (rng.random(5) * rng.choice([1e-9, 1.0, 1e12], 5) for _ in range(2))
        w = ks.Workload(load=load, state=state, current=rng.integers(0, 2, 5), nodes=2)
        hidden = np.bincount(rng.integers(0, 2, 5), load, 2)
        problem = ks.MovementWithinLimits(w, float(hidden.min()), float(hidden.max()) * 1.01, nodes_after=2)
        best = optimum(problem)
        if best is not None:
            feasible += 1
            assert forced_movement(problem) <= best * (1 + 1e-12)
    assert feasible > 30


def test_four_hundred_key_groups_are_within_the_limits_after_a_second():
    rng = np.random.default_rng(64)
    load = np.round(100 * (rng.pareto(1.2, 400) + 0.05)) + 1
    mean = load.sum() / 20
    upper = max(1.05 * mean, load.max())
    w = ks.Workload(load=load, state=load, current=rng.integers(0, 20, 400), nodes=20)
    problem = ks.MovementWithinLimits(w, max(0.0, 2 * mean - upper), upper, nodes_after=20)
    solution = ks.solve(problem, "local-search", time_limit=1.0)
    assert solution.status == "feasible"
    assert solution.objective < load.sum() / 2

"""The linear relaxation of mixed routing, stated with a pool: the same value as with every pair of key and node."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from instances.routing import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.routing.choices import Choices
from keyshift.models.routing.pyomo_model import RoutingPyomo
from keyshift.solvers import highs
from keyshift.solvers.routing.pooled import MOST_CLASSES, PooledKeys, linear_program, pooled_bound


def of_size(problem, factor: float):
    w = problem.workload
    sized = w.replace(state=w.state * factor, load=w.load * factor)
    return type(problem)(**{**problem.arguments(), "workload": sized})


def least(program) -> float | None:
    """HiGHS's own optimum of a linear program, None without one."""
    result = highs.minimise(program, Budget(), relax=True)
    return None if result.termination == "infeasible" else float(program.cost @ result.values) + program.offset


def every_pair(problem) -> float | None:
    """The relaxation of (1)-(5) as the docstring states it: a variable for every class and node."""
    choices = Choices.all(problem)
    if choices.record.size == 0:
        return problem.objective(choices.assignment(np.zeros(0, dtype=np.int64)))
    program, _ = highs.compile_model(RoutingPyomo(choices, problem.scale).model)
    found = least(program)
    return None if found is None else found * problem.scale


@pytest.mark.parametrize("factor", [1.0, 1e-9, 1e12])
def test_the_pool_changes_no_value_and_no_bound_is_above_the_optimum(factor):
    rng, feasible = np.random.default_rng(51), 0
    for _ in range(40):
        problem = of_size(random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4))), factor)
        best, _ = brute_force(problem)
        if best is None:
            continue
        feasible += 1
        near = {"rel": 1e-6, "abs": 1e-6 * problem.scale}
        native = least(linear_program(PooledKeys(problem, MOST_CLASSES)))
        if problem.workload.kept.sum() > 1:  # with one, the other statement has nothing open to state
            assert native * problem.scale == pytest.approx(every_pair(problem), **near)
        assert pooled_bound(problem, budget=Budget()).bound <= best * (1 + 1e-12)
    assert feasible > 15


def test_fewer_classes_only_lower_the_bound():
    rng = np.random.default_rng(52)
    w = ks.Workload(
        load=rng.lognormal(0, 1, 3000), state=rng.lognormal(0, 1, 3000), home=(home := rng.integers(0, 6, 3000)), nodes=6,
        current=np.where(rng.random(3000) < 0.8, home, rng.integers(0, 6, 3000)),
    )  # fmt: skip
    problem = ks.MixedRouting(w, theta_max=0.01, max_table_size=200)
    whole = pooled_bound(problem, budget=Budget())
    assert whole.details["exact"]
    assert whole.bound == pytest.approx(ks.solve(problem, "lp").bound, rel=1e-5)
    before = whole.bound
    for most in (2500, 800, 200):
        coarse = pooled_bound(problem, budget=Budget(), most_classes=most)
        assert coarse.details["classes"] <= most
        assert not coarse.details["exact"]
        assert 0 < coarse.bound <= before * (1 + 1e-9)
        before = coarse.bound


def test_few_classes_on_tiny_instances_stay_below_the_optimum():
    rng, feasible = np.random.default_rng(53), 0
    for _ in range(40):
        problem = random_problem(rng, int(rng.integers(3, 8)), int(rng.integers(1, 4)))
        best, _ = brute_force(problem)
        if best is None:
            continue
        feasible += 1
        assert pooled_bound(problem, budget=Budget(), most_classes=2).bound <= best * (1 + 1e-12)
    assert feasible > 15


def test_no_solution_is_said_only_with_the_prices_proof():
    w = ks.Workload(load=[9, 1, 1], state=[1, 1, 1], current=[0, 1, 1], home=[0, 1, 1], nodes=2, draining=[True, False])
    impossible = ks.MixedRouting(w, max_table_size=0)
    assert impossible.conflicts()
    answer = pooled_bound(impossible, budget=Budget())
    assert answer.termination == ks.solve(impossible, "lp").termination or answer.bound is not None

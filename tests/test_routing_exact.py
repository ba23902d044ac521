"""Mixed routing: the exact methods and bounds against brute force and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from instances.routing import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.routing.choices import Choices
from keyshift.models.routing.compact import compact
from keyshift.models.routing.pyomo_model import RoutingPyomo
from keyshift.models.routing.stream import ZipfStream
from keyshift.solvers import highs
from keyshift.solvers.routing import exact, lagrangian


def agrees(problem, methods=("milp", "cp-sat")):
    """Brute force, the exact methods and the bound tell one story; whether the instance is feasible."""
    best, _ = brute_force(problem)
    for method in methods:
        s = ks.solve(problem, method)
        assert s.status == ("infeasible" if best is None else "optimal"), (problem, s)
        if best is not None:
            assert abs(s.objective - best) <= problem.tolerance
    bound = ks.solve(problem, "lp")
    if best is not None:
        assert bound.status == "none"
        assert bound.bound <= best * (1 + 1e-12)
    return best is not None


@pytest.mark.parametrize("block", range(4))
def test_brute_force_equals_the_exact_methods(block):
    rng = np.random.default_rng(100 + block)
    feasible = sum(
        agrees(random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4))), ("milp", "cp-sat"))
        for _ in range(25)
    )
    assert 5 <= feasible <= 25


@pytest.mark.slow
def test_brute_force_equals_the_exact_methods_on_a_thousand():
    rng = np.random.default_rng(1)
    feasible = sum(agrees(random_problem(rng, int(rng.integers(1, 8)), int(rng.integers(1, 5)))) for _ in range(1000))
    assert 300 < feasible < 950


@pytest.mark.parametrize("sides", ["upper", "both"])
def test_every_table_limit_against_brute_force(sides):
    rng, matters = np.random.default_rng(5), 0
    for _ in range(3):
        home = rng.integers(0, 3, 6)
        w = ks.Workload(
            load=rng.integers(1, 9, 6), state=rng.integers(1, 9, 6), home=home, nodes=3,
            current=np.where(rng.random(6) < 0.5, home, rng.integers(0, 3, 6)),
        )  # fmt: skip
        values = []
        for limit in range(7):
            problem = ks.MixedRouting(w, theta_max=0.4, max_table_size=limit, sides=sides)
            agrees(problem)
            values.append(brute_force(problem)[0])
        known = [v for v in values if v is not None]
        assert known == sorted(known, reverse=True)
        matters += len(set(known)) > 1
    assert matters >= 1


def test_the_declarative_model_alone_is_the_problem():
    rng = np.random.default_rng(9)
    for _ in range(25):
        problem = random_problem(rng, 5, 3)
        if problem.conflicts():
            continue
        best, _ = brute_force(problem)
        choices = Choices.all(problem)
        if choices.record.size == 0:
            continue
        statement = RoutingPyomo(choices)
        program, columns = highs.compile_model(statement.model)
        result = highs.minimise(program, Budget(), options=exact.TIGHT)
        assert (result.values is None) == (best is None)
        if best is not None:
            for column, value in zip(columns, result.values, strict=True):
                column.set_value(value, skip_validation=True)
            assert abs(problem.objective(statement.assignment()) - best) <= problem.tolerance
            assert not problem.violations(statement.assignment())


@pytest.mark.parametrize("seed", range(4))
def test_the_dual_reaches_the_linear_relaxation(seed):
    """Two ways to one number: the Lagrangian dual, and HiGHS on the Pyomo model without integrality."""
    stream = ZipfStream(300, 4, window=1 + seed % 3, seed=seed)
    first = ks.solve(ks.MixedRouting(stream.workload()), "mixed").assignment
    stream.advance()
    problem = ks.MixedRouting(
        stream.workload(first), max_table_size=[8, 20, None][seed % 3], sides=["upper", "both"][seed % 2]
    )
    keys = compact(problem.workload)
    dual = lagrangian.maximise(lagrangian.Relaxation(problem, keys), Budget())
    program, _ = highs.compile_model(RoutingPyomo(Choices.all(problem)).model)
    relaxed, _ = highs.relaxation_bound(program, Budget())
    assert relaxed is not None
    assert abs(dual.bound - relaxed) <= 3e-6 * problem.scale


def test_any_prices_bound_the_optimum():
    rng = np.random.default_rng(21)
    tried = 0
    while tried < 40:
        problem = random_problem(rng, 5, 3)
        best, _ = brute_force(problem)
        if best is None:
            continue
        relaxation = lagrangian.Relaxation(problem, compact(problem.workload))
        n = problem.workload.nodes
        prices = lagrangian.Prices(rng.random(n), rng.random(n) * (problem.lower > 0), float(rng.random()))
        assert relaxation.safe_value(prices) <= best
        assert abs(relaxation.safe_value(prices) - relaxation.value(prices) * problem.scale) <= 1e-9 * problem.scale
        tried += 1

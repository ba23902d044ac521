"""Key splitting and key placement stated for CP-SAT, against every assignment there is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from instances import placement, splitting

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.splitting.cpsat_model import SplittingCpSat
from keyshift.models.splitting.items import Items
from keyshift.solvers import cpsat

NEAR = 1e-6
FACTORS = (1.0, 1e-9, 1e12)


def cases(seed: int, count: int):
    rng = np.random.default_rng(seed)
    for case in range(count):
        module = (splitting, placement)[case % 2]
        problem = module.random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4)))
        factor = FACTORS[int(rng.integers(3))]
        if problem.weights is not None:
            given = problem.arguments()
            problem = type(problem)(**{**given, "weights": problem.weights * factor})
        yield problem


def optimum(problem) -> float:
    """The least largest load over all assignments of messages, or of keys, to their candidates."""
    items = Items.of(problem)
    each = [g for g, count in enumerate(items.count.tolist()) for _ in range(count)]
    best = math.inf
    for chosen in itertools.product(*([int(i) for i in items.options[g] if i >= 0] for g in each)):
        loads = np.zeros(problem.workers)
        np.add.at(loads, list(chosen), items.weight[each])
        best = min(best, float((loads / problem.speeds).max()))
    return best


def test_cp_sat_states_the_problem():
    for problem in cases(seed=41, count=60):
        best, statement = optimum(problem), SplittingCpSat(problem)
        outcome = cpsat.minimise(statement.model, Budget())
        assert outcome.termination == "optimal"
        found = statement.assignment(outcome.solver.value)
        assert not problem.violations(problem.canonical(found))
        assert problem.objective(found) == pytest.approx(best, rel=NEAR)
        assert best * (1 - NEAR) <= statement.bound(outcome.bound) <= best * (1 + 1e-12)
        statement.set_start(found)
        assert cpsat.minimise(statement.model, Budget()).bound == outcome.bound


def test_a_stream_of_thousands_is_a_small_program():
    rng = np.random.default_rng(44)
    problem = ks.KeySplitting(rng.zipf(1.5, 5000).clip(max=2000), workers=8)
    model = ks.model(problem, "pyomo")
    assert len(model.names()) <= 2 * 36 + 1
    found = model.solve("highs")
    exact = SplittingCpSat(problem)
    outcome = cpsat.minimise(exact.model, Budget())
    assert exact.bound(outcome.bound) == found.objective


@pytest.mark.parametrize("solver", ["scip", "highs"])
def test_any_solver_takes_the_pyomo_statement(solver):
    for problem in cases(seed=42, count=10):
        assert ks.model(problem, "pyomo").solve(solver).objective == pytest.approx(optimum(problem), rel=NEAR)

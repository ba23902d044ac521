"""Key splitting and key placement stated for CP-SAT and MathOpt, against every assignment there is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from instances import placement, splitting
from ortools.math_opt.python import mathopt

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.splitting.cpsat_model import SplittingCpSat
from keyshift.models.splitting.items import Items
from keyshift.models.splitting.mathopt_model import SplittingMathOpt
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


@pytest.mark.parametrize("solver", [mathopt.SolverType.GSCIP, mathopt.SolverType.HIGHS])
def test_mathopt_states_the_problem(solver):
    for problem in cases(seed=42, count=30):
        best, statement = optimum(problem), SplittingMathOpt(problem)
        result = mathopt.solve(statement.model, solver)
        assert result.termination.reason == mathopt.TerminationReason.OPTIMAL
        found = statement.assignment(result.variable_values())
        assert not problem.violations(problem.canonical(found))
        assert problem.objective(found) == pytest.approx(best, rel=NEAR)
        assert statement.value(result.objective_value()) == pytest.approx(best, rel=NEAR, abs=1e-9 * statement.most)
        assert statement.bound(result.best_objective_bound()) == pytest.approx(best, rel=2e-6)
        hints = mathopt.ModelSolveParameters(solution_hints=[statement.hint(found)])
        assert mathopt.solve(statement.model, solver, model_params=hints).objective_value() == pytest.approx(
            result.objective_value(), rel=NEAR, abs=1e-9
        )


def test_the_flow_is_never_above_the_optimum_and_rounds_up_to_it():
    whole = 0
    for problem in cases(seed=43, count=60):
        best, statement = optimum(problem), SplittingMathOpt(problem, relaxed=True)
        result = mathopt.solve(statement.model, mathopt.SolverType.GLOP)
        assert result.termination.reason == mathopt.TerminationReason.OPTIMAL
        assert statement.bound(result.objective_value()) <= best * (1 + NEAR)
        assert not problem.violations(problem.canonical(statement.assignment(result.variable_values())))
        if problem.counts and not problem.one_place:
            assert math.ceil(statement.value(result.objective_value()) - 1e-6) == best
            whole += 1
    assert whole > 5


def test_a_stream_of_thousands_is_a_small_program():
    rng = np.random.default_rng(44)
    problem = ks.KeySplitting(rng.zipf(1.5, 5000).clip(max=2000), workers=8)
    statement = SplittingMathOpt(problem)
    assert len(statement.x) <= 2 * 36
    result = mathopt.solve(statement.model, mathopt.SolverType.HIGHS)
    exact = SplittingCpSat(problem)
    outcome = cpsat.minimise(exact.model, Budget())
    assert exact.bound(outcome.bound) == pytest.approx(statement.value(result.objective_value()))
    assert problem.objective(statement.assignment(result.variable_values())) == exact.bound(outcome.bound)

"""The linear programs of migration policies: values and occupation measures meet, and mean what `mtm` finds."""

from __future__ import annotations

import interval_oracle as oracle
import numpy as np
import pytest
from instances.policies import random_problem
from pyomo.environ import Constraint, value

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.intervals.policy.pyomo_model import OccupationPyomo
from keyshift.solvers import highs
from keyshift.solvers.intervals.policy.mtm import solve_mtm


def of_size(problem, factor: float):
    w = problem.workload.replace(state=problem.workload.state * factor)
    return type(problem)(**{**problem.arguments(), "workload": w})


def feasible_problems(seed: int, count: int, factor: float = 1.0):
    rng = np.random.default_rng(seed)
    while count > 0:
        problem = of_size(random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4))), factor)
        if not problem.conflicts():
            count -= 1
            yield problem


@pytest.mark.parametrize("factor", [1.0, 1e-9, 1e12])
def test_pyomo_states_the_same_measures(factor):
    for problem in feasible_problems(seed=32, count=12, factor=factor):
        near = {"rel": 1e-7, "abs": 1e-7 * problem.scale}
        statement = OccupationPyomo(problem)
        program, columns = highs.compile_model(statement.model)
        result = highs.minimise(program, Budget(), relax=True)
        highs.write_back(columns, result.values)
        assert result.values is not None
        best = problem.objective(solve_mtm(problem, budget=Budget()).assignment)
        assert statement.value(_objective(statement)) == pytest.approx(best, **near)
        policy = problem.canonical(statement.assignment())
        assert not problem.violations(policy)
        assert problem.objective(policy) == pytest.approx(best, **near)


@pytest.mark.parametrize("solver", ["glop", "pdlp", "highs"])
def test_mathopt_states_the_same_measures(solver):
    for problem in feasible_problems(seed=34, count=6):
        best = problem.objective(solve_mtm(problem, budget=Budget()).assignment)
        opened = ks.model(problem, "mathopt")
        found = opened.solve(solver)
        assert found.objective == pytest.approx(best, rel=1e-4, abs=1e-4 * problem.scale)
        assert best - 1e-4 * problem.scale <= found.bound <= best + 1e-9 * problem.scale
        opened.start(solve_mtm(problem, budget=Budget()).assignment)
        assert (
            opened.program().linear.matrix.shape == ks.model(problem, "pyomo-occupation").program().linear.matrix.shape
        )


def _objective(statement) -> float:
    return value(statement.model.moved)


def test_a_policy_is_a_point_of_the_dual_and_costs_there_what_it_costs():
    """The measures of any policy keep (5) and (6); reading it back gives the policy's own value."""
    for problem in feasible_problems(seed=33, count=12):
        policy = solve_mtm(problem, budget=Budget()).assignment
        statement = OccupationPyomo(problem)
        statement.set_start(policy)
        assert statement.value(_objective(statement)) == pytest.approx(problem.objective(policy), abs=1e-9)
        for row in statement.model.component_data_objects(Constraint):
            assert value(row.body) == pytest.approx(value(row.lower), abs=1e-9)
        again = problem.canonical(statement.assignment())
        assert problem.objective(again) == pytest.approx(problem.objective(policy), abs=1e-9)


@pytest.mark.parametrize(("solver", "near"), [("glop", 1e-7), ("pdlp", 1e-2)])
def test_primal_and_dual_meet_and_equal_mtm(solver, near):
    for problem in feasible_problems(seed=31, count=6):
        best = problem.objective(solve_mtm(problem, budget=Budget()).assignment)
        assert best == pytest.approx(oracle.policy(problem), abs=1e-7 * problem.scale)
        for kind in ("pyomo", "pyomo-occupation"):
            assert ks.model(problem, kind).solve(solver).objective == pytest.approx(best, abs=near * problem.scale)


def test_a_chain_that_goes_round_and_round_is_valued_at_once():
    w = ks.Workload(load=[1.0] * 5, state=[8.0, 3, 3, 0, 1], current=[0, 0, 0, 1, 1], nodes=2)
    problem = ks.MigrationPolicy(w, {1: {2: 1.0}, 2: {1: 1.0}}, 0.2, 0.9999)
    s = ks.solve(problem, "mtm", time_limit=5)
    assert s.termination == "optimal"  # by iteration the check alone took 100,000 steps
    assert s.gap < 1e-6

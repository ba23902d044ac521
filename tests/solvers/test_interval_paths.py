"""Interval migration as a shortest path: the linear program is whole by itself, and says what the searches say."""

from __future__ import annotations

import interval_oracle as oracle
import numpy as np
import pytest
from instances.intervals import random_problem, random_workload
from ortools.math_opt.python import mathopt

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.intervals.paths import network as step_network
from keyshift.models.intervals.paths.mathopt_model import PathMathOpt
from keyshift.models.intervals.paths.pyomo_model import PathPyomo
from keyshift.models.intervals.policy.chain import PolicyChain
from keyshift.models.intervals.policy.dense import all_partitions, number_of_partitions
from keyshift.models.intervals.pyomo_model import IntervalPyomo
from keyshift.solvers import highs
from keyshift.solvers.intervals.step.ssm import solve_ssm


def by_glop(problem, solver=mathopt.SolverType.GLOP):
    statement = PathMathOpt(problem)
    result = mathopt.solve(statement.model, solver)
    if result.termination.reason == mathopt.TerminationReason.INFEASIBLE:
        return None, statement, None
    assert result.termination.reason == mathopt.TerminationReason.OPTIMAL, problem
    return statement.value(result.objective_value()), statement, result.variable_values()


def by_highs(statement):
    program, columns = highs.compile_model(statement.model)
    result = highs.minimise(program, Budget(), relax=True)
    if result.termination == "infeasible":
        return None
    for column, value in zip(columns, result.values, strict=True):
        column.set_value(value, skip_validation=True)
    return float(program.cost @ result.values) + program.offset


def of_size(problem, factor: float):
    w = problem.workload.replace(state=problem.workload.state * factor)
    return type(problem)(**{**problem.arguments(), "workload": w})


@pytest.mark.parametrize("instances", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_linear_program_of_one_step_is_whole_and_equals_ssm(instances):
    rng = np.random.default_rng(instances)
    feasible = 0
    for _ in range(instances):
        problem = random_problem(rng, int(rng.integers(1, 10)), int(rng.integers(1, 6)))
        value, statement, flow = by_glop(problem)
        answer = solve_ssm(problem, budget=Budget())
        if value is None:
            assert answer.termination == "infeasible"
            continue
        feasible += 1
        expected = problem.objective(answer.assignment)
        assert value == pytest.approx(expected, abs=1e-9)
        values = np.array(list(flow.values()))
        assert np.abs(values - np.rint(values)).max() <= 1e-9
        found = statement.assignment(flow)
        assert not problem.violations(found)
        assert problem.objective(found) == pytest.approx(expected, abs=1e-9)
    assert feasible > instances / 2


@pytest.mark.parametrize("factor", [1.0, 1e-9, 1e12])
def test_pyomo_states_the_same_path_in_any_unit(factor):
    rng = np.random.default_rng(16)
    for _ in range(25):
        problem = of_size(random_problem(rng, int(rng.integers(1, 9)), int(rng.integers(1, 5))), factor)
        expected = oracle.single_step(problem)
        if expected is None:
            assert by_highs(PathPyomo(problem)) is None
            continue
        statement = PathPyomo(problem)
        assert statement.value(by_highs(statement)) == pytest.approx(expected, rel=1e-9, abs=1e-9 * factor)
        found = statement.assignment()
        assert oracle.certificate(problem, found) == pytest.approx(expected, rel=1e-9, abs=1e-9 * factor)


def test_a_first_order_method_ends_between_paths_and_its_flow_still_names_one():
    rng = np.random.default_rng(17)
    for _ in range(10):
        problem = random_problem(rng, 8, 3)
        expected = oracle.single_step(problem)
        if expected is None:
            continue
        value, statement, flow = by_glop(problem, mathopt.SolverType.PDLP)
        assert value == pytest.approx(expected, abs=1e-4 * problem.scale)
        assert not problem.violations(statement.assignment(flow))


def test_a_known_assignment_is_a_path_of_the_network():
    rng = np.random.default_rng(18)
    tried = 0
    for _ in range(60):
        problem = random_problem(rng, int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        if problem.conflicts():
            continue
        found = ks.solve(problem, "milp").assignment
        statement = PathPyomo(problem)
        statement.set_start(found)
        assert statement.value(
            sum(statement.network.cost[e] for e in statement.drawn.arcs_of(found))
        ) / statement.unit <= (problem.objective(found) * (1 + 1e-12))
        assert problem.objective(statement.assignment()) == pytest.approx(problem.objective(found), abs=1e-9)
        assert PathMathOpt(problem).hint(found).variable_values
        tried += 1
    assert tried > 30


def random_sequence(rng) -> ks.MigrationSequence:
    counts = rng.integers(1, 5, int(rng.integers(1, 4))).tolist()
    return ks.MigrationSequence(random_workload(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4))), counts, "0.4")


@pytest.mark.parametrize("factor", [1.0, 1e-9, 1e12])
def test_a_sequence_is_a_path_over_partitions(factor):
    rng = np.random.default_rng(19)
    for _ in range(40):
        problem = of_size(random_sequence(rng), factor)
        expected = oracle.sequence(problem)
        value, statement, flow = by_glop(problem)
        if expected is None:
            assert value is None
            continue
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9 * factor)
        values = np.array(list(flow.values()))
        assert np.abs(values - np.rint(values)).max() <= 1e-9
        found = statement.assignment(flow)
        assert not problem.violations(found)
        assert problem.objective(found) == pytest.approx(expected, rel=1e-9, abs=1e-9 * factor)
        again = PathPyomo(problem)
        again.set_start(found)
        assert problem.objective(again.assignment()) == pytest.approx(expected, rel=1e-9, abs=1e-9 * factor)


def test_the_linear_relaxation_of_the_assignment_statement_is_never_above_the_optimum():
    """And often below it: a task in halves stays with its node by half, which is what the path program is spared."""
    rng = np.random.default_rng(20)
    gaps = 0
    for _ in range(60):
        problem = (
            random_sequence(rng)
            if rng.random() < 0.4
            else random_problem(rng, int(rng.integers(1, 8)), int(rng.integers(1, 4)))
        )
        problem = of_size(problem, float(rng.choice([1.0, 1e-9, 1e12])))
        solve = oracle.sequence if isinstance(problem, ks.MigrationSequence) else oracle.single_step
        expected = solve(problem)
        relaxed = by_highs(IntervalPyomo(problem))
        if expected is None:
            continue
        assert relaxed <= expected + 1e-7 * problem.scale
        gaps += relaxed < expected - 1e-3 * problem.scale
    assert gaps > 5


def test_partitions_are_counted_before_they_are_listed():
    rng = np.random.default_rng(21)
    for _ in range(40):
        problem = random_problem(rng, int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        starts = problem.starts
        assert number_of_partitions(starts, problem.nodes_after) == len(
            list(all_partitions(starts, problem.nodes_after))
        )
    w = ks.Workload(load=np.ones(60), state=np.ones(60), current=np.repeat(np.arange(6), 10), nodes=6)
    with pytest.raises(ks.InputError, match="pairs of partitions are more than"):
        PathPyomo(ks.MigrationSequence(w, [8, 6], 1))
    with pytest.raises(ks.InputError, match="pairs of partitions are more than"):
        PolicyChain(ks.MigrationPolicy(w, {6: {8: 1.0}, 8: {6: 1.0}}, 1, 0.5))


def test_a_network_of_sixty_tasks_is_small_and_one_of_thousands_is_refused(monkeypatch):
    rng = np.random.default_rng(22)
    w = ks.Workload(load=rng.random(60) + 1, state=rng.random(60), current=np.repeat(np.arange(6), 10), nodes=6)
    problem = ks.IntervalMigration(w, 8, "0.3")
    value, statement, _ = by_glop(problem)
    assert value == pytest.approx(ks.solve(problem).objective, rel=1e-9)
    assert len(statement.network.names) < 50_000
    monkeypatch.setattr(step_network, "MOST_ARCS", 1000)
    with pytest.raises(ks.InputError, match="more than the 1000 arcs"):
        PathPyomo(problem)

"""Key-group allocation: each rule alone, the declarative models against brute force, the worked examples."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.allocation.cpsat_model import AllocationCpSat
from keyshift.models.allocation.pyomo_model import AllocationPyomo
from keyshift.solvers import cpsat, highs


def allocation(load, current, nodes, *, draining=None, state=None, resources=None, **options):
    w = ks.Workload(
        load=load,
        state=np.ones(len(load)) if state is None else state,
        current=current,
        nodes=nodes,
        draining=draining,
        resources=resources,
    )
    return ks.KeyGroupAllocation(w, **options)


# The check: every rule must pass alone and fail alone -----------------------------------------------------------

FOUR = {"load": [6, 3, 2, 1], "current": [0, 0, 0, 1], "nodes": 2}
RULES = {
    "max_migrations": ({**FOUR, "max_migrations": 1}, [0, 1, 0, 1], [0, 1, 1, 1]),
    "max_migration_cost": ({**FOUR, "state": [9, 2, 2, 1], "max_migration_cost": 2}, [0, 1, 0, 1], [1, 0, 0, 1]),
    "max_migration_cost-alpha": ({**FOUR, "alpha": 0.5, "max_migration_cost": 0.5}, [0, 1, 0, 1], [0, 1, 1, 1]),
    "distance_floor": ({"load": [6, 1], "current": [0, 0], "nodes": 3, "distance_floor": True}, None, [0, 0]),
    "into_draining": ({**FOUR, "nodes": 3, "draining": [False, False, True]}, [0, 1, 0, 1], [0, 2, 0, 1]),
    "resource_capacity": (
        {**FOUR, "resources": {"memory": [1, 1, 1, 1]}, "resource_capacity": {"memory": [2, 2]}},
        [0, 1, 0, 1],
        [0, 0, 0, 1],
    ),
}


@pytest.mark.parametrize(("instance", "good", "bad"), RULES.values(), ids=RULES)
def test_each_rule_alone(request, instance, good, bad):
    problem = allocation(**instance)
    rule = request.node.callspec.id.split("-")[0]
    if good is not None:
        assert problem.check(good).feasible
    report = problem.check(bad)
    assert not report.feasible
    assert {v.rule for v in report.violations} == {rule}
    assert str(report.violations[0]) in str(report)


def test_metrics_by_hand():
    problem = allocation([6, 3, 2, 1], [0, 0, 0, 1], 2, state=[9, 2, 2, 1], alpha=0.5)
    report = problem.check([0, 1, 1, 1])
    assert report.objective == 0
    assert report.metrics["state_moved"] == 4
    assert report.metrics["migration_cost"] == 2
    assert report.metrics["migrations"] == 2
    assert report.metrics["imbalance"] == 0
    unbalanced = problem.check([0, 0, 0, 0])
    assert (unbalanced.metrics["upper_deviation"], unbalanced.metrics["lower_deviation"]) == (6, 6)
    assert unbalanced.metrics["imbalance"] == 36


def test_traffic_and_table_size_appear_where_they_apply():
    w = ks.Workload(load=[1, 1], state=[1, 1], current=[0, 1], nodes=2, home=[0, 0], traffic=[[0, 3], [1, 0]])
    figures = ks.check(ks.KeyGroupAllocation(w), [0, 1]).metrics
    assert (figures["table_size"], figures["remote_traffic"], figures["collocation_factor"]) == (1, 4, 0)
    silent = w.replace(traffic=np.zeros((2, 2)))
    assert ks.check(ks.KeyGroupAllocation(silent), [0, 1]).metrics["collocation_factor"] == 1


# Infeasible, and why ------------------------------------------------------------------------------------------


def test_arithmetic_names_what_conflicts():
    def message(**options):
        solution = ks.solve(allocation(**FOUR, **options), "milp")
        assert solution.status == solution.termination == "infeasible"
        assert solution.assignment is None
        assert solution.bound is None
        return solution.message

    assert "all key groups use 12 of load, all nodes together offer 10" in message(resource_capacity={"load": 5})
    assert "node 0 uses 11 of load, its capacity is 8, and nothing may move" in message(
        resource_capacity={"load": 8}, max_migrations=0
    )
    many = allocation([6, 3, 3], [0, 1, 2], 3, resource_capacity={"load": 5})
    assert "key group 0 uses 6 of load, no node open to it has more than 5" in ks.solve(many).message


# The models against brute force --------------------------------------------------------------------------------


def run_pyomo(problem, weights=None, most=None):
    statement = AllocationPyomo(problem, weights)
    if most is not None:
        statement.model.d.setub(most)
        statement.minimise("deviation_sum")
    program, columns = highs.compile_model(statement.model)
    result = highs.minimise(program, Budget(30))
    if result.values is None:
        return None, result
    for column, value in zip(columns, result.values, strict=True):
        column.set_value(value, skip_validation=True)
    return statement, result


def test_d_u_and_d_l_must_not_be_negative():
    # As printed they are real: w1 * d - w2 * (d_u + d_l) then falls without limit as all three fall together.
    problem = allocation(**FOUR)
    _, stated = run_pyomo(problem, weights=(3.0, 1.0))
    model = AllocationPyomo(problem, weights=(3.0, 1.0)).model
    for deviation in (model.d, model.d_u, model.d_l):
        deviation.setlb(-1000.0)
    program, _ = highs.compile_model(model)
    printed = highs.minimise(program, Budget(30))
    assert float(program.cost @ printed.values) < -900
    assert float(program.cost @ stated.values) >= 0


def test_models_take_a_start_and_return_it():
    problem = allocation([5, 4, 3, 2, 1], [0, 0, 0, 1, 1], 2, max_migrations=2)
    start = np.array([0, 0, 1, 1, 1])
    statement = AllocationPyomo(problem)
    statement.set_start(start)
    np.testing.assert_array_equal(statement.assignment(), start)
    assert pyo.value(statement.model.objective) == problem.objective(start)
    for con in statement.model.component_data_objects(pyo.Constraint):
        assert con.slack() >= -1e-9
    statement.model.x[4, 1].fix(0)  # by a user who wants it elsewhere
    statement.set_start(start)
    assert statement.model.x[4, 1].value == 0
    whole = AllocationCpSat(problem)
    whole.set_start(start)
    outcome = cpsat.minimise(whole.model, Budget(10))
    assert outcome.termination == "optimal"

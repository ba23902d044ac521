"""Key-group allocation: each rule alone, the declarative models against brute force, the worked examples."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyomo.environ as pyo
import pytest
from brute_force import brute_force
from draws import rest_slow
from instances.allocation import random_problem

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


def test_staying_on_a_draining_node_is_allowed():
    problem = allocation([4, 1], [1, 0], 2, draining=[False, True])
    assert problem.check([1, 0]).feasible
    assert not problem.check([1, 1]).feasible


def test_load_distance_counts_draining_nodes_upwards_only():
    # mean = 6 over the one kept node; the draining node's 4 lies below it and does not count.
    problem = allocation([2, 4], [0, 1], 2, draining=[False, True])
    assert problem.check([0, 1]).objective == 4
    assert problem.check([0, 0]).objective == 0


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


def test_the_mean_can_be_rounded_up_as_printed():
    exact, printed = (allocation([3, 2], [0, 1], 2, mean=mean) for mean in ("exact", "ceiling"))
    assert (exact.check([0, 1]).objective, printed.check([0, 1]).objective) == (0.5, 1.0)


def test_unequal_nodes_are_compared_by_load_per_capacity():
    problem = allocation([6, 2], [0, 1], [3.0, 1.0])
    assert problem.mean_load == 2
    assert problem.check([0, 1]).objective == 0


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

    assert "all key groups use 12 of load, all nodes together have 10" in message(resource_capacity={"load": 5})
    assert "node 0 uses 11 of load, its capacity is 8, and nothing may move" in message(
        resource_capacity={"load": 8}, max_migrations=0
    )
    many = allocation([6, 3, 3], [0, 1, 2], 3, resource_capacity={"load": 5})
    assert "key group 0 uses 6 of load, no node open to it has more than 5" in ks.solve(many).message


def test_a_conflict_that_only_a_solver_sees():
    # Three key groups of 3 on two nodes of 5: the sums fit, no packing does.
    problem = allocation([3, 3, 3], [0, 0, 1], 2, resource_capacity={"load": 5})
    assert problem.conflicts() == []
    for method in ("milp", "cp-sat"):
        assert ks.solve(problem, method).status == "infeasible"


def test_an_infeasible_relaxation_is_said_so():
    problem = allocation([3, 1], [0, 0], 2, max_migrations=0, distance_floor=True)
    assert ks.solve(problem, "lp").status in ("infeasible", "none")
    far = allocation([3, 3, 3], [0, 0, 0], 3, max_migrations=0, distance_floor=True)  # d = 6 > mean = 3
    assert ks.solve(far, "lp").status == "infeasible"


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


@pytest.mark.parametrize("scale", [1e-7, 1e9])
@pytest.mark.parametrize("seed", rest_slow(4, range(20)))
def test_the_unit_of_load_does_not_matter(seed, scale):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, p=int(rng.integers(2, 6)), n=int(rng.integers(2, 4)))
    workload = problem.workload.replace(load=problem.workload.load * scale)
    problem = dataclasses.replace(problem, workload=workload, mean="exact")
    best, _ = brute_force(problem)
    for method in [m for m in ks.methods(problem) if m.kind != "heuristic"]:
        solution = ks.solve(problem, method.name)
        if best is None:
            assert solution.status == "infeasible" or method.kind == "relaxation"
        elif method.kind == "relaxation":
            assert solution.bound <= best
        else:
            assert solution.status == "optimal"
            assert solution.objective == pytest.approx(best, abs=1e-6 * problem.scale)


@pytest.mark.parametrize("seed", rest_slow(12, range(25)))
def test_the_second_stage_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, p=int(rng.integers(2, 6)), n=int(rng.integers(2, 4)))
    best, _ = brute_force(problem)
    if best is None:
        return
    limit = best + 1e-9 * problem.scale
    import itertools

    sums = [
        problem.metrics(a)["deviation_sum"]
        for a in map(np.array, itertools.product(range(problem.workload.nodes), repeat=problem.workload.key_groups))
        if not problem.violations(a) and problem.objective(a) <= limit
    ]
    statement, _ = run_pyomo(problem, most=limit + 1e-7 * problem.scale)
    found = problem.metrics(statement.assignment())
    assert found["deviation_sum"] == pytest.approx(min(sums), abs=1e-5 * problem.scale)
    # The weighted form as printed agrees once w1 outweighs w2 by enough.
    weighted, _ = run_pyomo(problem, weights=(1e3, 1.0))
    assert problem.objective(weighted.assignment()) == pytest.approx(best, abs=1e-5 * problem.scale)


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


def test_lemma_1_fails_for_indivisible_loads():
    # One kept node at 110, of which one key group of 10 can move; ten at 99 with nothing that can move (each is a
    # single key group of 99); one empty draining node; room for one move. Into a kept node d = 9; into the
    # draining node d = 1. The mean divides by the eleven kept nodes: 1100 / 11 = 100.
    load, current = [100, 10] + [99] * 10, [0, 0, *range(1, 11)]
    draining = [False] * 11 + [True]
    options = {"max_migrations": 1, "resource_capacity": None}
    kept, printed = (
        allocation(load, current, 12, draining=draining, into_draining=into, **options) for into in (False, True)
    )
    assert ks.solve(kept).objective == 9
    assert ks.solve(printed).objective == 1


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


def test_options_that_make_no_sense_are_refused():
    w = ks.Workload(load=[1], state=[1], current=[0], nodes=1)
    with pytest.raises(ks.InputError, match="workload must be a Workload, not a list"):
        ks.KeyGroupAllocation([1, 2])
    with pytest.raises(ks.InputError, match="max_migrations = True must be a whole number"):
        ks.KeyGroupAllocation(w, max_migrations=True)


def test_both_engines_are_told_the_start(monkeypatch):
    from keyshift.solvers import cpsat, highs

    problem = random_problem(np.random.default_rng(3), p=5, n=3)
    start = problem.workload.current
    told = {}

    def spy(module, name, read):
        original = getattr(module, name)

        def call(what, *args, **kwargs):
            told[module] = read(what, kwargs)
            return original(what, *args, **kwargs)

        monkeypatch.setattr(module, name, call)

    spy(highs, "minimise", lambda program, kwargs: kwargs["start"])
    spy(cpsat, "minimise", lambda model, kwargs: len(model.proto.solution_hint.vars))
    for method in ("highs", "cp-sat"):
        ks.solve(problem, method, start=start)
    assert told[highs] is not None
    assert np.isfinite(told[highs]).all()
    assert told[cpsat] > 0

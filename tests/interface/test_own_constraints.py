"""Constraints of one's own: hundreds of random ones, against trying every assignment under the same constraint."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import own_rules
import pyomo.environ as pyo
import pytest
from instances import MODULES, allocation
from ortools.sat.python import cp_model
from scipy import sparse as sp

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.modelling import running
from keyshift.modelling.additions import as_rules, places, start_by_search
from keyshift.modelling.program import NamedProgram
from keyshift.models import Budget
from keyshift.solvers.safe_bounds import LinearProgram

BY_NAME = {module.NAME: module for module in MODULES}
OWN = [
    pytest.param(BY_NAME[name], entry, id=f"{name}-{entry.kind}")
    for name, formulation in FORMULATIONS.items()
    for entry in formulation.statements
    if entry.reader is None  # whose variables are values, of which no rule about a policy speaks
]


def rules_agree(module, entry, count: int, seed: int) -> Counter:
    """This many rules of one line, three an instance, against trying every assignment."""
    rng, seen = np.random.default_rng(seed), Counter()
    while seen.total() < count:
        problem = own_rules.drawn(module, rng)
        policy = isinstance(problem, ks.MigrationPolicy)
        spoken = own_rules.Decisions(problem) if policy else own_rules.Spoken(problem, entry.kind)
        for _ in range(3):
            if policy or spoken.groups:
                rule = spoken.draw(rng)
                if rule is not None:
                    keeps = (lambda a: True) if policy else (lambda a: spoken.keeps(a, rule))  # noqa: B023
                    seen[own_rules.judge(problem, entry, rule, spoken.best(rule), keeps)] += 1
    return seen


@pytest.mark.parametrize(("module", "entry"), OWN)
def test_a_rule_of_one_s_own_is_kept_at_the_least_cost(module, entry):
    seen = rules_agree(module, entry, 6, seed=7)
    assert seen.total() - seen["none"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize(("module", "entry"), OWN)
def test_a_thousand_rules_of_one_s_own_are_kept(module, entry):
    seen = rules_agree(module, entry, int(os.environ.get("KEYSHIFT_RULES", "1000")), seed=2026)
    print(module.NAME, entry.kind, dict(seen))


def test_a_row_without_variables_that_nothing_keeps_is_infeasible():
    model = ks.model(small())
    model.native.price = pyo.Param(initialize=1, mutable=True)
    model.native.mine = pyo.Constraint(expr=model.native.price <= 0)
    assert "infeasible" in model.solve(time_limit=20).message
    with pytest.raises(ks.InputError, match="no variables and cannot be satisfied"):
        model.write("never.mps")


def small() -> ks.KeyGroupAllocation:
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    return ks.KeyGroupAllocation(w, max_migrations=2)


def test_a_model_with_nothing_added_is_as_stated():
    for kind in ("pyomo", "cp-sat"):
        model = ks.model(small(), kind)
        assert model.as_stated()
        model.start([0, 0, 0, 1])
        assert model.as_stated()
        assert model.solve().status == "optimal"
        assert model.as_stated()


def test_a_change_that_frees_the_model_claims_nothing_and_is_offered_with_what_it_breaks():
    model = ks.model(small())
    model.native.migrations.deactivate()
    model.native.objective.deactivate()
    model.native.other = pyo.Objective(expr=sum(x for (_, i), x in model.native.x.items() if i == 0))
    solution = model.solve()
    assert not model.as_stated()
    assert solution.bound is None
    assert solution.assignment is None
    assert solution.offered.tolist() == [1, 1, 1, 1]
    assert solution.violations[0].rule == "max_migrations"


def test_a_fixed_variable_is_a_change():
    model = ks.model(small())
    model.native.x[0, 1].fix(1)
    assert not model.as_stated()
    assert model.solve().assignment[0] == 1


def test_what_somebody_else_solved_is_read():
    model = ks.model(small())
    pyo.SolverFactory("appsi_highs").solve(model.native)
    assert ks.check(model.problem, model.assignment()).objective == 0
    whole = ks.model(small(), "cp-sat")
    with pytest.raises(ks.InputError, match="has not been solved"):
        whole.assignment()
    solver = cp_model.CpSolver()
    solver.solve(whole.native)
    assert ks.check(whole.problem, whole.assignment(solver)).objective == 0


def test_a_solver_that_is_not_there_is_one_sentence_with_those_that_are():
    for name in ("gurobi", "no-such-solver"):
        with pytest.raises(ks.InputError, match=rf"'{name}' is not on this machine; there are highs, scip, cp-sat"):
            ks.model(small()).solve(name)
    with pytest.raises(ks.InputError, match="solved by cp-sat, not by 'highs'"):
        ks.model(small(), "cp-sat").solve("highs")


@pytest.mark.parametrize("solver", ["highs", "scip", "appsi_highs"])
def test_every_solver_gives_a_checked_solution(solver):
    problem = allocation.battery()["unequal nodes"]
    solution = ks.model(problem).solve(solver)
    assert solution.objective == pytest.approx(ks.solve(problem).objective)
    assert solution.details["bound_from"].startswith(solver)
    assert ("word" in solution.details["bound_from"]) == (solver != "highs")


@pytest.mark.parametrize("solver", ["cp-sat", "glop", "pdlp"])
def test_a_solver_that_would_take_variables_for_others_is_refused(solver):
    """CP-SAT takes all variables for whole, and proves a wrong optimum of that; the two others take none for whole."""
    with pytest.raises(ks.InputError, match=f"{solver} does not take this model"):
        ks.model(allocation.battery()["unequal nodes"]).solve(solver)


@pytest.mark.parametrize("solver", ["highs", "glop", "pdlp"])
def test_a_relaxation_says_its_multipliers(solver):
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    relaxed = ks.model(ks.KeyGroupAllocation(w, max_migrations=0)).relax()
    solution = relaxed.solve(solver)
    assert solution.bound == pytest.approx(5, abs=1e-3)
    assert solution.details["duals"]["migrations"] <= 0
    assert {"d", "x[k0,n1]"} <= set(solution.details["reduced_costs"])
    assert "safe" in solution.details["bound_from"]
    with pytest.raises(ks.InputError, match="no variables for an assignment"):
        relaxed.assignment()


@pytest.mark.parametrize("kind", ["pyomo", "mathopt", "cp-sat"])
def test_alike_nodes_are_told_apart_by_a_rule(kind):
    problem = ks.MCLB(ks.Workload(load=[3, 3, 3], state=[1, 1, 1], current=[0, 1, 2], nodes=3))
    model = ks.model(problem, kind)
    own_rules.add(model, own_rules.Rule("forbid", [({"x[k0,n0]": 1.0}, 0.0, 0.0)]))
    solution = model.solve()
    assert solution.objective == 0
    assert solution.assignment[0] != 0
    assert solution.details["bound_with_additions"] <= 0
    ours = ks.model(problem, kind, strengthened=True)
    assert ours.solve().objective == 0
    own_rules.add(ours, own_rules.Rule("forbid", [({"x[k0,n0]": 1.0}, 0.0, 0.0)]))
    assert "bound_with_additions" not in ours.solve().details  # nothing may be added to what assumes an order


def test_a_bound_is_claimed_for_additions_alone():
    least = ks.model(small())
    least.native.mine = pyo.Constraint(expr=least.native.x[0, 1] == 0)
    assert least.solve().details["bound_with_additions"] == pytest.approx(0, abs=1e-6)
    fixed = ks.model(small())
    fixed.native.x[0, 1].fix(1)
    assert "bound_with_additions" in fixed.solve().details
    for change in ("objective", "row", "wider"):
        model = ks.model(small())
        if change == "objective":
            model.native.objective.set_value(2 * model.native.d)
        elif change == "row":
            model.native.upper_load.deactivate()
        else:
            model.native.d.setub(1e9)
        assert "bound_with_additions" not in model.solve().details, change
    whole = ks.model(small(), "cp-sat")
    whole.native.minimize(whole.statement.x[0, 0])
    assert "bound_with_additions" not in whole.solve().details


def test_a_policy_throws_no_dice_where_rows_are_added_to_its_measures():
    w = ks.Workload(load=[1, 1, 1, 1], state=[1, 2, 3, 4], current=[0, 0, 1, 1], nodes=2)
    model = ks.model(ks.MigrationPolicy(w, {2: {3: 1.0}, 3: {2: 1.0}}, 1.0, 0.5), "pyomo-occupation")
    first = [name for name in model.names() if name.startswith("u[now")]
    own_rules.add(model, own_rules.Rule("row", [({name: 1.0}, -np.inf, 0.4) for name in first]))
    assert model.solve().assignment is None  # no first decision may be certain: halves of two policies are no answer


def test_a_verdict_of_highs_is_doubted():
    """Paths through five states, and a row that HiGHS 1.13 calls infeasible with them."""
    rows = [
        [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 1, 1, 0, 0, 0, 0], [0, -1, 0, 0, 0, 0, 1, 1, 0, 0],
        [0, 0, -1, 0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, -1, 0, -1, 0, 0, 1], [0, 0, 0, 3, 3, -1, 3, -1, 0, 0],
    ]  # fmt: skip
    least, most = np.array([[1.0, 0, 0, 0, 0, -np.inf], [1.0, 0, 0, 0, 0, 1.5]])
    zero, one = np.zeros(10), np.ones(10)
    linear = LinearProgram(zero, 0.0, sp.csr_array(np.array(rows, float)), least, most, zero, one, zero.astype(bool))
    program = NamedProgram("paths", linear, {}, [f"y{j}" for j in range(10)], [f"row{r}" for r in range(6)])
    run, values = running.by_highs(program, Budget(), 0, None)
    assert run.found
    assert (linear.matrix @ values <= most + 1e-6).all()
    assert (linear.matrix @ values >= least - 1e-6).all()


def test_a_run_that_finds_nothing_keeps_no_values_of_the_one_before():
    model = ks.model(ks.MCLB(ks.Workload(load=[3, 2, 1], state=[1, 1, 1], current=[0, 1, 1], nodes=2)), "mathopt")
    assert model.solve("scip").assignment is not None
    first, second = list(model.native.variables())[:2]
    model.native.add_linear_constraint(first + second >= 5 * (first.upper_bound + second.upper_bound + 1))
    assert model.solve("scip").assignment is None
    with pytest.raises(ks.InputError, match="has not been solved"):
        model.assignment()


def test_rows_that_rules_would_say_keep_the_search():
    rng = np.random.default_rng(5)
    w = ks.Workload(
        load=rng.integers(1, 40, 14), state=np.ones(14), current=rng.integers(0, 4, 14), nodes=4,
        keys=[f"kg-{k:04}" for k in range(14)], node_names=["a", "b 1", "c", "d"],
    )  # fmt: skip
    problem = ks.KeyGroupAllocation(w, max_migrations=6)
    first, second, *few = np.argsort(-w.last_load)[:6].tolist()
    for kind in ks.statements(problem):
        model = ks.model(problem, kind)
        native, x = model.native, model.native.x if kind == "pyomo" else model.statement.x
        rows = [x[first, i] + x[second, i] <= 1 for i in range(4)]
        rows += [sum(x[k, 1] for k in few) <= 2, x[0, 2] == 0, x[1, 3] == 1, sum(x[k, 0] for k in range(14)) <= 5]
        if kind == "pyomo":
            native.mine = pyo.ConstraintList(rule=rows)
        for row in rows if kind == "cp-sat" else ():
            native.add(row)
        added = model._added_rows(model._fresh())
        start, said = start_by_search(model, added, Budget(60.0), 0)
        assert start is not None
        rules, resources, every = as_rules(added, places(model), problem)
        assert every
        assert sorted(rule.name for rule in rules) == ["apart", "count", "never", "only", "use"]
        ruled = problem.changed(workload=w.replace(resources=resources), rules=rules)
        assert not ruled.violations(start)
        assert problem.objective(start) == pytest.approx(ks.solve(ruled).objective)
        solution = model.solve(time_limit=60)
        assert solution.objective == pytest.approx(problem.objective(start))
        assert solution.bound is None
        assert said
        assert solution.message.endswith(said)
    model = ks.model(problem, "cp-sat")  # beyond the rules: the other part of what was added is kept all the same
    x = model.statement.x
    model.native.add_implication(x[0, 1], x[1, 1])
    model.native.add(x[first, 0] == 1)
    start, said = start_by_search(model, model._added_rows(model._fresh()), Budget(60.0), 0)
    assert start[first] == 0
    assert start[0] != 1 or start[1] == 1
    assert "a part of what was added" in said


@pytest.mark.parametrize(("low", "high"), [(2, None), (None, -1), (0.4, 0.6)])
def test_no_start_breaks_a_row_that_a_rule_only_seems_to_say(low, high):
    """``x >= 2`` reads as `Only`, and nothing keeps it."""
    w = ks.Workload(load=[5, 4, 3, 2], state=[1] * 4, current=[0, 0, 1, 1], nodes=2)
    model = ks.model(ks.KeyGroupAllocation(w), "pyomo")
    model.native.mine = pyo.Constraint(expr=pyo.inequality(low, model.native.x[0, 0], high))
    start, _ = start_by_search(model, model._added_rows(model._fresh()), Budget(2.0), 0)
    assert start is None

"""Mixed routing: the exact methods and bounds against brute force and against each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws
from instances.routing import random_problem

import keyshift as ks
from keyshift.generators.routing import ZipfStream
from keyshift.models import Answer, Budget
from keyshift.models.routing.compact import Choices, compact
from keyshift.models.routing.pyomo_model import RoutingPyomo
from keyshift.solvers import highs
from keyshift.solvers.routing import lagrangian
from keyshift.solvers.routing import statement as exact
from keyshift.solvers.routing.rounding import on_grid
from keyshift.solvers.routing.statement import TIGHT


def agrees(problem, methods=("milp", "cp-sat")):
    """Brute force, the exact methods and the bound tell one story; the least objective."""
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
    return best


@draws(1, 2)
@pytest.mark.parametrize("sides", ["upper", "both"])
def test_every_table_limit_against_brute_force(sides, count):
    rng, matters = np.random.default_rng(6), 0
    for _ in range(count):
        home = rng.integers(0, 3, 6)
        w = ks.Workload(
            load=rng.integers(1, 9, 6), state=rng.integers(1, 9, 6), home=home, nodes=3,
            current=np.where(rng.random(6) < 0.5, home, rng.integers(0, 3, 6)),
        )  # fmt: skip
        values = []
        for limit in range(7):
            problem = ks.MixedRouting(w, theta_max=0.4, max_table_size=limit, sides=sides)
            values.append(agrees(problem))
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
        result = highs.minimise(program, Budget(), options=TIGHT)
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


@draws(15, 40)
def test_any_prices_bound_the_optimum(count):
    rng = np.random.default_rng(21)
    tried = 0
    while tried < count:
        problem = random_problem(rng, 5, 3)
        best, _ = brute_force(problem)
        if best is None:
            continue
        relaxation = lagrangian.Relaxation(problem, compact(problem.workload))
        n = problem.workload.nodes
        prices = lagrangian.Prices(rng.random((1, n)), rng.random((1, n)) * (problem.lower > 0), float(rng.random()))
        assert relaxation.safe_value(prices) <= best
        assert abs(relaxation.safe_value(prices) - relaxation.value(prices) * problem.scale) <= 1e-9 * problem.scale
        tried += 1


def second_interval(keys=1500, nodes=5, window=5, limit=60, seed=0):
    """A stream's second interval, its keys where a plan for the first one left them."""
    stream = ZipfStream(keys, nodes, window=window, seed=seed)
    first = ks.solve(ks.MixedRouting(stream.workload(), max_table_size=limit), "mixed").assignment
    stream.advance()
    return ks.MixedRouting(stream.workload(first), max_table_size=limit)


def test_thousands_of_keys_are_solved_to_the_proof():
    problem = second_interval()
    heuristic, bound = ks.solve(problem, "mixed").objective, ks.solve(problem, "lp").bound
    for method in ("milp", "cp-sat"):
        best = ks.solve(problem, method)
        assert best.status == "optimal"
        assert best.objective < heuristic
        assert best.metrics["table_size"] <= 60
        assert bound <= best.objective


def test_what_is_too_large_keeps_its_bound():
    problem = second_interval(600, 4, limit=25)
    s = ks.solve(problem, "milp", largest=0)
    assert s.objective - s.bound <= 0.01 * s.objective
    if s.status == "feasible":
        assert s.termination == "gap"
        assert "stay open" in s.message


def test_no_start_is_no_matter():
    problem = second_interval(600, 4, limit=25)
    alone = exact.solve_milp(problem, budget=Budget())
    assert problem.objective(alone.assignment) == ks.solve(problem, "milp").objective
    ended = exact.solve_cpsat(problem, budget=Budget(0.0))
    assert ended.assignment is None
    assert ended.termination == "time_limit"
    assert ended.bound >= 0


def test_the_solver_proves_what_the_relaxation_cannot():
    """Three keys of 2 on two nodes of at most 3.6 each: fractions fit, keys do not."""
    w = ks.Workload(load=[2, 2, 2], state=[1, 1, 1], current=[0, 0, 1], home=[0, 0, 1], nodes=2)
    for method in ("milp", "cp-sat"):
        s = ks.solve(ks.MixedRouting(w, theta_max=0.2), method)
        assert s.status == "infeasible"
        assert "proves" in s.message
    assert ks.solve(ks.MixedRouting(w, theta_max=0.2), "lp").status == "none"


def test_an_overload_within_tolerance_is_left_to_whole_numbers(monkeypatch):
    """HiGHS hands back an assignment that the check refuses: CP-SAT decides instead."""
    w = ks.Workload(load=[4, 3, 2, 1], state=[4, 3, 2, 2], current=[0, 0, 0, 1], home=[0, 0, 0, 1], nodes=2)
    problem = ks.MixedRouting(w, theta_max=0.0)
    best, _ = brute_force(problem)

    def careless(choices, budget, known, most, **settings):
        heaviest_first = np.array(
            [choices.keys.count[r] if d == 0 else 0 for r, d in zip(choices.record, choices.node, strict=True)]
        )
        return Answer(choices.assignment(heaviest_first), 0.0, "optimal")

    monkeypatch.setattr(exact, "by_highs", careless)
    answer = exact.solve_milp(problem, budget=Budget())
    assert problem.objective(answer.assignment) == best


def test_states_that_are_multiples_round_the_bound_up():
    w = ks.Workload(load=[3, 3, 1, 1], state=[6, 6, 6, 6], current=[0, 0, 0, 1], home=[0, 0, 0, 1], nodes=2)
    problem = ks.MixedRouting(w, theta_max=0.1)
    assert on_grid(problem, 0.1) == 6
    assert on_grid(problem, 6.0) == 6
    assert on_grid(problem, -1.0) == 0
    free = ks.MixedRouting(w.replace(state=[0, 0, 0, 0]))
    assert on_grid(free, 0.5) == 0
    odd = ks.MixedRouting(w.replace(state=[np.pi, np.e, 1, 1e-9]))
    assert on_grid(odd, 0.5) == 0.5


def test_reduced_costs_leave_the_optimum_open_whatever_is_known():
    """From the second best assignment, with no other search: what is fixed must not be part of anything better.

    Four of 125 instances: in these, fixing at a fifth of the allowance loses the optimum.
    """
    rng = np.random.default_rng(5)
    drawn = [random_problem(rng, 7, 3) for _ in range(125)]
    for problem in (drawn[at] for at in (73, 81, 111, 124)):
        best, _ = brute_force(problem)
        feasible = (
            np.array(a) for a in itertools.product(range(problem.workload.nodes), repeat=problem.workload.key_groups)
        )
        values = ((problem.objective(a), a) for a in feasible if not problem.violations(a))
        _, second = min(((v, a) for v, a in values if v > best + problem.tolerance), key=lambda pair: pair[0])
        portfolio = exact.RoutingPortfolio(problem, Budget(60), 0, 1, 60_000, second)
        dual = lagrangian.maximise(portfolio.relaxation, Budget(60), 0, portfolio.settings.rounds)
        answer = exact.by_cpsat(portfolio.open_choices(dual), Budget(60), None, np.inf, seed=0, threads=1)
        assert abs(problem.objective(answer.assignment) - best) <= problem.tolerance

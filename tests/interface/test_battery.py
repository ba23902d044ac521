"""One battery of properties over every registered method: a method joins it by being in the catalogue."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from instances import BATTERIES, NOT_APPLICABLE, REQUIRED

import keyshift as ks
from keyshift.catalogue import FORMULATIONS

TIME_LIMIT = 60.0  # generous: other tests run beside it
CASES = [  # by instance: the process that has solved it by every method knows the best
    pytest.param(name, label, method, row == 0 or (row + column) % 6 == 0, id=f"{name}-{label}-{method.name}")
    for name, formulation in FORMULATIONS.items()
    for row, label in enumerate(reversed(BATTERIES.get(name, dict)()))  # the largest come last, and are all repeated
    for column, method in enumerate(formulation.methods)
]


@functools.cache
def battery(name: str) -> dict[str, ks.Problem]:
    return BATTERIES[name]()


def problem_of(name: str, label: str) -> ks.Problem:
    return battery(name)[label]


@functools.cache
def solved(name: str, label: str, method: str) -> ks.Solution:
    return ks.solve(problem_of(name, label), method, time_limit=TIME_LIMIT, seed=3)


@functools.cache
def best_known(name: str, label: str) -> float | None:
    """The least objective that any method reaches, all rules kept."""
    solutions = [solved(name, label, m.name) for m in FORMULATIONS[name].methods]
    kept = [s.objective for s in solutions if s.problem is problem_of(name, label)]
    return min((value for value in kept if value is not None), default=None)


def test_every_formulation_has_a_battery():
    assert set(BATTERIES) == set(FORMULATIONS)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_every_battery_covers_the_hard_cases(name):
    missing = set(REQUIRED) - set(BATTERIES[name]()) - set(NOT_APPLICABLE[name])
    assert not missing
    covered = {(c.values[0], c.values[2].name) for c in CASES}
    assert {(name, m.name) for m in FORMULATIONS[name].methods} <= covered


@pytest.mark.parametrize(("name", "label", "method", "repeated"), CASES)
def test_a_method_keeps_its_word(name, label, method, repeated):
    """One test for all of it: these are half of all tests, and each costs its report beside what it solves."""
    problem, solution, best = problem_of(name, label), solved(name, label, method.name), best_known(name, label)
    the_answer_is_checked_and_recomputed(solution)
    assert solution.offered is None or {v.rule for v in solution.violations} <= set(method.ignores), solution.violations
    the_bound_is_on_the_right_side(problem, method, solution, best)
    if method.kind == "exact":
        assert solution.status == ("infeasible" if best is None else "optimal"), solution
        assert best is None or solution.objective <= best + problem.tolerance
    if repeated:
        the_same_seed_gives_the_same_answer(problem, method, solution)
    if method.kind == "exact" and method.takes_start:
        a_start_is_taken_and_never_lost(name, label, method, best)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "label", "method", "repeated"), CASES)
def test_the_same_seed_gives_the_same_answer(name, label, method, repeated):
    if not repeated:
        the_same_seed_gives_the_same_answer(problem_of(name, label), method, solved(name, label, method.name))


def the_answer_is_checked_and_recomputed(solution):
    assert solution.termination != "time_limit"
    if solution.assignment is None:
        assert solution.objective is None
        return
    report = ks.check(solution.problem, solution)
    assert report.feasible, report
    assert solution.objective == report.objective
    assert solution.metrics == report.metrics
    with pytest.raises(ValueError, match="read-only"):
        solution.assignment[...] = 0


def the_bound_is_on_the_right_side(problem, method, solution, best):
    if solution.problem is not problem:
        assert solution.bound is None
    if method.kind == "relaxation" and best is not None:
        assert solution.bound is not None
    if solution.bound is not None and best is not None:
        assert solution.bound <= best + 1e-12 * abs(best)


def the_same_seed_gives_the_same_answer(problem, method, first):
    again = ks.solve(problem, method.name, time_limit=TIME_LIMIT, seed=3)
    assert (first.status, first.objective, first.bound) == (again.status, again.objective, again.bound)
    np.testing.assert_array_equal(first.assignment, again.assignment)


def a_start_is_taken_and_never_lost(name, label, method, best):
    problem = problem_of(name, label)
    if best is None:
        with pytest.raises(ks.InputError, match=r"the start is not feasible|assignment has shape"):
            ks.solve(problem, method.name, start=problem.workload.current)
        return
    solutions = [solved(name, label, m.name) for m in FORMULATIONS[name].methods]
    start = next(s for s in solutions if s.objective == best and s.problem is problem)
    solution = ks.solve(problem, method.name, start=start, time_limit=0.0)
    assert solution.objective is not None
    assert solution.objective <= best + problem.tolerance

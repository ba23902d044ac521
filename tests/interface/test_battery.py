"""One battery of properties over every registered method: a method joins it by being in the catalogue."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from instances import BATTERIES, NOT_APPLICABLE, REQUIRED

import keyshift as ks
from keyshift.catalogue import FORMULATIONS

TIME_LIMIT = 60.0  # generous: other tests run beside it
CASES = [
    pytest.param(name, method, label, id=f"{name}-{method.name}-{label}")
    for name, formulation in FORMULATIONS.items()
    for method in formulation.methods
    for label in BATTERIES.get(name, dict)()
]
EXACT = [case for case in CASES if case.values[1].kind == "exact"]
WARM = [case for case in EXACT if case.values[1].takes_start]


@functools.cache
def problem_of(name: str, label: str) -> ks.Problem:
    return BATTERIES[name]()[label]


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
    covered = {(c.values[0], c.values[1].name) for c in CASES}
    assert {(name, m.name) for m in FORMULATIONS[name].methods} <= covered


@pytest.mark.parametrize(("name", "method", "label"), CASES)
def test_answer_is_checked_and_recomputed(name, method, label):
    solution = solved(name, label, method.name)
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


@pytest.mark.parametrize(("name", "method", "label"), CASES)
def test_bound_is_on_the_right_side(name, method, label):
    solution, best = solved(name, label, method.name), best_known(name, label)
    if solution.problem is not problem_of(name, label):
        assert solution.bound is None
    if method.kind == "relaxation" and best is not None:
        assert solution.bound is not None
    if solution.bound is not None and best is not None:
        assert solution.bound <= best + 1e-12 * abs(best)


@pytest.mark.parametrize(("name", "method", "label"), EXACT)
def test_exact_methods_end_in_a_proof(name, method, label):
    solution, best = solved(name, label, method.name), best_known(name, label)
    assert solution.status == ("infeasible" if best is None else "optimal"), solution
    if best is not None:
        assert solution.objective <= best + problem_of(name, label).tolerance


@pytest.mark.parametrize(("name", "method", "label"), CASES)
def test_same_seed_same_answer(name, method, label):
    first = solved(name, label, method.name)
    again = ks.solve(problem_of(name, label), method.name, time_limit=TIME_LIMIT, seed=3)
    assert (first.status, first.objective, first.bound) == (again.status, again.objective, again.bound)
    np.testing.assert_array_equal(first.assignment, again.assignment)


@pytest.mark.parametrize(("name", "method", "label"), WARM)
def test_a_start_is_taken_and_never_lost(name, method, label):
    best = best_known(name, label)
    if best is None:
        with pytest.raises(ks.InputError, match=r"the start is not feasible|assignment has shape"):
            ks.solve(problem_of(name, label), method.name, start=problem_of(name, label).workload.current)
        return
    solutions = [solved(name, label, m.name) for m in FORMULATIONS[name].methods]
    start = next(s for s in solutions if s.objective == best and s.problem is problem_of(name, label))
    solution = ks.solve(problem_of(name, label), method.name, start=start, time_limit=0.0)
    assert solution.objective is not None
    assert solution.objective <= best + problem_of(name, label).tolerance

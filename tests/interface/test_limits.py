"""When a run ends: by its proof, by the gap that was asked for, or by its limit - and never without a word."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from instances import BATTERIES

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.models import Answer, Budget, Solution, answer
from keyshift.models.answer import GAP, TIME_LIMIT
from keyshift.solving import answered

EXACT = [(name, m.name) for name, f in FORMULATIONS.items() for m in f.methods if m.kind == "exact"]


def far_from_balance(key_groups=60):
    rng = np.random.default_rng(0)
    w = ks.Workload(load=rng.random(key_groups), state=np.ones(key_groups), current=np.zeros(key_groups, int), nodes=6)
    return ks.KeyGroupAllocation(w, max_migrations=key_groups // 2)


def test_a_budget_is_over_when_objective_and_bound_are_close_enough(monkeypatch):
    budget = Budget(gap=0.1, scale=10.0)
    budget.report(objective=6.0, bound=5.0)
    assert not budget.expired  # what is proven in the first seconds is proven
    monkeypatch.setattr(answer, "PATIENCE", 0.0)
    assert budget.expired
    assert budget.why == budget.part(0.5).why == "gap"
    budget.report(objective=6.1)
    assert not budget.expired
    assert not Budget().expired


def test_a_part_for_another_problem_has_figures_of_its_own(monkeypatch):
    monkeypatch.setattr(answer, "PATIENCE", 0.0)
    budget = Budget(gap=0.1, scale=10.0)
    other, heuristic, same = budget.part(0.5, scale=1.0), budget.part(0.5, scale=0.0), budget.part(0.5)
    for part in (other, heuristic):
        part.report(objective=1.0, bound=1.0)
    assert other.expired
    assert not heuristic.expired
    assert not budget.expired
    same.report(objective=1.0, bound=0.0)
    assert budget.expired
    assert heuristic.expired


def test_the_gap_ends_a_run_and_says_so(monkeypatch):
    problem = far_from_balance()
    monkeypatch.setattr(answer, "PATIENCE", 0.0)
    ended = ks.solve(problem, gap=3.0)
    assert (ended.status, ended.termination) == ("feasible", "gap")
    assert "within the gap asked for" in ended.message
    assert "gap 0" in ended.message
    assert ended.gap_abs <= 3.0 * problem.scale
    (compared,) = ks.compare(problem, ["milp"], gap=3.0)
    assert compared.termination == "gap"


@pytest.mark.parametrize(("name", "method"), [(n, m) for n, m in EXACT if n != "migration-policy"])
def test_what_is_proven_at_once_is_proven_whatever_the_gap(name, method):
    problem = BATTERIES[name]()["tight"] if "tight" in BATTERIES[name]() else next(iter(BATTERIES[name]().values()))
    solution = ks.solve(problem, method, gap=100.0)
    assert solution.status in ("optimal", "infeasible") or solution.seconds > 2.0


@pytest.mark.parametrize("gap", [-1e-4, float("nan"), None, True])
def test_a_bad_gap_is_refused(gap):
    with pytest.raises(ks.InputError, match="gap"):
        ks.solve(far_from_balance(), gap=gap)


@pytest.mark.parametrize("verb", [ks.solve, ks.pareto, ks.explain, ks.study])
def test_every_verb_has_the_same_limit_and_gap(verb):
    known = inspect.signature(verb).parameters
    assert (known["time_limit"].default, known["gap"].default) == (TIME_LIMIT, GAP)


def ended(termination, message="", bound=0.0):
    def method(problem, *, budget, seed=0):
        return Answer(problem.workload.current, bound, termination, message)

    entry = ks.catalogue.Method("mine", "exact", "here", "tests:none", "none")
    problem = far_from_balance()
    object.__setattr__(entry, "takes_start", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(entry), "function", property(lambda self: method))
        return answered(problem, entry, Budget(5.0), 0, None, {})


@pytest.mark.parametrize("termination", ["completed", "gap", "optimal"])
def test_an_exact_method_that_ends_without_a_proof_says_something(termination):
    assert "before the limit" in ended(termination).message
    assert ended(termination, "too large").message == "too large"
    assert ended("time_limit").message == ""


OPTIONS = {"rounds": 1, "search_steps": 10, "bound_steps": 1, "finish": False, "max_rounds": 1, "max_tree": 1}
LARGER = {
    "key-group-allocation": ("madsen-allocation", {"nodes": 12, "key_groups": 240, "max_migrations": 24}),
    "collocated-allocation": ("madsen-collocation", {"nodes": 5, "key_groups": 80, "max_migrations": 20}),
    "mclb": ("guo-mclb", {"nodes": 4, "key_groups": 40, "windows": 3, "share_moved": 0.2}),
    "movement-within-limits": ("guo-movement", {"nodes": 5, "key_groups": 60, "width": 0.02}),
    "key-splitting": ("nasir-splitting", {"messages": 4000, "keys": 300, "workers": 9}),
    "replicated-allocation": ("zipf-replicas", {"nodes": 6, "key_groups": 60}),
    "key-placement": ("nasir-placement", {"messages": 4000, "keys": 300, "workers": 9}),
    "mixed-routing": ("fang-routing", {"nodes": 8, "keys": 300, "max_table_size": 30}),
    "interval-migration": ("ding-step", {"tasks": 60, "nodes_after": 7, "tau": 0.2}),
    "migration-sequence": ("ding-sequence", {"tasks": 60, "changes": 4}),
    "migration-policy": ("ding-policy", {"tasks": 22, "tau": 0.3, "discount": 0.95}),
}


def drawn(name: str) -> ks.Problem:
    family, parameters = LARGER[name]
    return next(iter(ks.family(family, **parameters)))[1]


def said_enough(solution: Solution) -> bool:
    """Proven, at its limit, or with a word on why it ended."""
    proven = solution.status in ("optimal", "infeasible")
    return proven or solution.termination in ("time_limit", "interrupted") or bool(solution.message)


@pytest.mark.parametrize(("name", "method"), EXACT)
def test_no_method_ends_early_without_a_word(name, method):
    """At a limit that it has, and cut short by its own options."""
    problem = drawn(name)
    has = ks.catalogue.find_method(problem, method).options
    short = {option: value for option, value in OPTIONS.items() if option in has}
    limited = ks.solve(problem, method, effort=0.1)
    assert said_enough(limited), limited
    if short:
        cut = ks.solve(problem, method, effort=1.0, **short)
        assert said_enough(cut), cut


FIRST = """
import dataclasses, importlib.abc, sys
import keyshift as ks
from keyshift.catalogue import find_method
from keyshift.models.base.compiling import COMPILING
from keyshift.solving import make_ready
from test_limits import LARGER, drawn

class OnTheClock(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if not still:
            late.append(name)

still, late, posed = [], [], [drawn(name) for name in LARGER]
COMPILING.pause, COMPILING.resume = lambda: still.append(True), still.clear
posed += [dataclasses.replace(p, priorities=p.measures[:2][::-1]) for p in posed if hasattr(p, "measures")]
for method in (None, "lagrange"):
    for problem in posed:
        if method in (None, *(known.name for known in ks.methods(problem))):
            make_ready(problem, find_method(problem, method), None)
            sys.meta_path.insert(0, finder := OnTheClock())
            ks.solve(problem, method, time_limit=0.3)
            sys.meta_path.remove(finder)  # Pyomo has one of its own
            assert not late, (problem.name, method, late)
"""


def test_the_first_solve_of_a_process_does_not_pay_for_its_imports():
    """A solver takes half a second to load, on a busy machine many times that: what is imported on the way is on no clock."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    subprocess.run([sys.executable, "-c", FIRST], check=True, timeout=300, env={**os.environ, "PYTHONPATH": path})

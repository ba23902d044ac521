"""The default is not beaten by what a heuristic of the same problem finds in a hundredth of the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import keyshift as ks
from keyshift import solving
from keyshift.catalogue import FORMULATIONS, find_method
from keyshift.models import Answer, Budget
from keyshift.solving import answered

SECONDS = 0.3


def drawn(count: int, seed: int) -> Iterator[ks.Problem]:
    """Allocation, collocation, MCLB, movement and routing in turn: loads and states even or with heavy tails, some nodes draining."""
    rng = np.random.default_rng(seed)

    def sizes(p: int) -> np.ndarray:
        return rng.pareto(1.1, p) + 0.05 if rng.random() < 0.5 else rng.random(p) + 0.1

    for i in range(count):
        n, p, moves, start = (int(rng.integers(*ends)) for ends in ((4, 14), (60, 260), (3, 40), (0, 10**6)))
        w = ks.Workload(load=sizes(p), state=sizes(p), current=rng.integers(0, n, p), nodes=n)
        ends = rng.integers(0, p, (4 * p, 2))
        traffic = np.zeros((p, p))
        traffic[ends[:, 0], ends[:, 1]] = sizes(4 * p) * (ends[:, 0] != ends[:, 1])
        families = {
            3: ("guo-movement", {"key_groups": p, "nodes": n}),
            4: ("fang-routing", {"keys": 4 * p, "nodes": n}),
        }
        if i % 5 == 0:
            draining = np.arange(n) < (n // 3 if rng.random() < 0.5 else 0)
            yield ks.KeyGroupAllocation(w.replace(draining=draining), max_migrations=moves)
        elif i % 5 == 1:
            yield ks.CollocatedAllocation(w.replace(traffic=traffic), max_migrations=moves)
        elif i % 5 == 2:
            yield ks.MCLB(w, max_state_moved=float(w.state.sum() * rng.random() / 2))
        else:
            family, parameters = families[i % 5]
            yield next(iter(ks.family(family, seed=start, **parameters)))[1]


def beaten(problem: ks.Problem, seconds: float) -> str:
    """The heuristic that beats the default in a hundredth of its time, if one does."""
    solution = ks.solve(problem, time_limit=seconds, gap=0.0)
    if solution.status in ("optimal", "infeasible"):
        return ""
    for method in FORMULATIONS[problem.name].methods:
        if method.kind != "heuristic":
            continue
        other = ks.solve(problem, method.name, time_limit=seconds / 100)
        if other.objective is not None and other.problem is problem:
            most = other.objective + problem.tolerance_of(other.objective)
            if solution.objective is None or solution.objective > most:
                return f"{method.name} {other.objective} < {solution.objective}"
    return ""


@pytest.fixture
def processors_clock(monkeypatch):
    """Seconds are the processor's: a machine that is busy takes nothing from anybody."""
    monkeypatch.setattr(time, "monotonic", time.process_time)


@pytest.mark.usefixtures("processors_clock")
def test_no_heuristic_beats_the_default():
    assert [said for problem in drawn(10, 7) if (said := beaten(problem, SECONDS))] == []


@pytest.mark.slow
@pytest.mark.usefixtures("processors_clock")
@pytest.mark.parametrize("seed", range(5))
def test_no_heuristic_beats_the_default_on_many(seed):
    assert [said for problem in drawn(30, 100 + seed) if (said := beaten(problem, 1.0))] == []


def lazy(problem, *, budget, seed=0, start=None):
    """A method that hands its start back."""
    return Answer(start, 0.0)


def answer_of(problem: ks.Problem, termination: str, rivals: tuple[str, ...]) -> ks.Solution:
    """What comes of a method that knows no better than to leave everything where it is."""

    def lazy(problem, *, budget, seed=0, start=None):
        return Answer(problem.workload.current, 0.0, termination)

    method = replace(find_method(problem, "milp"), warm_start=(), rescue=(), rivals=rivals)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(method), "function", property(lambda self: lazy if self is method else FUNCTION(self)))
        return answered(problem, method, Budget(1.0), 0, None, {})


FUNCTION = type(find_method(next(drawn(1, 0)), "milp")).function.fget


def test_an_answer_without_a_proof_gives_way_to_a_better_rival():
    problem = next(drawn(1, 3))
    flux = ks.solve(problem, "flux").objective
    assert answer_of(problem, "completed", ()).objective > flux
    solution = answer_of(problem, "completed", ("flux",))
    assert solution.objective == flux
    assert solution.bound == 0.0


def test_starts_and_rivals_have_a_hundredth_of_every_limit_each():
    names = ("a", "b", "c", "d")
    assert solving._kept_for(names, 1.0) == 0.1
    assert solving._kept_for(names, 60.0) == pytest.approx(2.4)
    assert solving._kept_for(names, 600.0) == pytest.approx(24.0)
    assert solving._kept_for(names, float("inf")) == 1.0
    assert solving._enough(names, 600.0, 2.0) == pytest.approx(24.0)


SMALL = {
    "key-group-allocation": ("hard-allocation", {"kind": "boundary", "key_groups": 40}),
    "collocated-allocation": ("hard-collocation", {"kind": "boundary", "key_groups": 20}),
    "mclb": ("hard-mclb", {"kind": "giant", "key_groups": 40}),
    "movement-within-limits": ("hard-movement", {"kind": "boundary", "key_groups": 20}),
    "key-splitting": ("hard-splitting", {"kind": "two-scales"}),
    "key-placement": ("hard-placement", {"kind": "two-scales"}),
    "mixed-routing": ("hard-routing", {"kind": "boundary", "keys": 60}),
    "migration-sequence": ("hard-sequence", {"kind": "ties"}),
}


OWN = {("mclb", "local-search"), ("collocated-allocation", "local-search")}
"""What the default itself begins with."""


@pytest.mark.parametrize("name", SMALL)
def test_a_default_that_does_nothing_itself_is_as_good_as_every_heuristic(name, monkeypatch):
    """Every fast heuristic of its problem is tried, before it or after."""
    monkeypatch.setattr(solving, "_enough", lambda names, seconds, most: 1000.0)
    family, parameters = SMALL[name]
    for problem in (next(iter(ks.family(family, seed=seed, **parameters)))[1] for seed in range(1)):
        default, *others = FORMULATIONS[name].methods
        with pytest.MonkeyPatch.context() as patch:
            assert default.takes_start
            patch.setattr(
                type(default), "function", property(lambda self, d=default: lazy if self is d else FUNCTION(self))
            )
            found = answered(problem, default, Budget(1000.0), 0, None, {})
        for method in others:
            if method.kind == "heuristic" and method.may_help(problem) and (name, method.name) not in OWN:
                other = ks.solve(problem, method.name)
                if other.objective is not None and other.problem is problem:
                    assert found.objective <= other.objective + problem.tolerance_of(other.objective), method.name


def test_draining_first_is_a_start_only_where_something_drains():
    method = find_method(next(drawn(1, 0)), "drain-first")
    load = np.ones(4)
    for draining in (False, True):
        w = ks.Workload(load=load, state=load, current=[0, 0, 1, 1], nodes=2, draining=[draining, False])
        assert method.may_help(ks.KeyGroupAllocation(w)) is draining

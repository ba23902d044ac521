"""Key-group allocation by subsets: against every assignment, with all that limits sets of key groups."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws
from instances.allocation import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.subsets import SubsetProgram


def bisected(problem: ks.KeyGroupAllocation) -> np.ndarray | None:
    """The best assignment by questions alone, each answer within its distance."""
    instance = Instance(problem)
    program, low, high, best = SubsetProgram(instance), 0.0, instance.total, None
    program.count = 1  # so few sets are listed at first that the lists have to be widened
    while True:
        target = program.between(low, high, Budget())
        answered, place = program.within(-target, target, math.inf, Budget())
        assert answered
        if place is None and target >= high:
            return best
        if place is None:
            low = min(program.beyond(target), high) - instance.error_bound
            continue
        assert instance.distance(place) <= target + 2 * instance.error_bound
        best, high = place, instance.distance(place) - 3 * instance.error_bound
        if high <= 0:
            return best


@draws(60, 600)
def test_the_optimum_of_any_limits(count):
    """Capacities, draining nodes, resources, a limit on moves or on cost, closed pairs: as brute force has it."""
    rng, suited = np.random.default_rng(3), 0
    for _ in range(count):
        problem = random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 5)))
        if rng.random() < 0.3:
            never = ks.rules.Never(key_groups=[0], nodes=[int(rng.integers(problem.workload.nodes))])
            problem = replace(problem, rules=[never])
        if not SubsetProgram.suits(Instance(problem)):
            continue
        least, best = brute_force(problem)[0], bisected(problem)
        if least is None:  # what stays where it may not is the check's to say
            assert best is None or problem.violations(best)
        else:
            suited += 1
            assert not problem.violations(best)
            assert problem.objective(best) == pytest.approx(least, abs=problem.tolerance)
    assert suited > 0.3 * count


@draws(20, 200)
def test_the_worst_of_several_windows(count):
    rng = np.random.default_rng(4)
    for _ in range(count):
        p, n = int(rng.integers(3, 7)), int(rng.integers(2, 4))
        w = ks.Workload(load=rng.gamma(1.0, 1.0, (3, p)), state=np.ones(p), current=rng.integers(0, n, p), nodes=n)
        problem = ks.KeyGroupAllocation(w, max_migrations=int(rng.integers(1, p + 1)), windows=3)
        assert problem.objective(bisected(problem)) == pytest.approx(brute_force(problem)[0], abs=problem.tolerance)
        mean = replace(problem, over="mean")
        assert not SubsetProgram.suits(Instance(mean)), "a mean of windows is no distance of one set"


def test_twenty_key_groups_are_proven_within_a_second_of_work(monkeypatch):
    """By the nearest sets, of which there are few: neither prices nor HiGHS are asked."""
    for turns in ("highs_turns", "price_turns"):
        monkeypatch.setattr(f"keyshift.solvers.allocation.portfolio.Portfolio.{turns}", lambda self: iter(()))
    for name, problem in ks.family("madsen-scale-in", count=2, nodes=5, key_groups=20, drain=1, max_migrations=10):
        solution = ks.solve(problem, gap=0, effort=1.0, second_stage=False)
        assert solution.status == "optimal", name


def test_a_question_that_takes_too_long_is_left():
    rng = np.random.default_rng(5)
    w = ks.Workload(load=rng.random(14), state=np.ones(14), current=np.arange(14) % 4, nodes=4)
    program = SubsetProgram(Instance(ks.KeyGroupAllocation(w)))
    assert program.within(-0.5, 0.5, 100.0, Budget()) == (False, None)
    answered, place = program.within(-0.5, 0.5, math.inf, Budget())
    assert answered
    assert place is not None


def test_sixteen_key_groups_are_proven_by_subsets_alone(monkeypatch):
    """No solver is asked."""
    rng = np.random.default_rng(6)
    w = ks.Workload(
        load=rng.gamma(1.0, 1.0, 16),
        state=np.ones(16),
        current=rng.integers(0, 5, 16),
        nodes=5,
        draining=[0, 0, 0, 0, 1],
    )
    monkeypatch.setattr("keyshift.solvers.allocation.portfolio.Portfolio.cpsat_turns", lambda self: iter(()))
    monkeypatch.setattr("keyshift.solvers.allocation.portfolio.Portfolio.highs_turns", lambda self: iter(()))
    monkeypatch.setattr("keyshift.solvers.allocation.portfolio.Portfolio.price_turns", lambda self: iter(()))
    problem = ks.KeyGroupAllocation(w, max_migrations=9)
    solution = ks.solve(problem, gap=0, effort=2.0, second_stage=False)
    assert solution.status == "optimal"
    assert solution.bound == pytest.approx(solution.objective, abs=problem.tolerance)


@draws(40, 300)
def test_the_second_stage_is_that_of_every_assignment(count):
    """Both stages by subsets: the least distance, then the least sum of its sides."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        problem = random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(2, 4)))
        w, instance = problem.workload, Instance(problem)
        if not SubsetProgram.suits(instance) or (best := bisected(problem)) is None or problem.violations(best):
            continue
        places = list(itertools.product(range(w.nodes), repeat=w.key_groups))
        every = [problem.check(place) for place in places]
        near = problem.objective(best) + problem.tolerance
        least = min(r.metrics["deviation_sum"] for r in every if r.feasible and r.objective <= near)
        program = SubsetProgram(instance)
        distances = np.array([instance.distance(np.array(r)) for r, c in zip(places, every, strict=True) if c.feasible])
        for below in rng.choice(distances, 5):
            program.within(-below, below, math.inf, Budget())
            error_bound, above = 3 * instance.error_bound, program.beyond(below)
            assert not ((distances > below + error_bound) & (distances < above - error_bound)).any()
        proven, place = program.least_sides(best, math.inf, Budget())
        assert proven
        assert problem.metrics(place)["deviation_sum"] == pytest.approx(least, abs=3 * problem.tolerance)

"""Key-group allocation, the key groups of a few nodes shared out anew: against every assignment, and dozens that end proven."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws, rest_slow
from instances.allocation import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.allocation import exchanges
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.exchanges import Subproblem, even_out
from keyshift.solvers.allocation.portfolio import Portfolio


@draws(25, 150)
def test_choices_of_all_key_groups_are_those_of_every_assignment(count):
    """Of all key groups on all nodes a choice is found if and only if an assignment is so near the mean."""
    rng, found = np.random.default_rng(5), 0
    for _ in range(count):
        problem = random_problem(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4)))
        if problem.workload.draining.any():
            continue
        instance, w = Instance(problem), problem.workload
        part = Subproblem(instance, w.current, np.arange(w.key_groups), np.arange(w.nodes))
        near = part.near(0.3, 0.0)
        chosen = None if near is None else part.choice(near, Budget())
        every = (np.array(place) for place in itertools.product(range(w.nodes), repeat=w.key_groups))
        able = any(instance.distance(a) <= 0.3 and not problem.violations(a) for a in every)
        assert (chosen is not None) == able
        if chosen is not None:
            found += 1
            place = part.placed(w.current, chosen)
            assert instance.distance(place) <= 0.3 + 1e-9
            assert not problem.violations(place)
    assert found > 0.2 * count


@draws(25, 150)
def test_evening_out_never_goes_below_the_optimum(count):
    rng, met = np.random.default_rng(6), 0
    for number in range(count):
        problem = random_problem(rng, int(rng.integers(2, 7)), int(rng.integers(2, 4)))
        found = Portfolio(problem, Budget(60)).found
        if not found.add_solution(problem.workload.current):
            continue
        even_out(found, Instance(problem), np.random.default_rng(number), 6, found.budget)
        least = brute_force(problem)[0]
        assert found.objective >= least - problem.tolerance
        met += found.objective <= least + problem.tolerance
    assert met > 0.3 * count


def test_too_many_sets_with_the_same_load_are_none(monkeypatch):
    """No distance is so small that it leaves fewer of them."""
    w = ks.Workload(load=np.ones(12), state=np.ones(12), current=np.zeros(12), nodes=2)
    part = Subproblem(Instance(ks.KeyGroupAllocation(w)), w.current, np.arange(12), np.arange(2))
    monkeypatch.setattr(exchanges, "MOST_SETS", 1000)
    assert part.near(0.5, 0.0).bits.size == 924
    monkeypatch.setattr(exchanges, "MOST_SETS", 100)
    assert part.near(0.5, 0.0) is None


def test_distances_of_whole_loads_on_nodes_that_drain():
    rng, closed = np.random.default_rng(8), 0
    for _ in range(120):
        p, n = int(rng.integers(3, 7)), int(rng.integers(2, 4))
        w = ks.Workload(
            load=rng.choice([2, 4, 6], p), state=np.ones(p), current=rng.integers(0, n, p), nodes=n,
            draining=np.arange(n) == n - 1,
        )  # fmt: skip
        problem = ks.KeyGroupAllocation(w, into_draining=bool(rng.random() < 0.3))
        found, least = Portfolio(problem, Budget()).found, brute_force(problem)[0]
        found.raise_bound(0.0, "whole loads")
        assert found.bound <= least + 1e-12
        closed += least > 0 and found.bound == pytest.approx(least, rel=1e-6)
    assert closed > 15


@pytest.mark.parametrize(
    ("nodes", "key_groups", "limits"),
    rest_slow(1, [(3, 75, {"max_migrations": 12}), (7, 30, {"max_migrations": 9})]),
)
def test_uneven_loads_of_teaching_size_are_proven(nodes, key_groups, limits):
    rng = np.random.default_rng(nodes)
    load, state = rng.uniform(1, 10, key_groups), rng.integers(1, 10, key_groups)
    w = ks.Workload(load=load, state=state, current=np.arange(key_groups) % nodes, nodes=nodes)
    found = ks.solve(ks.KeyGroupAllocation(w, **limits), gap=0, second_stage=False, time_limit=60)
    assert found.status == "optimal", found

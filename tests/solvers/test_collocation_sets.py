"""Collocated allocation by sets of key groups: against every assignment, whatever part of the sets a round looks at."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws
from instances import collocation

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.collocation import sets as sets_of_nodes
from keyshift.solvers.collocation.arrays import Arrays
from keyshift.solvers.collocation.sets import CollocationSets, NodeSets
from keyshift.solvers.set_partitioning import CoverPrices

HOW: dict[str, dict[str, int]] = {
    "as it is": {},
    "few sets at once": {"MOST_COLUMNS": 8},
    "few columns at once": {"NEAR": 2, "ROUNDS": 2, "FRESH": 3},
}


@functools.cache
def tiny() -> list[tuple[ks.CollocatedAllocation, float | None]]:
    rng = np.random.default_rng(9)
    drawn = [collocation.random_problem(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4)), 0) for _ in range(80)]
    drawn[::3] = [replace(p, max_migrations=1 + k % 2, max_migration_cost=None) for k, p in enumerate(drawn[::3])]
    return [(p, brute_force(p)[0]) for p in drawn if CollocationSets.suits(p, Arrays(p))]


@pytest.mark.parametrize("how", [*HOW, "all at once"])
@pytest.mark.parametrize("begun", [False, True], ids=["no start", "current nodes"])
@draws(15, 80)
def test_sets_agree_with_every_assignment(how, begun, count, monkeypatch, request):
    if how in HOW:
        request.getfixturevalue("without_subsets")
    for name, value in HOW.get(how, {}).items():
        monkeypatch.setattr(sets_of_nodes, name, value)
    proven = infeasible = 0
    for problem, least in tiny()[:count]:
        data, current = Arrays(problem), problem.workload.current
        start = current if begun and not problem.violations(current) else None
        closer = 0.5 * problem.tolerance / (problem.saved * data.traffic_unit)
        sets = CollocationSets(problem, data, start, closer, data.allowed)
        with monkeypatch.context() as patch:
            if how == "all at once" and CollocationSets.tabled(data, 60.0):
                patch.setattr(CollocationSets, "_first_prices", lambda *_: pytest.fail("subsets alone have no answer"))
            done = sets.run(Budget(60))
        if least is None:
            infeasible += done
            assert sets.best is None
            continue
        remote = least / problem.saved / data.traffic_unit
        if problem.minimise == "total_load":
            remote = 1 - (float(problem.remote_loads.sum()) - least) / (problem.saved * data.traffic_unit)
        assert sets.lowest <= remote + 1e-9
        if done:
            proven += 1
            assert problem.objective(sets.best) == pytest.approx(least, abs=problem.tolerance)
    assert proven > len(tiny()[:count]) / 3
    assert infeasible > 2


def test_what_the_check_refuses_is_no_answer(monkeypatch):
    """By rounding it may refuse what limits on sets allow: then columns are next, and nothing is proven."""
    monkeypatch.setattr(CollocationSets, "add_solution", lambda *_: None)
    monkeypatch.setattr(CollocationSets, "_begin", lambda *_: False)
    able = [(p, least) for p, least in tiny() if CollocationSets.tabled(Arrays(p), 60.0)]
    for problem, least in able:
        data = Arrays(problem)
        done = CollocationSets(problem, data, None, 0.0, data.allowed).run(Budget(60))
        assert done == (least is None)
    assert any(least is not None for _, least in able)


def node_sets(problem: ks.CollocatedAllocation) -> NodeSets:
    data = Arrays(problem)
    traffic = np.zeros((data.key_groups, data.key_groups))
    traffic[data.first, data.second] = data.mean_traffic
    return NodeSets(data, np.array([0]), data.allowed, (0.0, 1.0), traffic + traffic.T)


def test_the_sets_of_little_reduced_cost_are_those_that_an_enumeration_finds():
    rng, several = np.random.default_rng(5), 0
    for problem, _ in tiny():
        one = node_sets(problem)
        p = one.data.key_groups
        every = np.array(list(itertools.product([0.0, 1.0], repeat=p)))
        every = every[one.fits(every)]
        prices = CoverPrices(rng.uniform(0, 3 / p, p), np.zeros(1), rng.uniform(0, 0.2, 2))
        reduced = one.cost(every) + every @ one.pay(prices)
        for most in (np.quantile(reduced, 0.3) + 1e-9, np.inf) if reduced.size else (np.inf,):
            wanted = {tuple(row) for row in every[reduced <= most]}
            several += len(wanted) > 3
            made, level = one.below(prices, most, 10_000, Budget(60))
            assert level == most
            assert {tuple(row) for row in made} == wanted
            made, level = one.below(prices, most, 2, Budget(60))
            assert len(made) <= 4
            assert {tuple(row) for row in every[reduced < level - 1e-9]} <= {tuple(row) for row in made} <= wanted
    assert several > 20


@pytest.mark.usefixtures("without_subsets")
def test_twenty_key_groups_that_all_talk_are_proven():
    rng = np.random.default_rng(1)
    traffic = rng.integers(0, 100, (20, 20)).astype(float)
    np.fill_diagonal(traffic, 0)
    w = ks.Workload(load=rng.uniform(1, 10, 20), state=np.ones(20), current=np.arange(20) % 5, nodes=5, traffic=traffic)
    found = ks.solve(ks.CollocatedAllocation(w, max_load_distance=20, max_migrations=6), time_limit=60)
    assert found.status == "optimal"
    assert found.details["sets"] >= 0


@pytest.mark.parametrize(
    ("nodes", "key_groups", "options"), [(5, 32, {}), (8, 35, {"max_migration_cost": 35.0}), (10, 54, {})]
)
def test_dozens_of_key_groups_that_talk_to_few_are_proven(nodes, key_groups, options):
    rng = np.random.default_rng(key_groups)
    ring = np.zeros((key_groups, key_groups))
    ring[np.arange(key_groups), (np.arange(key_groups) + 1) % key_groups] = rng.integers(1, 100, key_groups)
    load, state = rng.integers(1, 10, key_groups).astype(float), rng.integers(1, 10, key_groups)
    w = ks.Workload(load=load, state=state, current=np.arange(key_groups) % nodes, nodes=nodes, traffic=ring)
    problem = ks.CollocatedAllocation(w, max_load_distance=20, **options)
    found = ks.solve(problem, time_limit=60)
    assert found.status in ("optimal", "infeasible")

"""Exchanges between three nodes against all of them, and within every limit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from draws import draws
from instances.allocation import random_problem
from rule_rows import rule_rows

import keyshift as ks
from keyshift.generators.allocation import madsen_allocation
from keyshift.rules import Apart, Count, Never
from keyshift.solvers.allocation import exchanges as kernels
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.exchanges import NOTICED, Exchanges


def a_start(problem, rng):
    """Some assignment within all limits, None where none was drawn."""
    p, n = problem.workload.key_groups, problem.workload.nodes
    for _ in range(30):
        place = np.where(rng.random(p) < 0.4, rng.integers(0, n, p), problem.workload.current)
        if not problem.violations(place):
            return place
    return None


@pytest.mark.parametrize("seed", range(60))
def test_an_exchange_is_the_best_of_all(seed):
    """All that have moved may go anywhere, and two more; the kernel's limits of eight and sixty are not met."""
    rng = np.random.default_rng([seed, 7])
    problem = random_problem(rng, 7, 3)
    start = a_start(problem, rng)
    if start is None or problem.resource_capacity:
        return
    instance = Instance(problem)
    stays = start == instance.current
    best = instance.distance(start)
    for candidate in itertools.product(range(3), repeat=7):
        place = np.array(candidate)
        if (stays & (place != start)).sum() <= 2 and not problem.violations(place):
            best = min(best, instance.distance(place))
    exchanges = Exchanges(instance, 0, start)
    helped = exchanges.exchange(rng.permutation(3))
    assert not problem.violations(exchanges.place)
    assert instance.distance(exchanges.place) == pytest.approx(best, abs=2 * NOTICED)
    assert helped == (instance.distance(exchanges.place) < instance.distance(start))


@pytest.mark.parametrize("seed", range(40))
def test_every_limit_is_kept(seed):
    rng = np.random.default_rng([seed, 8])
    problem = random_problem(rng, int(rng.integers(3, 9)), int(rng.integers(3, 6)))
    start = a_start(problem, rng)
    if start is None:
        return
    exchanges = Exchanges(Instance(problem), seed, start)
    reached = exchanges.improve(10, lambda: False)
    assert not problem.violations(exchanges.place)
    assert reached == pytest.approx(exchanges.instance.distance(exchanges.place))
    assert problem.objective(exchanges.place) <= problem.objective(start) + problem.tolerance


def test_where_moves_abound_it_comes_near_to_even():
    problem = madsen_allocation(nodes=10, key_groups=200, varies=0.4, max_migrations=60)
    exchanges = Exchanges(Instance(problem), 0, problem.workload.current)
    assert exchanges.improve(60, lambda: False) < 1e-3 * exchanges.instance.distance(problem.workload.current)


@pytest.mark.parametrize("seed", range(30))
def test_the_kernel_finds_the_best_pair_of_all(seed):
    rng = np.random.default_rng([seed, 9])
    some, others = (kernels.Ways(np.sort(rng.normal(size=m)), rng.normal(size=m), rng.random(m)) for m in (12, 15))
    three = kernels.ThreeNodes(rng.normal(size=3), rng.uniform(0.5, 2.0, 3), rng.random(3) < 0.3)
    below, spare = rng.choice([0.3, 2.0, 9.0]), rng.choice([0.2, 0.8, 2.0])
    best = below
    for a, b in itertools.product(range(12), range(15)):
        first, second = some.first[a] + others.first[b], some.second[a] + others.second[b]
        values = three.dev + np.array([first, second, -first - second]) * three.weight
        if some.cost[a] + others.cost[b] <= spare:
            best = min(best, max(np.where(three.draining, np.maximum(values, 0.0), np.abs(values))))
    value, one, two = kernels.nearest(some, others, three, below, spare)
    assert value == pytest.approx(best)
    assert (one >= 0) == (two >= 0) == (best < below)


def test_an_exchange_that_a_capacity_forbids_is_not_made():
    """Only a heavy key group on another node would help, and neither has the memory for it."""
    memory = np.ones(4)
    w = ks.Workload(
        load=np.array([4.0, 4, 2, 2]),
        state=memory,
        current=np.array([0, 0, 1, 2]),
        nodes=3,
        resources={"memory": memory},
    )
    room = {"memory": np.array([2.0, 1, 1])}
    for limit, helps in ((None, True), (room, False)):
        problem = ks.KeyGroupAllocation(w, max_migrations=1, resource_capacity=limit)
        exchanges = Exchanges(Instance(problem), 0, w.current)
        assert exchanges.exchange(np.arange(3)) == helps
        assert not problem.violations(exchanges.place)


@draws(8, 20)
def test_no_exchange_breaks_a_rule(count):
    """What is asked of the rows is needed: most instances would end with a rule broken."""
    assert sum(map(exchanged_under_rules, range(count))) > count / 2


def exchanged_under_rules(seed):
    """Neither alone nor together: a row of two members, a count that two at once would fill, closed pairs."""
    rng = np.random.default_rng([seed, 9])
    load = rng.lognormal(0, 1, 24)
    current = np.arange(24) % 6
    w = ks.Workload(load=load, state=load, current=current, nodes=6, groups={"set": np.arange(24) // 4})
    problem = ks.KeyGroupAllocation(w, rules=[Apart(by="set"), Count(at_most=5), Never([0, 9], [1, 2])])
    rows = rule_rows(problem.lowered, 6)
    exchanges = Exchanges(Instance(problem), seed, current, rows)
    exchanges.improve(20, lambda: False)
    assert not problem.violations(exchanges.place)
    assert problem.objective(exchanges.place) < problem.objective(current)
    free = Exchanges(Instance(problem), seed, current)
    free.improve(20, lambda: False)
    return bool(problem.violations(free.place))

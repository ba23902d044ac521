"""The price bound of key-group allocation: safe, exact where it says so, and stronger than counting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from brute_force import brute_force
from draws import draws, rest_slow
from instances.allocation import random_problem

import keyshift as ks
from keyshift.generators.allocation import synthetic_workload
from keyshift.models import Budget
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting import CountBound
from keyshift.solvers.allocation.pricing.bound import LOOKED, Column, Master, PriceBound, _DualPrices
from keyshift.solvers.allocation.pricing.tree import PriceTree, dealt
from keyshift.solvers.allocation.search import Search
from keyshift.solvers.tuning import AllocationSettings


def never() -> bool:
    return False


def exclude_all(problem: ks.KeyGroupAllocation, best: float, settings: AllocationSettings | None = None) -> None:
    """Whatever prices rule out must lie below the optimum, be they in moves, in cost or in something of both."""
    it, scale = Instance(problem), problem.scale
    for part in (0.0, 0.3, 1.0) if problem.max_migration_cost is not None else (0.0,):
        exclude(PriceBound(it, settings, it.effort(part)), best, scale)


def exclude(bound: PriceBound, best: float, scale: float) -> None:
    tree = PriceTree(bound)
    for share in (0.5, 0.9, 1.0, 1.1):
        if bound.excludes(share * best / scale, never):
            assert share < 1.0
            assert tree.excludes(share * best / scale, 8, Budget())
        elif tree.excludes(share * best / scale, 32, Budget()):
            assert share < 1.0


@pytest.mark.parametrize("seed", rest_slow(1, range(6)))
def test_prices_never_rule_out_the_optimum(seed):
    """Every option: draining, capacities, costs, unequal nodes, ties, zeros."""
    rng = np.random.default_rng(300 + seed)
    said = 0
    for _ in range(20):
        problem = random_problem(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4)))
        best = brute_force(problem)[0]
        if best is None:
            continue
        exclude_all(problem, best)
        low = ks.solve(problem, "prices")
        assert low.bound <= best * (1 + 1e-12)
        said += low.bound > 0
    assert said > 2


@draws(10, 60)
def test_the_relaxed_columns_are_safe_too(count):
    """With hardly any column priced one by one, slopes and sums of steps carry the bound."""
    few = AllocationSettings(most_in=1, most_out=1)
    rng = np.random.default_rng(5)
    for _ in range(count):
        problem = random_problem(rng, 6, 3)
        best = brute_force(problem)[0]
        if best is not None:
            exclude_all(problem, best, few)


def test_every_node_pays_the_least_of_all_its_columns():
    """(P4) against all sets of departures and arrivals, for arbitrary prices."""
    rng = np.random.default_rng(1)
    problem = ks.KeyGroupAllocation(synthetic_workload(3, 12, varies=0.6, seed=4), max_migrations=4)
    it = Instance(problem)
    bound = PriceBound(it)
    for distance in (0.05, 0.15):
        curve = rng.uniform(0, 1, bound.basis.shape[1])
        price = bound.basis @ curve
        value, columns = bound._answer(curve, distance, bound.counts)
        total = 0.0
        for i in range(it.nodes):
            own, other = np.flatnonzero(it.current == i), np.flatnonzero(it.current != i)
            costs = [
                (1 - price[list(out)]).sum() + price[list(into)].sum()
                for a, b in itertools.product(range(5), range(5))
                for out in itertools.combinations(own, a)
                for into in itertools.combinations(other, b)
                if abs(bound.excess[i] - it.load[list(out)].sum() + it.load[list(into)].sum()) <= distance
            ]
            total += min(costs)
        assert value <= total + 1e-9
        assert value >= total - 0.05  # only columns of three arrivals and more may be cheaper than they are
        assert [column.node for column in columns] == [0, 1, 2]


def test_prices_in_cost_see_what_prices_in_moves_do_not():
    """Cheap key groups are many, but light: their number says nothing, and what they cost all."""
    w = synthetic_workload(10, 200, varies=0.4, seed=0)
    w = w.replace(state=w.state * np.random.default_rng(0).lognormal(0, 1, 200))
    problem = ks.KeyGroupAllocation(w, max_migration_cost=0.005 * w.state.sum())
    it = Instance(problem)
    assert not PriceBound(it).excludes(0.01, never)  # the search reaches 0.0133
    assert PriceBound(it, effort=it.effort(1.0)).excludes(0.01, never)


def test_by_hand():
    """3 + 3 | 3 + 3 | 4 + 5, mean 7: below d = 1 two nodes want the only 4, and counting lets both have it."""
    w = ks.Workload(load=[3, 3, 3, 3, 4, 5], state=np.ones(6), current=[0, 0, 1, 1, 2, 2], nodes=3)
    problem = ks.KeyGroupAllocation(w, max_migrations=3)
    assert CountBound(Instance(problem)).bound() == 0
    told: list[float] = []
    bound = PriceBound(Instance(problem), AllocationSettings(knots=11), spend=told.append)  # some of them at 3, 4 and 5
    by_hand = np.interp(bound.knots * problem.scale, [3, 4, 5], [0, 1, 0])
    value, _ = bound._answer(by_hand, 0.9 / problem.scale, bound.counts)
    assert value == pytest.approx(5)
    assert told[0] > LOOKED * 3 * w.nodes  # work is counted, of each key group that a node may send
    assert bound.excludes(0.99 / problem.scale, never)
    assert not bound.excludes(1 / problem.scale, never)
    assert brute_force(problem)[0] == 1


def test_an_instance_beyond_reach_is_left_to_the_counts():
    w = synthetic_workload(4, 40, varies=0.6, seed=0)
    near = Instance(ks.KeyGroupAllocation(w, max_migrations=2))
    assert PriceBound(near).affordable
    assert not PriceBound(near, AllocationSettings(most_work=PriceBound(near).work - 1)).affordable
    problem = ks.KeyGroupAllocation(w.replace(nodes=[1, 1, 1, 2000]), max_migrations=2)
    assert not PriceBound(Instance(problem)).affordable  # the windows are too far apart
    assert ks.solve(problem, "prices").bound == CountBound(Instance(problem)).bound() * problem.scale


def test_branching_rules_out_what_prices_alone_do_not():
    bound = PriceBound(Instance(ks.KeyGroupAllocation(synthetic_workload(20, 400, varies=0.2), max_migrations=20)))
    assert not bound.excludes(0.003, never)
    assert PriceTree(bound).excludes(0.003, 64, Budget())
    assert not PriceTree(bound).excludes(0.003, 1, Budget())


@draws(8, 600)
def test_columns_that_are_listed_settle_a_distance(count):
    """Just below the optimum nothing is left; at it what is accepted is an optimum, whatever is limited."""
    rng, settled = np.random.default_rng(11), 0
    for _ in range(count):
        problem = random_problem(rng, int(rng.integers(4, 8)), int(rng.integers(2, 4)))
        best, it = brute_force(problem)[0], Instance(problem)
        for part in (0.0, 0.5, 1.0) if problem.max_migration_cost is not None else (0.0,):
            tree, met = PriceTree(PriceBound(it, effort=it.effort(part))), list[np.ndarray]()

            def accept(
                place: np.ndarray, met: list[np.ndarray] = met, problem: ks.KeyGroupAllocation = problem
            ) -> bool:
                met += [place] if problem.check(place).feasible else []
                return bool(met)

            if best is None or not tree.bound.lists:
                continue
            below = best > 0 and tree.excludes(best * (1 - 1e-9) / problem.scale, 500, Budget(), accept=accept)
            assert not met
            assert not tree.excludes(best / problem.scale, 500, Budget(), accept=accept)
            settled += below and bool(met)
            for place in met:
                assert problem.objective(place) == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert settled > count / 8


def test_every_column_within_the_open_moves_is_listed():
    """Against all sets of departures and arrivals of each node."""
    problem = ks.KeyGroupAllocation(synthetic_workload(3, 12, varies=0.6, seed=4), max_migrations=4)
    it, distance, never_many = Instance(problem), 0.1, AllocationSettings(listed=10_000)
    bound = PriceBound(it, never_many)
    curve = np.full(bound.knots.size, 0.4)
    price, reach = bound.basis @ curve, distance + it.error_bound
    least = [
        cost
        for cost, _ in (bound._cheapest(i, reach, _DualPrices(bound, curve, reach), bound.counts[i]) for i in range(3))
    ]
    made = set()
    for i in range(it.nodes):
        own, other = np.flatnonzero(it.current == i), np.flatnonzero(it.current != i)
        for a, b in itertools.product(range(5), range(5)):
            for out, into in itertools.product(itertools.combinations(own, a), itertools.combinations(other, b)):
                away, come = list(out), list(into)
                cost = (1 - price[away]).sum() + price[come].sum()
                within = abs(bound.excess[i] - it.load[away].sum() + it.load[come].sum()) <= distance
                if within and cost + sum(least) - least[i] <= 4:
                    made.add((i, out, into))
    columns = bound.columns(curve, distance, bound.counts)
    listed = {
        (int(i), tuple(np.flatnonzero(a).tolist()), tuple(np.flatnonzero(b).tolist()))
        for i, a, b in zip(columns.kind, columns.leaving.toarray(), columns.arriving.toarray(), strict=True)
    }
    sent, taken = ({k for one in listed for k in one[side]} for side in (1, 2))
    assert listed <= made
    assert all(
        set(out) - taken or set(into) - sent for _, out, into in made - listed
    )  # no other node's column goes with it


def test_master_takes_a_column_once():
    master = Master(1, 2, 3.0)
    column = Column(0, 1, 1, 1.0, np.array([0.5, -0.5]), 0.0, (0, 1))
    assert master.add([column, column]) == [column]
    assert master.add([column]) == []
    master.solve()
    assert master.value == pytest.approx(3.0)  # the column and its imbalance cost 3.5, no column 3
    assert not master.use().balanced


def test_what_is_even_is_realised_without_going_on():
    w = ks.Workload(load=[2, 2, 1, 1, 1, 1], state=[1] * 6, current=[0, 1, 0, 0, 1, 1], nodes=2)
    found = Search(Instance(ks.KeyGroupAllocation(w)), 0).realise(w.current, 0.5, 0)
    assert found is not None
    assert ks.KeyGroupAllocation(w).objective(found) == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_is_dealt_and_realised_with_its_counts_within_every_limit(seed):
    w = synthetic_workload(20, 400, drain=2)
    problem = ks.KeyGroupAllocation(w, max_migrations=30, max_migration_cost=2950.0)
    instance, rng = Instance(problem), np.random.default_rng(seed)
    plan = np.zeros((20, 2), dtype=np.int64)
    np.add.at(plan[:, 0], rng.integers(0, 20, 12), 1)
    np.add.at(plan[:, 1], rng.integers(0, 18, 12), 1)
    start = dealt(instance, plan, rng)
    found = Search(instance, seed).realise(start, 0.5, seed)
    for place in (start, found):
        moved = place != w.current
        assert np.array_equal(np.bincount(w.current[moved], minlength=20), plan[:, 0])
        assert np.array_equal(np.bincount(place[moved], minlength=20), plan[:, 1])
    assert problem.check(found).feasible
    assert instance.distance(found) <= instance.distance(start)


def test_counts_that_are_no_plan_are_not_dealt():
    """Departures without arrivals, more departures than key groups, nobody who may come."""
    instance = Instance(ks.KeyGroupAllocation(synthetic_workload(3, 12, varies=0.6), max_migrations=4))
    for plan in ([[2, 0], [0, 1], [0, 0]], [[5, 0], [0, 4], [0, 1]], [[1, 1], [0, 0], [0, 0]]):
        assert dealt(instance, np.array(plan), np.random.default_rng(0)) is None


def test_a_plan_of_more_moves_than_there_may_be_is_not_dealt():
    """Where the program of prices ends above the limit, so does its plan: 12 of 10 moves ended a solve with a traceback."""
    w = ks.Workload(load=np.ones(6), state=np.ones(6), current=[0, 0, 0, 1, 1, 1], nodes=2)
    plan = np.array([[2, 1], [1, 2]])
    for most, met in ((2, False), (3, True)):
        instance = Instance(ks.KeyGroupAllocation(w, max_migrations=most))
        assert (dealt(instance, plan, np.random.default_rng(0)) is not None) == met

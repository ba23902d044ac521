"""Makespan on identical machines against every assignment: answers, bounds, and each step of the search by itself."""

from __future__ import annotations

from itertools import chain, product

import numpy as np
import pytest

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.splitting.items import Items
from keyshift.solvers.splitting import makespan
from keyshift.solvers.splitting.makespan import Makespan, Packing, deal_to_three, lower_bound


def least(loads, workers):
    """The least makespan, over every assignment; like workers are taken in turn."""
    held = {(0,) * workers}
    for load in loads:
        held = {tuple(sorted((*h[:i], h[i] + load, *h[i + 1 :]))) for h in held for i in range(workers)}
    return min(max(h) for h in held)


@pytest.mark.parametrize("seed", range(60))
def test_bound_and_answer_meet_at_the_optimum_from_any_start(seed):
    rng = np.random.default_rng(seed)
    workers, top = int(rng.integers(1, 5)), int(rng.choice([3, 10, 100, 10**6]))
    loads = sorted(rng.integers(1, top + 1, rng.integers(1, 9)).tolist(), reverse=True)
    optimum = least(loads, workers)
    assert lower_bound(loads, workers) <= optimum
    search = Makespan(loads, workers, seed=seed)
    search.groups, search.value = [loads] + [[] for _ in range(workers - 1)], sum(loads)
    search.run(Budget(30))
    assert search.value == search.bound == optimum == max(map(sum, search.groups))
    assert sorted(chain(*search.groups), reverse=True) == loads


def test_more_keys_than_two_a_worker_raise_the_bound():
    """Eleven keys on five workers: one has three of them; thirteen: three workers have nine of them."""
    assert lower_bound([10] * 11, 5) == 30
    assert lower_bound([10, 10, 10, 10, 9, 9, 9, 9, 9, 8, 8, 8, 7], 5) == (7 + 8 * 3 + 9 * 5 + 2) // 3


@pytest.mark.parametrize("seed", range(20))
def test_keys_fit_into_bins_exactly_where_some_assignment_has_no_more(seed):
    rng = np.random.default_rng(seed)
    loads = tuple(sorted(rng.integers(1, 30, 8).tolist(), reverse=True))
    for bins in (2, 3, 4):
        optimum = least(loads, bins)
        for size in (optimum - 1, optimum, optimum + 3):
            packed = Packing(size, 10**9, Budget()).pack(loads, bins)
            assert (packed is not None) == (size >= optimum)
            if packed is not None:
                assert max(map(sum, packed)) <= size
                assert sorted(chain(*packed), reverse=True) == list(loads)
                assert len(packed) <= bins


def test_what_failed_with_fewer_bins_is_asked_again_with_more():
    packing = Packing(10, 10**9, Budget())
    assert packing.pack((6, 6, 6), 2) is None
    assert packing.pack((6, 6, 6), 3) is not None


def test_a_bin_of_more_keys_than_python_can_nest_is_left():
    search = Makespan([10] * 2500 + [4] * 3, 2)
    value, bound = search.value, search.bound
    assert value > bound
    search.complete_bins(1_000_000, Budget())
    assert (search.value, search.bound) == (value, bound)
    search.run(Budget(1))  # pairs alone


@pytest.mark.parametrize("seed", range(20))
def test_two_parts_have_the_sum_nearest_the_target(seed):
    rng = np.random.default_rng(seed)
    loads = rng.integers(1, 50, 9).tolist()
    target = int(rng.integers(-20, 400))
    first, second = makespan._halves(loads, target)
    assert sorted(first + second) == sorted(loads)
    sums = [int(np.dot(bits, loads)) for bits in product((0, 1), repeat=9)]
    wanted = min(max(target, 0), sum(loads))
    assert abs(sum(first) - wanted) == min(abs(s - wanted) for s in sums)


@pytest.mark.parametrize("seed", range(8))
def test_three_workers_have_as_little_above_the_limit_as_can_be(seed):
    rng = np.random.default_rng(seed)
    loads, fixed = rng.integers(1, 20, 6), rng.integers(0, 10, 3)
    most = int(rng.integers(10, 40))
    excess, one, two = deal_to_three(loads, fixed, most)
    assert one & two == 0
    held = fixed + [sum(loads[j] for j in range(6) if place(one, two, j) == i) for i in range(3)]
    every = (
        sum(max(0, fixed[i] + sum(loads[j] for j in range(6) if at[j] == i) - most) for i in range(3))
        for at in product(range(3), repeat=6)
    )
    assert excess == np.maximum(held - most, 0).sum() == min(every)


def place(one, two, j):
    return 0 if one >> j & 1 else 1 if two >> j & 1 else 2


@pytest.mark.parametrize(
    "weights",
    [[0.1, 0.2, 0.3, 0.3, 0.3], [1e12, 1e-9, 3e-9, 2e-9, 0], [0, 0, 0], [7, 5, 5, 4, 3, 3], [1e-9 / 3] * 5, [2.5]],
    ids=str,
)
@pytest.mark.parametrize("method", ["milp", "flow"])
def test_loads_of_every_scale(weights, method):
    kind = ks.KeyPlacement if method == "milp" else ks.KeySplitting
    problem = kind(range(len(weights)), workers=3, choices=None, weights=weights)
    found = ks.solve(problem, method)
    assert found.objective == pytest.approx(least(weights, 3), rel=1e-9)
    assert found.status == "optimal"
    assert found.bound <= found.objective


def test_like_instances_of_the_literature_are_proven():
    """The classes of [Franca1994]: uniform loads, and loads nearly alike beside a few small ones."""
    rng = np.random.default_rng(1)
    for keys, workers in ((50, 5), (100, 10), (500, 25), (10, 5)):
        for loads in (rng.integers(1, 1001, keys), np.r_[rng.integers(900, 1001, keys - 1), rng.integers(1, 200, 1)]):
            first, again = (Makespan(loads.tolist(), workers, seed=3) for _ in range(2))
            first.run(Budget())
            again.run(Budget())
            assert first.value == first.bound
            assert first.groups == again.groups


def test_at_a_limit_the_best_so_far_comes_with_its_bound():
    rng = np.random.default_rng(0)
    problem = ks.KeyPlacement(range(100), workers=25, choices=None, weights=rng.integers(5000, 10_001, 100))
    found = ks.solve(problem, time_limit=0.0)
    assert found.status == "feasible"
    assert 0 < found.bound < found.objective


def test_workers_that_differ_are_left_to_the_program():
    problem = ks.KeyPlacement(range(6), workers=[1.0, 2.0], choices=None, weights=[5, 4, 3, 3, 2, 1])
    assert ks.solve(problem).objective == 6.0  # 6 on the slow one, 12 on the fast one


def test_single_keys_are_dealt_out_where_there_is_no_time():
    weights = np.arange(1.0, 4001.0)
    problem = ks.KeyPlacement(range(4000), workers=4, choices=None, weights=weights)
    share = Items.of(problem).dealt()
    assert share.sum(axis=0).tolist() == [1000] * 4
    assert (share.sum(axis=1) == 1).all()

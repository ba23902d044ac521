"""The local search and the tree search for MCLB: their kernels against the definitions they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from enumeration import optimum

import keyshift as ks


def problem(load, current, nodes, limit=None, **fields):
    state = fields.pop("state", np.ones(np.shape(load)[-1]))
    return ks.MCLB(ks.Workload(load=load, state=state, current=current, nodes=nodes, **fields), max_state_moved=limit)


@pytest.mark.parametrize("limit", [None, 10.0])
@pytest.mark.parametrize("key_groups", [40, 1600])
def test_local_search_improves_on_the_greedy_placement_and_keeps_the_budget(key_groups, limit):
    rng = np.random.default_rng(5)
    load = rng.gamma(2.0, 50.0, (6, key_groups))
    p = problem(load, np.arange(key_groups) % 4, 4, limit=limit)
    s = ks.solve(p, "local-search", effort=0.1)
    assert s.metrics["state_moved"] <= (limit or np.inf)
    assert s.objective < 0.9 * p.objective(p.workload.current)
    again = ks.solve(p, "local-search", effort=0.1)
    np.testing.assert_array_equal(s.assignment, again.assignment)


def test_local_search_is_never_worse_than_its_start():
    rng = np.random.default_rng(6)
    p = problem(rng.integers(1, 9, (2, 8)), rng.integers(0, 3, 8), 3)
    best = ks.solve(p)
    assert ks.solve(p, "local-search", start=best, effort=0.01).objective <= best.objective + p.tolerance


@pytest.mark.slow
def test_passing_over_the_budget_reaches_a_placement_that_keeping_it_throughout_does_not():
    # One large key group for several smaller ones: 3329913987.36 is HiGHS's proven optimum.
    ((_, p),) = ks.family("guo-mclb", count=1, seed=2, keys="zipf", nodes=5, key_groups=60, windows=24, share_moved=0.1)
    assert ks.solve(p, "local-search").objective <= 1.001 * 3329913987.36


def test_compression_keeps_all_inner_products():
    from keyshift.solvers.mclb.local_search import compressed

    load = np.random.default_rng(0).random((5, 9))
    short = compressed(load)
    assert short.shape == (5, 5)
    np.testing.assert_allclose(short @ short.T, load @ load.T)
    assert compressed(load[:, :3]) is not None
    assert compressed(load[:, :3]).shape == (5, 3)


@pytest.fixture
def small():
    rng = np.random.default_rng(2)
    p = problem(rng.integers(1, 20, (3, 9)), rng.integers(0, 3, 9), 3, limit=5, state=rng.integers(1, 4, 9))
    return p.core


def test_the_change_of_a_pair_is_the_change_of_the_sum_of_squares(small):
    from keyshift.solvers.mclb import local_search_kernels as kernels

    rng = np.random.default_rng(0)
    moment = small.load @ small.load.T
    for _ in range(200):
        chosen = rng.integers(0, 3, 9)
        rows = kernels.second_moment_rows.py_func(moment, chosen, 3)
        np.testing.assert_allclose(rows, kernels.second_moment_rows(moment, chosen, 3))
        k, q = rng.choice(9, 2, replace=False)
        b, d = rng.integers(0, 3, 2)
        after = chosen.copy()
        after[k] = b
        alone = kernels.pair_change.py_func(moment, rows, chosen, k, b, -1, -1)
        assert alone == pytest.approx(small.squares(after) - small.squares(chosen))
        after[q] = d
        both = kernels.pair_change.py_func(moment, rows, chosen, k, b, q, d)
        assert both == pytest.approx(small.squares(after) - small.squares(chosen))
        assert both == pytest.approx(kernels.pair_change(moment, rows, chosen, k, b, q, d))


def test_sweeps_keep_loads_budget_and_value_in_step(small):
    from keyshift.solvers.mclb import local_search_kernels as kernels

    order = np.arange(9)
    placed = kernels.place_greedily.py_func(small.load, order, 3, small.state, small.current, small.budget)
    np.testing.assert_array_equal(
        placed, kernels.place_greedily(small.load, order, 3, small.state, small.current, small.budget)
    )
    assert small.moved(placed) <= small.budget
    chosen = small.current.copy()
    sums = np.zeros((3, 3))
    np.add.at(sums, chosen, small.load)
    before, spent = small.squares(chosen), 0.0
    fall, spent = kernels.descend.py_func(
        small.load, chosen, sums, small.state, small.current, spent, small.budget, order
    )
    more, spent = kernels.swap_alike.py_func(
        small.load, chosen, sums, small.state, small.current, spent, small.budget, order, 5, 200,
        np.random.default_rng(1),
    )  # fmt: skip
    assert small.squares(chosen) == pytest.approx(before - fall - more)
    assert spent == pytest.approx(small.moved(chosen))
    assert spent <= small.budget
    np.testing.assert_allclose(sums.sum(axis=0), small.load.sum(axis=0))


def test_annealing_says_what_it_gained(small):
    from keyshift.solvers.mclb import local_search_kernels as kernels

    moment = small.load @ small.load.T
    for anneal in (kernels.anneal, kernels.anneal.py_func):
        found, gained = anneal(
            moment, small.current, 3, small.state, small.current, small.budget, 50.0, 100.0, 0.1, 400,
            np.random.default_rng(4),
        )  # fmt: skip
        assert small.squares(found) - small.squares(small.current) == pytest.approx(gained)
        assert small.moved(found) <= small.budget


def test_water_filling_is_the_best_completion_with_divisible_load():
    from keyshift.solvers.mclb.branch_and_bound_kernels import completion_bound, level_squares

    heights, order = np.array([5.0, 1.0, 2.0]), np.arange(3)
    assert level_squares.py_func(heights, 3.0, order) == 25 + 3**2 + 3**2  # the two lower ones level at 3
    assert order.tolist() == [1, 2, 0]
    assert level_squares.py_func(heights, 0.0, order) == 30
    assert level_squares(np.array([1.0, 1.0]), 4.0, np.arange(2)) == 18
    sums, orders = np.array([[5.0, 0.0], [1.0, 2.0]]), np.tile(np.arange(2), (2, 1))
    assert completion_bound.py_func(sums, np.array([2.0, 0.0]), orders) == 25 + 9 + 4


def test_only_the_first_empty_interchangeable_node_is_tried():
    from keyshift.solvers.mclb.branch_and_bound_kernels import TreeData, TreeState, next_node

    def first(spent, tried=(), free=True, current=-1, cost=1.0):
        data = TreeData(
            load=np.array([[2.0]]), rest=np.zeros((2, 1)), state=np.array([cost]), current=np.array([current]),
            free=np.full(4, free), budget=9.0, margin=0.0,
        )  # fmt: skip
        state = TreeState(
            choice=np.array([-1]), tried=np.isin(np.arange(4), tried)[None], sums=np.array([[5.0], [0.0], [0.0], [1.0]]),
            held=np.array([1, 0, 0, 1]), order=np.arange(4)[None], frame=np.zeros(2), best=np.array([-1]),
        )  # fmt: skip
        return next_node.py_func(0, spent, data, state)

    assert first(0.0) == 1
    assert first(0.0, tried=[1]) == 3
    assert first(0.0, tried=[1], free=False) == 2  # all nodes differ
    assert first(9.0, current=0) == 0  # only staying is paid for
    assert first(9.0, tried=[0], current=0) == -1


def test_the_tree_search_interpreted_finds_the_optimum():
    from keyshift.solvers.mclb import branch_and_bound_kernels as tree_kernels
    from keyshift.solvers.mclb.branch_and_bound import DepthFirst

    p = problem([[5, 4, 3, 3], [1, 2, 2, 1]], [0, 0, 1, 1], 2, limit=2)
    search = DepthFirst(p, p.core, None)
    limit, visited = np.inf, 0
    while search.state.frame[0] >= 0:
        limit, more = tree_kernels.explore.py_func(limit, 5, search.data._replace(margin=0.0), search.state)
        visited += more
    search._keep()
    assert search.value == pytest.approx(optimum(p))
    assert 4 <= visited <= 30

"""Splits of what two nodes hold: against every split, and what they leave of the distance to the mean."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from draws import draws

import keyshift as ks
from keyshift.models import Budget, answer
from keyshift.solvers.mclb import local_search, pair_splits
from keyshift.solvers.mclb.local_search import PlacementSearch
from keyshift.solvers.mclb.pair_splits import PairSplits, nearest_subset
from keyshift.solvers.set_partitioning import half_sums


@pytest.mark.parametrize("windows", [1, 2, 3])
def test_the_nearest_subset_is_the_nearest_of_all(windows):
    rng, empty = np.random.default_rng(windows), 0
    for _ in range(60):
        load, weight = rng.uniform(0, 9, (int(rng.integers(1, 8)), windows)), rng.integers(-3, 4, 20).astype(float)
        weight, target = weight[: load.shape[0]], rng.uniform(0, 20, windows)
        room, least = float(rng.integers(-4, 6)), float(rng.uniform(1, 60))
        every = np.array(list(itertools.product((0, 1), repeat=load.shape[0])))
        square = np.square(every @ load - target).sum(axis=1)
        square = square[(every @ weight <= room) & (square < least)]
        rows, half = np.c_[load, weight], len(load) // 2
        bits, _ = nearest_subset(half_sums(rows[:half]), half_sums(rows[half:]), half, target, room, least)
        empty += square.size == 0
        if square.size == 0:
            assert bits == -1
            continue
        chosen = bits >> np.arange(load.shape[0]) & 1
        assert chosen @ weight <= room
        assert np.square(chosen @ load - target).sum() == pytest.approx(square.min())
    assert 5 < empty < 55


def test_no_round_looks_at_more_than_the_search_may(monkeypatch):
    """Under a budget each pair of nodes gains little and looks at nearly all subsets: a round took seconds of the first."""
    problem = drawn(0, 6.0, nodes=12, key_groups=120)
    looked = []
    for most in (60_000_000, 1):
        monkeypatch.setattr(pair_splits, "LOOKED", most)
        search = PairSplits(problem.core, PlacementSearch(problem, None, 0).best, 0)
        search.turn(Budget())
        looked.append(search.looked)
    assert looked[1] < looked[0] / 4


def drawn(seed: int, limit: float | None, nodes: int = 4, key_groups: int = 18, windows: int = 2) -> ks.MCLB:
    rng = np.random.default_rng(seed)
    w = ks.Workload(
        load=rng.uniform(1, 10, (windows, key_groups)), state=rng.integers(1, 10, key_groups),
        current=rng.integers(0, nodes, key_groups), nodes=nodes, draining=np.arange(nodes) == (0 if seed % 2 else -1),
    )  # fmt: skip
    return ks.MCLB(w, max_state_moved=limit)


@draws(3, 6)
@pytest.mark.parametrize("limit", [None, 60.0])
@pytest.mark.parametrize("sizes", [(4,), (30,)], ids=["few of them", "all"])
def test_no_two_nodes_can_be_split_better_in_the_end(limit, sizes, count, monkeypatch):
    monkeypatch.setattr(pair_splits, "SIZES", sizes)
    for seed in range(count):
        problem = drawn(seed, limit)
        core, start = problem.core, PlacementSearch(problem, None, 0).best
        search = PairSplits(core, start, 0)
        best = search.go_on(Budget(30))
        assert core.moved(best) <= core.budget
        assert search.value == pytest.approx(core.squares(best))
        assert search.value <= core.squares(start)
        if sizes[0] < 18:
            continue
        for i, j in itertools.combinations(range(core.nodes), 2):
            held = np.flatnonzero((best == i) | (best == j))
            for on_i in itertools.product((i, j), repeat=held.size):
                other = best.copy()
                other[held] = on_i
                if core.moved(other) <= core.budget:
                    assert core.squares(other) >= search.value * (1 - 2e-6) - 1e-9


def test_a_hundred_key_groups_in_three_windows_end_within_the_gap_of_a_bound_of_zero(monkeypatch):
    monkeypatch.setattr(answer, "PATIENCE", 0.0)
    problem = drawn(2, None, nodes=5, key_groups=100, windows=3)
    found = ks.solve(problem, time_limit=30)
    assert found.termination == "gap"
    assert found.bound >= 0
    assert found.objective - found.bound <= 1e-4 * problem.scale


def test_a_search_that_is_interrupted_goes_on_as_if_it_had_not_been():
    core = drawn(4, None, nodes=5, key_groups=40, windows=3).core
    at_once = PairSplits(core, core.current, 0)
    later = PairSplits(core, at_once.best, 0)
    at_once.go_on(Budget(30), 1.0)
    for effort in (0.1, 0.5, 1.0):
        later.go_on(Budget(30), effort)
    assert (at_once.best == later.best).all()


def test_a_placement_is_swept_before_it_is_annealed():
    """Where a budget keeps most key groups in place, a limit of a tenth of a second left the greedy placement."""
    for seed in range(3):
        problem = drawn(seed, 40.0, nodes=12, key_groups=200, windows=6)
        core = problem.core
        greedy = local_search._starting_point(core, local_search.compressed(core.load))
        search = PlacementSearch(problem, None, seed)
        assert core.moved(search.best) <= core.budget
        assert core.squares(search.best) < core.squares(np.maximum(core.current, 0))
        assert core.squares(search.best) < 0.8 * core.squares(greedy)

"""The entries that a table needs, with large keys placed whole, never above brute force; and what shedding comes to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from brute_force import brute_force
from instances.routing import random_problem

import keyshift as ks
from keyshift.models import Budget, metrics
from keyshift.models.routing.compact import records_of
from keyshift.solvers.routing import rounding
from keyshift.solvers.routing.rounding import rounded
from keyshift.solvers.routing.statement import fewest_entries


def plans_of(problem: ks.MixedRouting) -> Iterator[np.ndarray]:
    """What nodes that shed their excess come to."""
    return rounded(problem, records_of(problem), Budget(20))


def needed(problem: ks.MixedRouting) -> int:
    return fewest_entries(problem, Budget(20))


def test_no_answer_has_fewer_entries():
    met = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, int(rng.integers(2, 7)), int(rng.integers(2, 4))).averaged()
        best, assignment = brute_force(problem)
        if best is not None and not problem.conflicts():
            assert needed(problem) <= metrics.table_size(problem.workload, assignment)
            met += 1
    assert met > 5


def giant(room: int) -> ks.MixedRouting:
    """A key of hardly any state, too large for any other node: a hundred small ones have to leave in its place."""
    load = np.concatenate([[100.0], np.ones(300)])
    home = np.concatenate([[0], np.arange(300) % 3])
    state = np.where(load > 1, 0.5, 1.0)
    w = ks.Workload(load=load, state=state, current=home, nodes=3, home=home)
    return ks.MixedRouting(w, 0.05, max_table_size=room)


def test_a_giant_is_not_moved_in_parts():
    assert needed(giant(100)) == 60  # 200 on node 0, the limit is 140
    found = ks.solve(giant(100))
    assert (found.status, found.objective) == ("optimal", 60)
    assert ks.solve(giant(59)).status == "infeasible"


@pytest.mark.parametrize("seed", range(4))
def test_what_finds_no_room_stays_and_others_leave(seed):
    """The cheapest keys to shed are larger than any node's room in two of these; HiGHS takes half a second for the same."""
    *_, (_, problem) = ks.family("fang-routing", count=seed + 1, keys=2_000, max_table_size=400, theta_max=0.04)
    plans = plans_of(problem)
    first = next(plan for plan in plans if not problem.violations(plan))
    assert problem.objective(first) == ks.solve(problem, "lp").bound


def test_a_key_that_fits_nowhere_stays_and_small_ones_leave_in_its_place():
    """At every price the key of load 5 is the first to go; the other nodes have room for 4.4 each, its hash among them."""
    load, at = np.array([5, 7, 8.5, 8.5, *[1] * 6]), np.array([0, 0, 1, 2, *[0] * 6])
    state = np.where(load == 5, 0.5, 1.0)
    w = ks.Workload(load=load, state=state, current=at, home=np.r_[1, at[1:]], nodes=3)
    problem = ks.MixedRouting(w, 3 * 12.9 / load.sum() - 1)
    plans = list(plans_of(problem))
    assert all(plan[0] == 0 for plan in plans)
    best = next(plan for plan in plans if not problem.violations(plan))
    assert problem.objective(best) == 6


@pytest.mark.parametrize(("room", "moved"), [(6, 12), (4, 16)])
def test_nodes_shed_more_by_fewer_keys_where_the_table_asks_for_it(room, moved):
    """Two nodes have 6 too much: 4 + 1 + 1, or 4 + 4 at an entry less."""
    load, at = np.tile([4.0, 4, 1, 1, 8], 2), np.repeat([0, 1], 5)
    w = ks.Workload(load=load, state=np.where(load == 8, 100, load), current=at, home=at, nodes=4)
    problem = ks.MixedRouting(w, 1 / 3, max_table_size=room)
    plans = plans_of(problem)
    assert min(problem.objective(plan) for plan in plans if not problem.violations(plan)) == moved


def test_loads_too_far_apart_for_a_quotient_in_64_bits():
    load, count, taken = np.array([1e-9, 1e12]), np.array([3, 2]), np.zeros(2, dtype=np.int64)
    rounding.shed(np.arange(2), load, count, 1.5e12, 1.0, False, taken)
    assert taken.tolist() == [0, 2]  # the heavy ones cover all, so the light ones stay


@pytest.mark.slow  # it uses all of its 20 s
@pytest.mark.parametrize("theta", [0.03, 0.1])
def test_where_too_many_pairs_stay_open_there_is_an_answer_near_the_bound(theta):
    """A table that the heuristics overfill."""
    rng = np.random.default_rng(3)
    home, ranks = rng.integers(0, 20, 20_000), np.arange(1, 20_001) ** -0.75
    load = np.maximum(1, np.round(ranks / ranks.sum() * 1e6))
    w = ks.Workload(load=load, state=load, current=home, home=home, nodes=20)
    problem = ks.MixedRouting(w, theta, max_table_size=400)
    s = ks.solve(problem, largest=0, time_limit=20)
    assert s.status in ("feasible", "optimal")
    assert s.gap < 0.005

"""The offline optimum of key splitting and key placement, against every assignment there is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from instances import placement, splitting

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.splitting.hashing import candidates
from keyshift.models.splitting.items import Items, candidate_sets
from keyshift.solvers import highs
from keyshift.solvers.splitting import flow, statement


def options_of(problem, key):
    if problem.choices is None:
        return range(problem.workers)
    return sorted(set(candidates(np.array([key]), problem.workers, problem.choices, problem.hash_seed)[0].tolist()))


def brute_force(problem):
    """Least largest load over all ways to send every message - or every key - to one of its candidates."""
    keys = [key for part in problem.stream.chunks() for key in part.tolist()]
    free = sorted(set(keys)) if problem.one_place else list(range(len(keys)))
    choices = [options_of(problem, item if problem.one_place else keys[item]) for item in free]
    best = np.inf
    for chosen in itertools.product(*choices):
        where = dict(zip(free, chosen, strict=True))
        sent = np.array([where[key if problem.one_place else t] for t, key in enumerate(keys)])
        best = min(best, problem.loads(sent).max())
    return best


def test_by_hand():
    """Two keys of 6 and 4 messages share the candidates {a, b}, one of 2 has another worker: the optimum is 5."""
    workers, keys = 3, np.arange(2000)
    options, number = candidate_sets(keys, workers, 2)
    pair = int(np.flatnonzero((options == [0, 1]).all(axis=1))[0])
    lone = int(np.flatnonzero((options == [2, -1]).all(axis=1))[0])
    first, second = keys[number == pair][:2]
    third = keys[number == lone][0]
    stream = np.repeat([first, second, third], [6, 4, 2])
    solution = ks.solve(ks.KeySplitting(stream, workers=workers))
    assert solution.objective == 5
    assert solution.details["binding_workers"] == 2
    assert solution.metrics["imbalance"] == 1
    placed = ks.solve(ks.KeyPlacement(stream, workers=workers))
    assert placed.objective == 6  # the price of not splitting
    assert ks.solve(ks.KeySplitting(stream, workers=workers, choices=None)).objective == 4


@pytest.mark.parametrize("case", range(12))
def test_no_scheme_with_the_same_candidates_beats_the_flow(case):
    rng = np.random.default_rng(case)
    p = 1 / np.arange(1, 301) ** rng.uniform(0.2, 1.8)
    stream = rng.choice(300, 4000, p=p / p.sum())
    problem = ks.KeySplitting(
        stream, workers=int(rng.integers(2, 60)), choices=int(rng.integers(2, 5)), sources=int(rng.integers(1, 6))
    )
    best = ks.solve(problem)
    assert best.status == "optimal"
    assert best.objective >= ks.solve(problem, "universal").bound
    assert best.objective == ks.solve(problem, "lp").bound  # the flow is integral: rounding up the LP reaches it
    for method in ("hash", "potc", "pkg", "greedy-d"):
        assert best.objective <= ks.solve(problem, method).objective


@pytest.mark.parametrize(
    ("stream", "weights", "workers", "seed", "start"),
    [
        ([-7, 2**63 - 1, 2**63 - 1, -7], [4e9, 1111111101.0, 7e10, 1e9], 2, 741297234, [1, 0, 0, 1]),
        ([-2, 0, -1], [0.01796409005430577, 0.34204334091536537, 0.39780489016656984], 2, 2027269019, [0, 1, 0]),
        ([-2, -1, -1, 0], [3333333333.0, 3333333303.0, 4e9, 1111111111.0], [0.5, 0.5], 1774603156, [1, 1, 0, 1]),
        (
            [1, -1, -1, -2, 1],
            [0.3546566319005954, 0.41017398326114884, 0.3948451001177822, 0.5147589245335672, 0.37520025559245884],
            2, 323558301, [1, 1, 1, 1, 0],
        ),
    ],
)  # fmt: skip
def test_a_poor_start_is_not_taken_for_the_optimum(monkeypatch, stream, weights, workers, seed, start):
    """With an upper bound on the largest load, HiGHS 1.13 proves that nothing is better than a start."""
    monkeypatch.setattr(highs, "CONFIRMED", 0)  # which would be asked twice, and mends some
    problem = ks.KeySplitting(stream=stream, weights=weights, workers=workers, choices=2, hash_seed=seed)
    found = statement.solve_milp(problem, budget=Budget(10.0), start=np.array(start))
    assert found.termination == "optimal"
    assert problem.objective(found.assignment) == pytest.approx(brute_force(problem), rel=1e-12)


def test_the_flow_keeps_its_books():
    """The shares that the flow returns add up, stay on candidates, and give the loads of the assignment."""
    problem = splitting.battery()["too many workers"]
    items = Items.of_messages(problem)
    found = flow.whole_flow(items, Budget())
    np.testing.assert_array_equal(found.share.sum(axis=1), items.count)
    assert (found.share[items.options < 0] == 0).all()
    sent = items.assignment(found.share)
    np.testing.assert_array_equal(items.share(sent), found.share)
    np.testing.assert_allclose(problem.loads(sent), items.loads(found.share))
    assert items.count[items.inside(found.binding)].sum() > (found.bound - 1) * found.binding.sum()


@pytest.mark.parametrize("speeds", [[1.0, 1.0, 1.0], [0.3, 1.7, 0.9], [0.1, 0.1, 0.1]])
def test_least_level_is_the_least(speeds):
    speeds = np.array(speeds)
    for need in range(1, 40):
        level = flow.least_level(need, 0.1, speeds)
        assert flow.room_below(level, 0.1, speeds).sum() >= need
        assert flow.room_below(np.nextafter(level, 0), 0.1, speeds).sum() < need


def test_a_start_on_the_slowest_worker_is_no_hindrance_to_a_proof():
    """Its load had given the program its unit, in which the optimum is rounding error: the bound stayed 10 % below."""
    problem = ks.KeySplitting([7] * 5, workers=[1e6, 1.0], choices=2, hash_seed=8, weights=[1e9, 4e10, 3e8, 9e10, 1e9])
    s = ks.solve(problem, "milp", start=[1] * 5)
    assert (s.status, s.objective) == ("optimal", pytest.approx(132_300))


def test_a_limit_returns_the_start_with_its_bound():
    problem = splitting.battery()["weights"]
    start = ks.solve(problem, "pkg")
    for method in ("flow", "milp"):
        solution = ks.solve(problem, method, start=start, time_limit=0.0)
        assert solution.termination == "time_limit"
        assert solution.objective == start.objective
        assert 0 <= solution.bound <= ks.solve(problem).objective


def test_no_time_at_all():
    problem = splitting.battery()["too many workers"]
    late = ks.solve(problem, "flow", time_limit=0.0)
    assert (late.status, late.termination) == ("feasible", "time_limit")  # an even split of every group
    assert late.bound == np.ceil(problem.messages / problem.workers)  # all that is known before the first flow
    assert late.bound < ks.solve(problem).objective < late.objective
    weighted = ks.solve(splitting.battery()["weights"], "flow", time_limit=0.0)
    assert weighted.status == "feasible"
    placed = placement.battery()["too many workers"]
    assert ks.solve(placed, "flow", time_limit=0.0).bound == late.bound
    assert ks.solve(placed, "lp", time_limit=0.0).bound == ks.solve(placed, "universal").bound
    assert ks.solve(placed, "milp", time_limit=0.0).status == "optimal"  # without a model: the heaviest key proves it


def test_a_start_that_is_optimal_already_is_the_answer():
    problem = placement.battery()["one key"]
    known = ks.solve(problem, "hash")
    again = ks.solve(problem, "milp", start=known)
    assert (again.status, again.objective) == ("optimal", 10)


def test_interruption_says_so():
    problem = splitting.battery()["too many workers"]
    solution = ks.solve(problem, "pkg", time_limit=0.0)
    assert (solution.status, solution.termination) == ("none", "time_limit")
    assert "0 of 3000 messages" in solution.message
    assert ks.solve(problem, "off-greedy", time_limit=0.0).status == "none"


def test_splitting_pays_and_choices_pay():
    rng = np.random.default_rng(3)
    p = 1 / np.arange(1, 500)
    stream = rng.choice(499, 5000, p=p / p.sum())
    placed = ks.solve(ks.KeyPlacement(stream, workers=20)).objective
    by_choices = [ks.solve(ks.KeySplitting(stream, workers=20, choices=d)).objective for d in (1, 2, 3, 5, 9)]
    assert placed >= by_choices[1]
    assert by_choices == sorted(by_choices, reverse=True)
    assert ks.solve(ks.KeySplitting(stream, workers=20, choices=None)).objective == 250


def test_wide_candidate_sets_are_grouped_as_narrow_ones():
    keys = np.arange(300)
    options, number = candidate_sets(keys, 200, 12)  # 201**12 does not fit one number
    rows = candidates(keys, 200, 12)
    for k in range(300):
        assert options[number[k]][options[number[k]] >= 0].tolist() == sorted(set(rows[k].tolist()))


@pytest.mark.parametrize("case", range(6))
def test_rounding_a_flow_keeps_the_books(case):
    rng = np.random.default_rng(case)
    weights = (rng.random(2000), rng.integers(1, 9, 2000) / 4)[case % 2]
    speeds = 12 if case % 3 else rng.choice([1.0, 2.0], 12)
    problem = ks.KeySplitting(rng.integers(0, 300, 2000), workers=speeds, weights=weights)
    items = Items.of_messages(problem)
    found = flow.fractional_flow(items, Budget())
    share = statement.rounded(items, found.share)
    np.testing.assert_array_equal(share.sum(axis=1), items.count)
    assert (share >= 0).all()
    assert (share[items.options < 0] == 0).all()
    np.testing.assert_allclose(problem.loads(items.assignment(share)), items.loads(share))
    assert found.bound <= items.loads(share).max() <= found.bound + 4 * weights.max() / problem.speeds.min()


def test_loads_that_can_occur():
    problem = ks.KeySplitting([1, 2, 3], workers=2, weights=[0.5, 1.5, 2.0])
    items = Items.of_messages(problem)
    assert items.next_possible_load(2.0 - 1e-12) == 2.0
    assert items.next_possible_load(2.1) == 2.5
    uneven = Items.of_messages(ks.KeySplitting([1, 2, 3], workers=[1.0, 2.0], weights=[0.5, 1.5, 2.0]))
    assert uneven.next_possible_load(2.1) == 2.25  # 4.5 on the worker of speed 2
    odd = Items.of_messages(ks.KeySplitting([1, 2, 3], workers=2, weights=[0.1, 0.3, 0.7]))
    assert 0.6 - 1e-14 <= odd.next_possible_load(0.55) < 0.6  # tenths are no exact floats


@pytest.mark.parametrize("method", ["flow", "milp"])
def test_one_message_alone_can_prove_the_optimum(method):
    weights = [
        8085197.507918787,
        0.47840502022788806,
        725144663.6589814,
        82744555.46382101,
        0.00186,
        1497762869.1153145,
    ]
    posed = ks.KeySplitting([5, -7, -7, 8, 5, 8], workers=4, choices=None, weights=weights)
    found = ks.solve(posed, method)
    assert (found.status, found.termination) == ("optimal", "optimal")
    assert found.bound == pytest.approx(max(weights), rel=1e-9)
    assert found.bound <= max(weights)
    assert Items.of(ks.KeySplitting([1, 2], workers=[1, 4], choices=None, weights=[8, 2])).heaviest_load == 2

"""ELB, CLB, UHLB and PKG by hand; the movement model; the streams."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from data_folder import data_folder
from draws import draws
from instances.movement import random_problem

import keyshift as ks
from keyshift.generators.mclb import key_shares, read_counts, section_5_stream, word_stream
from keyshift.heuristics.mclb import clb as clb_module
from keyshift.heuristics.mclb.clb import rebalance, universal_hash
from keyshift.models import Budget
from keyshift.models.movement.problem import nodes_for


def problem(load, current, nodes, **options):
    limit = options.pop("limit", None)
    state = options.pop("state", np.ones(np.shape(load)[-1]))
    return ks.MCLB(ks.Workload(load=load, state=state, current=current, nodes=nodes, **options), limit)


# ELB ----------------------------------------------------------------------------------------------------------------


def test_elb_takes_the_largest_that_fits_and_gives_it_to_the_least_loaded():
    # Loads 12, 6, 3; the mean is 7. From node 0 (5 above) the largest of at most 5 is key group 1; then 2 above: 2.
    s = ks.solve(problem([[5.5, 4.5, 2, 6, 3]], [0, 0, 0, 1, 2], 3), "elb")
    assert s.assignment.tolist() == [0, 2, 0, 1, 2]


def test_the_threshold_falls_as_key_groups_leave():
    # Node 0 has 12 against a mean of 6: 4 leaves, then at most 2 may: 3 stays, 2 leaves.
    load, current = np.array([4.0, 3.0, 3.0, 2.0, 0.0]), np.array([0, 0, 0, 0, 1])
    placed = rebalance(load, current, np.array([True, True]), (1.0, 11.0))
    assert placed.tolist() == [1, 0, 0, 1, 1]


def test_only_overloaded_nodes_give():
    load, current, kept = np.array([4.0, 3.0, 1.0]), np.array([0, 0, 1]), np.array([True, True])
    assert rebalance(load, current, kept, (0.0, 8.0)).tolist() == [0, 1, 1]
    assert rebalance(load, current, kept, (0.0, 8.0), "upper").tolist() == [0, 0, 1]


def test_elb_says_when_its_assumption_is_broken():
    p = problem([[9, 1, 1, 1]], [0, 0, 0, 1], 2)
    assert ks.solve(p, "elb").message == ""
    s = ks.solve(p, "elb", lower=5, upper=7)
    assert s.message == "ELB assumes no key group above (u - v) / 2 = 1; key group 0 has load 9"
    with pytest.raises(ks.InputError, match="lower = 7 must not be above upper = 5"):
        ks.solve(p, "elb", lower=7, upper=5)


def test_elb_empties_draining_nodes():
    s = ks.solve(problem([[3, 2, 2]], [0, 1, 1], 3, draining=[False, True, False]), "elb")
    assert s.assignment.tolist() == [0, 2, 2]


# The movement model -------------------------------------------------------------------------------------------------


def test_the_number_of_nodes_is_the_papers():
    assert nodes_for(100.0, 8.0, 12.0) == 10
    assert nodes_for(101.0, 8.0, 12.0) == 11
    assert nodes_for(0.3, 0.05, 0.15) == 3  # a quotient a hair off a whole number
    assert nodes_for(0.0, 1.0, 2.0) == 1


def least_movement(p):
    feasible = (
        p.objective(a)
        for a in map(np.array, itertools.product(range(p.places), repeat=p.workload.key_groups))
        if not p.violations(a)
    )
    return min(feasible, default=None)


@pytest.mark.parametrize("method", ["milp", "cp-sat"])
def test_least_movement_equals_enumeration(method):
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = random_problem(rng, int(rng.integers(1, 5)), int(rng.integers(1, 4)))
        best, s = least_movement(p), ks.solve(p, method)
        assert s.status == ("infeasible" if best is None else "optimal"), (seed, s)
        if best is not None:
            found += 1
            assert s.objective == pytest.approx(best)
    assert found > 20


def test_each_rule_of_the_movement_model():
    w = ks.Workload(load=[4, 4, 2, 2], state=[1, 2, 3, 4], current=[0, 0, 1, 1], nodes=3, draining=[False, False, True])
    p = ks.MovementWithinLimits(w, 3, 7, nodes_after=2)
    assert ks.check(p, [0, 1, 1, 0]).feasible
    assert [v.rule for v in ks.check(p, [0, 0, 0, 1]).violations] == ["limits", "limits"]
    assert [v.rule for v in ks.check(p, [0, 0, 1, 2]).violations] == [
        "limits",
        "limits",
        "limits",
        "nodes_after",
        "draining",
    ]
    assert [v.rule for v in ks.check(ks.MovementWithinLimits(w, 0, 7, nodes_after=2), [0, 1, 2, 2]).violations] == [
        "nodes_after", "draining", "draining",
    ]  # fmt: skip
    assert ks.check(p, [0, 1, 1, 0]).metrics["state_moved"] == 6


def test_what_the_limits_cannot_hold_is_named():
    w = ks.Workload(load=[9, 1], state=[1, 1], current=[0, 0], nodes=2)
    assert "key group 0 has load 9" in ks.solve(ks.MovementWithinLimits(w, 1, 5, nodes_after=2)).message
    assert "cannot carry" in ks.solve(ks.MovementWithinLimits(w, 1, 4, nodes_after=1)).message
    assert "need more" in ks.solve(ks.MovementWithinLimits(w, 6, 10, nodes_after=2)).message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": 5}, "lower = 5.0 must be below upper = 5.0"),
        ({"windows": "none"}, "windows = 'none' must be 'last' or 'all'"),
        ({"workload": None}, "workload must be a Workload, not a NoneType"),
        (
            {"workload": ks.Workload(load=[1], state=[1], current=[0], nodes=[1.0, 2.0])},
            "nodes must have equal capacities",
        ),
        ({"nodes_after": 1.5}, "nodes_after = 1.5 must be a whole number"),
    ],
)
def test_bad_limits_are_refused(change, message):
    w = ks.Workload(load=[9, 1], state=[1, 1], current=[0, 0], nodes=2)
    with pytest.raises(ks.InputError, match=message):
        ks.MovementWithinLimits(**{"workload": w, "lower": 1.0, "upper": 5.0, **change})


def test_elb_adds_and_drops_nodes_and_the_model_moves_no_more():
    w = ks.Workload(load=[4, 3, 3, 2, 2, 2], state=[4, 3, 3, 2, 2, 2], current=[0, 0, 0, 1, 1, 1], nodes=2)
    more = ks.MovementWithinLimits(w, 2, 6)
    assert more.nodes_after == 4
    s, best = ks.solve(more, "elb"), ks.solve(more)
    assert best.status == "optimal"
    assert s.objective is None or s.objective >= best.objective
    fewer = ks.MovementWithinLimits(
        ks.Workload(load=[1, 1, 2, 2], state=[1, 1, 5, 5], current=[0, 1, 2, 2], nodes=3), 1, 5
    )
    assert fewer.nodes_after == 2
    assert ks.solve(fewer, "elb").metrics["nodes"] == 2


# CLB ----------------------------------------------------------------------------------------------------------------


def test_constant_loads_fool_the_printed_clb_and_not_the_corrected_one():
    load = np.tile([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 8.0], (4, 1))
    p = problem(load, np.arange(9) % 2, 2)
    printed, corrected = ks.solve(p, "clb"), ks.solve(p, "clb-moment")
    assert corrected.objective == 0
    assert printed.objective > 0
    assert (load[:, printed.assignment == printed.assignment[0]].sum(axis=1).var()) == 0  # what it lowers is 0 anyway


def test_clb_parts_positively_correlated_series():
    t = np.arange(8)
    up, down = 10 + t, 17 - t
    load = np.stack([up, down, 2 * up], axis=1).astype(float)
    s = ks.solve(problem(load, [0, 0, 0], 2), "clb")
    assert s.assignment[0] == s.assignment[1]  # they make up for each other
    assert s.assignment[0] != s.assignment[2]


def test_theta_reads_on_either_scale():
    rng = np.random.default_rng(0)
    p = problem(rng.random((20, 12)) * 1000, np.arange(12) % 3, 3)
    by_correlation = ks.solve(p, "clb", theta=0.3).assignment
    assert not np.array_equal(by_correlation, ks.solve(p, "clb", theta=0.3, scale="covariance").assignment)
    # A threshold that no correlation reaches: every split would be empty, the largest leave alone.
    alone = ks.solve(p, "clb", theta=1.5)
    assert sorted(np.bincount(alone.assignment)) == [1, 1, 10]
    for wrong in ({"theta": -1}, {"scale": "log"}, {"labels": "none"}):
        with pytest.raises(ks.InputError, match=next(iter(wrong))):
            ks.solve(p, "clb", **wrong)
    with pytest.raises(ks.InputError, match="split = 'x'"):
        ks.solve(p, "clb-moment", split="x")


def test_the_threshold_split_on_second_moments_keeps_one_key_group_and_sends_the_rest():
    rng = np.random.default_rng(0)
    p = problem(1 + rng.random((5, 10)), np.arange(10) % 4, 4)
    s = ks.solve(p, "clb-moment", split="threshold")
    assert sorted(np.bincount(s.assignment)) == [1, 1, 1, 7]
    assert ks.solve(p, "clb-moment").objective < s.objective


def test_clb_makes_as_many_sets_as_it_can():
    member = clb_module._split_all(np.eye(3), np.eye(3, dtype=bool), 5, Budget())
    assert sorted(member.tolist()) == [0, 1, 2]


def test_printed_labels_number_the_sets_as_they_are_made():
    p = problem([[5, 4, 3, 2]], [1, 1, 1, 1], 2)
    printed = ks.solve(p, "clb-moment", labels="printed")
    matched = ks.solve(p, "clb-moment")
    assert printed.objective == matched.objective
    assert matched.metrics["state_moved"] <= printed.metrics["state_moved"]
    assert printed.assignment[0] == 0


# UHLB, PKG ----------------------------------------------------------------------------------------------------------


def test_two_keys_collide_as_seldom_as_two_universality_promises():
    collisions = [(h := universal_hash(2, 10, np.random.default_rng(seed)))[0] == h[1] for seed in range(2000)]
    assert np.mean(collisions) < 0.12
    assert np.mean(collisions) > 0.08


def test_a_fresh_hash_moves_nine_tenths_on_ten_nodes():
    p = problem(np.ones((1, 500)), np.arange(500) % 10, 10)
    assert ks.solve(p, "uhlb", seed=3).metrics["share_moved"] == pytest.approx(0.9, abs=0.05)


def test_two_choices_balance_better_than_one():
    rng = np.random.default_rng(0)
    p = problem(rng.random((3, 300)), np.arange(300) % 10, 10)
    one = np.mean([ks.solve(p, "pkg", choices=1, seed=s).objective for s in range(10)])
    two = np.mean([ks.solve(p, "pkg", seed=s).objective for s in range(10)])
    assert two < 0.5 * one


# Streams ------------------------------------------------------------------------------------------------------------


def test_the_streams_have_the_papers_figures():
    for keys in ("gaussian", "zipf"):
        w = section_5_stream(keys, nodes=5, windows=30)
        assert (w.key_groups, w.windows, w.nodes) == (100, 30, 5)
        assert w.load.sum(axis=1).mean() == pytest.approx(600_000, rel=0.01)
        np.testing.assert_allclose(w.state, 0.1 * w.last_load)
    assert key_shares("zipf")[0] / key_shares("zipf")[9] == pytest.approx(10)
    assert key_shares("gaussian").argmax() in (49, 50)
    with pytest.raises(ks.InputError, match="keys = 'uniform'"):
        section_5_stream("uniform")


def test_a_drifting_stream_moves_its_peak():
    w = section_5_stream("gaussian", windows=20, drift=30, seed=2)
    assert abs(int(w.load[-1].argmax()) - int(w.load[0].argmax())) > 20
    np.testing.assert_array_equal(w.load, section_5_stream("gaussian", windows=20, drift=30, seed=2).load)


def test_word_counts_are_read_and_refused(tmp_path):
    file = tmp_path / "counts.txt"
    file.write_text("the\t50\nof\t30\nand\t20\n")
    assert read_counts(file)[0] == ["the", "of", "and"]
    w = word_stream(file, key_groups=2, nodes=2, windows=4, rate=10)
    assert w.load.sum() == pytest.approx(4 * 600, rel=0.1)
    file.write_text("the\t50\nof 30\n")
    with pytest.raises(ks.InputError, match="line 2: expected a word, a tab and a count, found 'of 30'"):
        read_counts(file)
    file.write_text("")
    with pytest.raises(ks.InputError, match="holds no words"):
        read_counts(file)


@pytest.mark.skipif(data_folder() is None, reason="no folder of larger data")
def test_real_words_are_head_heavy():
    w = word_stream(data_folder() / "count_1w.txt", windows=3)
    assert w.load.sum(axis=0).max() > 3 * w.load.sum(axis=0).mean()


def test_the_default_width_survives_rounding():
    # The default limits lie one largest key group from the mean; rounding u - v must not break y <= (u - v) / 2.
    rng = np.random.default_rng(0)
    for _ in range(300):
        load = rng.random(6) * 10 ** rng.uniform(-3, 3)
        w = ks.Workload(load=load, state=np.ones(6), current=rng.integers(0, 3, 6), nodes=3)
        assert "ELB assumes" not in ks.solve(ks.MCLB(w), "elb").message


def test_elb_places_as_with_limits_beyond_rounding():
    rng = np.random.default_rng(1)
    for _ in range(300):
        load, current = rng.random(6), rng.integers(0, 3, 6)
        mclb = ks.MCLB(ks.Workload(load=load, state=np.ones(6), current=current, nodes=3))
        mean, width = load.sum() / 3, max(0.1 * load.sum() / 3, load.max()) * (1 + 1e-9)
        wider = ks.solve(mclb, "elb", lower=max(0.0, mean - width), upper=mean + width + max(0.0, width - mean))
        if width <= mean:  # else the lower limit is below 0, which nobody can ask for
            assert ks.solve(mclb, "elb").assignment.tolist() == wider.assignment.tolist()


@pytest.mark.parametrize("method", ["clb", "clb-moment"])
def test_sets_are_left_unmade_where_the_time_is_over(method):
    w = ks.Workload(load=np.ones((3, 40)), state=np.ones(40), current=np.zeros(40, int), nodes=9)
    solution = ks.solve(ks.MCLB(w), method, time_limit=0.0)
    assert (solution.status, solution.termination) == ("none", "time_limit")
    assert "time was over" in solution.message


@pytest.mark.parametrize("method", ["clb", "clb-moment"])
def test_matrices_that_do_not_fit_are_refused(method):
    load = np.random.default_rng(0).random(100_000)
    w = ks.Workload(load=load, state=load, current=np.arange(load.size) % 200, nodes=200)
    solution = ks.solve(ks.MCLB(w, 1e9), method, time_limit=5)
    assert (solution.status, solution.message[:36]) == ("none", "matrices of all pairs of 100000 key ")


@draws(200, 2000)
def test_what_leaves_is_what_one_traversal_takes(count):
    """Phase two of ELB, key group by key group, as printed."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        p, n = int(rng.integers(1, 60)), int(rng.integers(1, 6))
        load = (rng.random(p), rng.integers(0, 5, p).astype(float), rng.gamma(0.2, 1.0, p))[int(rng.integers(3))]
        current, kept = rng.integers(0, n, p), np.arange(n) != rng.integers(-1, n)
        if not kept.any():
            continue
        loads = np.bincount(current, weights=load, minlength=n)
        mean, half, expected, left = load.sum() / kept.sum(), load.max() / rng.integers(1, 4), [], loads.copy()
        for j in np.flatnonzero(kept & (loads > mean)):
            for k in sorted(np.flatnonzero(current == j), key=lambda k: (-load[k], k)):
                if 0 < load[k] <= min(left[j] - mean, half):
                    expected.append(k)
                    left[j] -= load[k]
        assert clb_module._taken_off(load, current, kept, loads, mean, mean, half) == expected
        assert np.array_equal(loads, left)


def test_at_its_limit_elb_keeps_what_it_has_placed():
    rng = np.random.default_rng(6)
    p = 20_000
    w = ks.Workload(load=rng.random(p), state=np.ones(p), current=np.zeros(p, dtype=int), nodes=40)
    problem = ks.MCLB(w)
    found = ks.solve(problem, "elb", effort=5e-9)
    moved = int((found.assignment != w.current).sum())
    assert 0 < moved < int((ks.solve(problem, "elb").assignment != w.current).sum())

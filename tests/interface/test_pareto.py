"""The front: exact against enumeration, no dominated point, resumed, parallel, measured."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from enumeration import whole_front
from instances.mclb import random_problem

import keyshift as ks
from keyshift.fronts import tracing
from keyshift.models.base.disk import digest


def workload(seed=1, key_groups=7, nodes=3):
    rng = np.random.default_rng(seed)
    return ks.Workload(
        load=rng.integers(1, 30, (3, key_groups)),
        state=rng.integers(1, 9, key_groups),
        current=rng.integers(0, nodes, key_groups),
        nodes=nodes,
    )


def pairs(front):
    return [(s.metrics["state_moved"], s.objective) for s in front]


@pytest.mark.parametrize("seed", range(4))
def test_the_whole_front_equals_enumeration(seed):
    p = ks.MCLB(workload(seed))
    front = ks.pareto(p, None)
    np.testing.assert_allclose(pairs(front), whole_front(p), atol=p.tolerance)
    assert {s.status for s in front} == {"optimal"}


def test_the_whole_front_in_moves_leaves_no_number_out():
    w = workload(2, 6)
    front = ks.pareto(ks.KeyGroupAllocation(w), None)
    every = [np.array(a) for a in itertools.product(range(3), repeat=6)]
    best = [
        min(ks.KeyGroupAllocation(w).objective(a) for a in every if (a != w.current).sum() <= most) for most in range(7)
    ]
    wanted = [(most, value) for most, value in enumerate(best) if most == 0 or value < best[most - 1] - 1e-9]
    assert len(wanted) == 3
    np.testing.assert_allclose([(s.metrics["migrations"], s.objective) for s in front], wanted, atol=1e-6)


def test_the_whole_front_equals_enumeration_on_hard_cases():
    for seed in range(8):
        p = dataclasses.replace(random_problem(np.random.default_rng(seed), 5, 3), max_state_moved=None)
        np.testing.assert_allclose(pairs(ks.pareto(p, None)), whole_front(p), atol=p.tolerance)


def test_a_few_points_lie_on_the_front_extremes_included():
    p = ks.MCLB(workload())
    front, every = ks.pareto(p, 4), whole_front(p)
    assert len(front) <= 4
    for moved, value in pairs(front):
        assert any(abs(moved - x) < 1e-9 and abs(value - y) < p.tolerance for x, y in every)
    assert pairs(front)[0] == pytest.approx(every[0])
    assert pairs(front)[-1] == pytest.approx(every[-1])


@pytest.mark.parametrize("seed", [6, 15, 27])
def test_where_many_answers_tie_a_few_points_have_the_least_state(seed):
    """In each of these a point is more than one step above the least."""
    rng = np.random.default_rng(seed)
    load, state, current = rng.integers(1, 4, (1, 6)), rng.integers(1, 9, 6), rng.integers(0, 3, 6)
    p = ks.MCLB(ks.Workload(load=load, state=state, current=current, nodes=3))
    for moved, value in pairs(ks.pareto(p, 4)):
        assert any(abs(moved - x) < 1e-9 and abs(value - y) < p.tolerance for x, y in whole_front(p))


def test_a_budget_of_its_own_ends_the_front():
    w = workload()
    front = ks.pareto(ks.MCLB(w, max_state_moved=6), None)
    every = [point for point in whole_front(ks.MCLB(w)) if point[0] <= 6]
    np.testing.assert_allclose(pairs(front), every)


def test_without_proofs_no_point_is_dominated_and_every_one_has_its_gap():
    rng = np.random.default_rng(0)
    w = ks.Workload(load=rng.gamma(2.0, 20.0, (10, 24)), state=rng.random(24), current=np.arange(24) % 4, nodes=4)
    known = ks.solve(ks.MCLB(w), "elb")
    front = ks.pareto(ks.MCLB(w), 4, time_limit=1, starts=[known])
    assert (np.diff(front.state_moved) > 0).all()
    assert (np.diff(front.imbalance) < 0).all()
    assert all(s.bound is not None and s.bound <= s.objective for s in front)
    assert all(np.diff([s.bound for s in front]) <= 0)
    assert front.distance(known).imbalance >= 0  # a start never beats the front


def test_workers_find_the_same_front():
    p = ks.MCLB(workload(2))
    assert pairs(ks.pareto(p, 5, workers=2)) == pairs(ks.pareto(p, 5))


def test_a_front_is_resumed_from_its_checkpoint(tmp_path):
    p, file = ks.MCLB(workload()), tmp_path / "front.json"
    whole = pairs(ks.pareto(p, 4, checkpoint=file))
    content = json.loads(file.read_text())
    assert len(content["points"]) == 4
    content["points"] = content["points"][:2]  # as if interrupted after two
    content["digest"] = digest(content["points"])
    file.write_text(json.dumps(content))
    reports = []
    assert pairs(ks.pareto(p, 4, checkpoint=file, watch=lambda now: reports.append(now))) == whole
    assert len(json.loads(file.read_text())["points"]) == 4
    with pytest.raises(ks.InputError, match="another points"):
        ks.pareto(p, 5, checkpoint=file)
    with pytest.raises(ks.InputError, match="another workload"):
        ks.pareto(ks.MCLB(workload(3)), 4, checkpoint=file)
    file.write_text("{")
    with pytest.raises(ks.InputError, match="is not JSON"):
        ks.pareto(p, 4, checkpoint=file)


def test_problems_without_a_second_objective_are_refused():
    w = workload()
    with pytest.raises(ks.InputError, match="has no front to trace; these have: key-group-allocation"):
        ks.pareto(ks.MovementWithinLimits(w, 0, 1e9))
    with pytest.raises(ks.InputError, match="points = 1 must be at least 2"):
        ks.pareto(ks.MCLB(w), 1)


def test_an_impossible_budget_gives_an_empty_front():
    w = ks.Workload(load=[1, 1], state=[1, 3], current=[0, 1], nodes=2, draining=[False, True])
    front = ks.pareto(ks.MCLB(w, max_state_moved=2), 3)
    assert len(front) == 0
    assert front.hypervolume() == 0


def staircase():
    """Points (0, 8), (2, 4), (6, 0) on one window of two nodes."""
    w = ks.Workload(load=[[4.0, 2.0, 2.0, 0.0]], state=[6, 2, 2, 1], current=[0, 0, 1, 1], nodes=2)
    return ks.pareto(ks.MCLB(w), None)


def test_hypervolume_and_distances_by_hand():
    front = staircase()
    assert pairs(front) == [(0.0, 4.0), (2.0, 0.0)]  # loads 6, 2; moving key group 1 levels them
    assert front.hypervolume() == 0  # the extremes themselves are the reference
    assert front.hypervolume((3.0, 5.0)) == 2 * 1 + 1 * 5
    assert front.hypervolume((1.0, 5.0)) == 1
    behind = ks.solve(front.problem, "uhlb", seed=1)
    d = front.distance(behind)
    cheaper = front.imbalance[front.state_moved <= behind.metrics["state_moved"]].min()
    assert d.imbalance == behind.objective - cheaper
    on_it = front.distance(front[1])
    assert (on_it.imbalance, on_it.state_moved, on_it.relative) == (0, 0, 0)
    assert front.knee() is front[1]


def test_the_front_prints_tabulates_and_draws(tmp_path):
    front = ks.pareto(ks.MCLB(workload()), None)
    frame = front.to_frame()
    assert frame["imbalance"].tolist() == front.imbalance.tolist()
    assert "state moved" in str(front)
    figure = front.plot(tmp_path / "front.png", [ks.solve(front.problem, m) for m in ("elb", "pkg")])
    assert (tmp_path / "front.png").stat().st_size > 5000
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert {"front", "lower bound", "elb", "pkg"} <= set(labels)
    x, y = front._scaled(front.state_moved, front.imbalance)
    assert front.knee() is front[int(np.argmin(x + y))]


def test_the_shell_traces_a_front(tmp_path, capsys):
    from keyshift.cli import main

    ks.write_workload(workload(), tmp_path / "w.json")
    assert main(["pareto", str(tmp_path / "w.json"), "--points", "3", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [r["method"] for r in records] == ["pareto"] * len(records)
    assert main(["pareto", str(tmp_path / "w.json"), "--points", "3", "--plot", str(tmp_path / "f.png")]) == 0
    assert (tmp_path / "f.png").exists()
    assert (
        main(["pareto", str(tmp_path / "w.json"), "-p", "movement-within-limits", "--lower", "0", "--upper", "9e9"])
        == 2
    )


def test_answers_to_another_problem_are_refused():
    w = workload()
    front = ks.pareto(ks.MCLB(w), points=3, time_limit=5)
    other = ks.solve(ks.MovementWithinLimits(w, lower=0.0, upper=100.0), "elb")
    with pytest.raises(ks.InputError, match="answers movement-within-limits, the front belongs to mclb"):
        front.distance(other)
    with pytest.raises(ks.InputError, match="the front belongs to mclb"):
        front.plot(others=[other])
    stranger = ks.solve(ks.MCLB(workload(seed=2)), "local-search")
    with pytest.raises(ks.InputError, match="another workload than the front's: load differs"):
        front.distance(stranger)


@pytest.mark.parametrize("workers", [1, 3])
def test_after_the_limit_only_the_extremes_are_asked_for(monkeypatch, workers):
    asked = []
    answered = tracing.answered

    def counted(problem, *given):
        asked.append(problem)
        return answered(problem, *given)

    monkeypatch.setattr(tracing, "answered", counted)
    p = ks.MCLB(workload(key_groups=30))
    front = ks.pareto(p, 5000, time_limit=0.0, workers=workers)
    assert len(asked) <= 3
    assert front[0].metrics["state_moved"] == 0.0
    assert all(s.problem.check(s.assignment).feasible for s in front)


def test_a_front_of_key_splitting_keeps_the_speeds_of_its_workers():
    """They are given as `workers`, which afterwards is a number: a copy with other choices had workers all alike."""
    given = {"stream": [5, 6, 6], "workers": [3.0, 2.0], "hash_seed": 8, "weights": [1.0, 2.0, 3.0]}
    front = ks.pareto(ks.KeySplitting(**given, choices=2))
    assert [s.problem.choices for s in front.solutions] == [1, 2]
    for s in front.solutions:
        assert s.problem.speeds.tolist() == [3.0, 2.0]
        assert s.objective == ks.solve(ks.KeySplitting(**given, choices=s.problem.choices)).objective

"""Migrations in phases: the fewest, by brute force on small cases; and Flink's ranges."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from draws import draws
from instances.intervals import random_problem

import keyshift as ks
from keyshift.models.intervals.flink_ranges import default_ranges, ranges_of, read_ranges
from keyshift.models.intervals.schedule import MigrationSchedule
from keyshift.solvers.intervals.schedule import schedule


def fewest_phases(before, after, max_tasks=None, max_state=None, state=None, per_link=1):
    """Brute force: try all assignments of moving tasks to 1, 2, ... phases."""
    moving = [k for k in range(len(before)) if before[k] != after[k]]
    state = np.ones(len(before)) if state is None else state

    def allowed(phase):
        sent = np.bincount([before[k] for k in phase]) if phase else np.zeros(1)
        received = np.bincount([after[k] for k in phase]) if phase else np.zeros(1)
        few = max_tasks is None or len(phase) <= max_tasks
        light = max_state is None or sum(state[k] for k in phase) <= max_state
        return few and light and max(sent.max(), received.max()) <= per_link

    for phases in range(len(moving) + 1):
        for colours in itertools.product(range(phases), repeat=len(moving)):
            groups = [[k for k, c in zip(moving, colours, strict=True) if c == p] for p in range(phases)]
            if all(map(allowed, groups)):
                return phases
    return None


def random_moves(rng, m, nodes):
    w = ks.Workload(load=np.ones(m), state=rng.integers(1, 6, m), current=rng.integers(0, nodes, m), nodes=nodes)
    return w, rng.integers(0, nodes + 1, m)


@pytest.mark.parametrize("per_link", [1, 2])
@pytest.mark.parametrize("max_tasks", [None, 1, 2, 3])
@draws(12, 25)
def test_phases_are_as_few_as_brute_force_finds(max_tasks, per_link, count):
    rng = np.random.default_rng(1)
    for _ in range(count):
        w, target = random_moves(rng, int(rng.integers(1, 7)), int(rng.integers(2, 4)))
        plan = schedule(w, target, max_tasks=max_tasks, per_link=per_link)
        assert plan.optimal
        assert len(plan.phases) == fewest_phases(w.current, target, max_tasks, per_link=per_link)
        assert all(report.feasible for report in plan.check())
        assert not plan.phases or plan.assignments()[-1].tolist() == target.tolist()


def test_phases_limited_in_bytes_are_never_fewer_than_the_bound():
    rng = np.random.default_rng(2)
    proven = 0
    for _ in range(30):
        w, target = random_moves(rng, int(rng.integers(2, 7)), 3)
        plan = schedule(w, target, max_state=6)
        fewest = fewest_phases(w.current, target, max_state=6, state=w.state)
        assert plan.least <= fewest <= len(plan.phases)
        assert all(report.feasible for report in plan.check())
        proven += plan.optimal
    assert proven > 10


def test_an_optimal_migration_in_phases():
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = random_problem(rng, 30, 6)
        if problem.conflicts():
            continue
        solution = ks.solve(problem)
        plan = schedule(problem.workload, solution.assignment, max_tasks=4)
        moved = int(solution.metrics["migrations"])
        degree = int(plan.link_use().sum(axis=0).max(initial=0))
        assert len(plan.phases) == max(degree, math.ceil(moved / 4)) == plan.least
        reports = plan.check()
        assert all(r.feasible for r in reports)
        left = [r.objective for r in reports]
        assert left == sorted(left, reverse=True)
        assert not left or left[-1] == 0.0


def test_many_moves_between_two_nodes_are_evened_out():
    w = ks.Workload(load=np.ones(40), state=np.ones(40), current=np.repeat([0, 1], 20), nodes=2)
    plan = schedule(w, np.repeat([1, 0], 20), max_tasks=2)
    assert len(plan.phases) == 20
    assert {p.size for p in plan.phases} == {2}
    assert (plan.link_use() == 1).all()


def test_nothing_to_move_takes_no_phase():
    w = ks.Workload(load=[1, 1], state=[1, 1], current=[0, 1], nodes=2)
    assert schedule(w, [0, 1]).phases == ()
    assert schedule(w, [0, 1]).check() == []


def test_bad_limits_are_refused():
    w = ks.Workload(load=[1, 1], state=[5, 1], current=[0, 1], nodes=2)
    with pytest.raises(ks.InputError, match="task 0 alone has state 5"):
        schedule(w, [1, 0], max_state=4)
    with pytest.raises(ks.InputError, match="max_tasks = 0"):
        schedule(w, [1, 0], max_tasks=0)
    with pytest.raises(ks.InputError, match="per_link = 0"):
        schedule(w, [1, 0], per_link=0)


def test_a_schedule_that_breaks_a_rule_says_so():
    w = ks.Workload(load=np.ones(3), state=np.ones(3), current=[0, 0, 1], nodes=2)
    target = np.array([1, 1, 0])

    def rules(*phases, **limits):
        made = MigrationSchedule(
            w, target, tuple(map(np.array, phases)), 1, 1, limits.get("max_tasks"), limits.get("max_state")
        )
        return [v.rule for v in made.violations()]

    assert rules([0, 2], [1]) == []
    assert rules([0, 1, 2]) == ["per_link"]
    assert rules([0, 2]) == ["moves"]
    assert rules([0, 2], [1, 2]) == ["moves"]
    assert rules([0, 2], [1], max_tasks=1) == ["max_tasks"]
    assert rules([0, 2], [1], max_state=1) == ["max_state"]
    with pytest.raises(ks.InputError, match="not a schedule"):
        MigrationSchedule(w, target, (np.array([0]),), 1, 1, None, None).check()


def test_a_report_on_the_way_is_about_the_state_still_to_move():
    w = ks.Workload(load=np.ones(3), state=[3, 4, 5], current=[0, 1, 2], nodes=3)
    first, last = schedule(w, [1, 0, 2], max_tasks=1).check()
    assert {first.objective, first.metrics["state_moved"]} == {3.0, 4.0}
    assert first.metrics["tasks_to_move"] == 1.0
    assert (last.objective, last.metrics["max_load"]) == (0.0, 1.0)


# Flink ------------------------------------------------------------------------------------------------------------


def test_default_ranges_are_flinks():
    """128 key groups on 3 subtasks, as KeyGroupRangeAssignment gives them."""
    assert default_ranges(3, 128) == [(0, 42), (43, 85), (86, 127)]
    for parallelism in (1, 2, 5, 7, 128):
        ranges = default_ranges(parallelism, 128)
        owner = read_ranges([(i, a, b) for i, (a, b) in enumerate(ranges)], 128)
        by_hash = [k * parallelism // 128 for k in range(128)]  # computeOperatorIndexForKeyGroup
        assert owner.tolist() == by_hash
    with pytest.raises(ks.InputError, match="parallelism = 9"):
        default_ranges(9, 8)


def test_ranges_are_read_rescaled_and_written_back():
    table = pd.DataFrame({"subtask": [1, 0], "start": [8, 0], "end": [15, 7]})
    current = read_ranges(table)
    load = np.array([1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 1, 1, 1, 1.0])
    w = ks.Workload(load=load, state=load, current=current, nodes=2)
    found = ks.solve(ks.IntervalMigration(w, 3, 0.2)).assignment
    written = ranges_of(found)
    assert read_ranges(written).tolist() == found.tolist()
    assert written["start"].tolist()[1:] == (written["end"] + 1).tolist()[:-1]


@pytest.mark.parametrize(
    ("rows", "groups", "sentence"),
    [
        ([(0, 0, 3), (1, 3, 5)], None, "key group 3 lies in the ranges of subtasks 0 and 1"),
        ([(0, 0, 3), (1, 5, 6)], None, "key group 4 lies in no range"),
        ([(0, 0, 3), (0, 4, 6)], None, "subtask 0 already has"),
        ([(0, 0, 3)], 3, "ranges end at key group 3"),
        ([(0, 0)], None, r"ranges\[0\]"),
        ([{"subtask": 0}], None, "must have subtask, start and end"),
        ([(-1, 0, 1)], None, "must not be negative"),
        ([], None, "ranges end at key group -1"),
    ],
)
def test_bad_ranges_are_refused(rows, groups, sentence):
    with pytest.raises(ks.InputError, match=sentence):
        read_ranges(rows, groups)


def test_an_assignment_without_intervals_has_no_ranges():
    with pytest.raises(ks.InputError, match="more than one range"):
        ranges_of([0, 1, 0])

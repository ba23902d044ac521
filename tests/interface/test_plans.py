"""Plans: what they list, how they are cut, saved, undone, and refused for a workload that has changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import keyshift as ks


def workload(seed: int = 0, p: int = 40, n: int = 5, **more) -> ks.Workload:
    rng = np.random.default_rng(seed)
    return ks.Workload(
        load=rng.uniform(1, 10, p), state=rng.integers(1, 50, p), current=rng.integers(0, n, p), nodes=n, **more
    )


def random_target(w: ks.Workload, seed: int, moves: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    target = w.current.copy()
    chosen = rng.choice(w.key_groups, moves, replace=False)
    target[chosen] = (target[chosen] + rng.integers(1, w.nodes, moves)) % w.nodes
    return target


@pytest.fixture(scope="module")
def made():
    w = workload(keys=[f"k{k}" for k in range(40)], node_names=list("abcde"))
    problem = ks.KeyGroupAllocation(w, max_migrations=8)
    return problem, ks.solve(problem, "flux").plan(bandwidth=10, phase_moves=3)


def test_a_plan_lists_its_moves_by_name(made):
    problem, plan = made
    w = problem.workload
    moves = plan.moves
    assert list(moves) == ["key_group", "key", "source", "target", "load", "state", "gain", "phase", "start", "end"]
    assert set(moves["source"]) <= set("abcde")
    assert [f"k{k}" for k in moves["key_group"]] == moves["key"].tolist()
    np.testing.assert_allclose(moves["end"] - moves["start"], moves["state"] / 10)
    assert plan.violations() == []
    for k, gain in zip(moves["key_group"], moves["gain"], strict=True):
        undone = plan.assignment.copy()
        undone[k] = w.current[k]
        assert gain == pytest.approx(problem.objective(undone) - problem.objective(plan.assignment))
    assert plan.peak_load >= max(plan.loads_before.max(), plan.loads_after.max())
    assert all(p.load_distance <= plan.load_distance[0] for p in plan.phases)


def test_a_plan_comes_back_from_disk_as_it_was(made, tmp_path):
    plan = made[1]
    plan.save(tmp_path / "plan.json")
    again = ks.read_plan(tmp_path / "plan.json")
    assert again.as_record() == plan.as_record()
    assert again.moves.equals(plan.moves)


def test_undoing_a_plan_brings_everything_back(made):
    problem, plan = made
    back = plan.undo()
    assert back.violations() == []
    assert back.seconds == pytest.approx(plan.seconds)
    np.testing.assert_array_equal(back.assignment, problem.workload.current)
    assert back.changes(problem.workload.replace(current=plan.assignment)) == []
    assert back.peak_load == pytest.approx(plan.peak_load)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda r: r["moves"][0].update(target=r["moves"][0]["target"] + 9), "names a node from 5 on"),
        (lambda r: r["moves"][0].update(start=-1.0), r"moves\[0\].start = -1.0 must be at least 0"),
        (lambda r: r["workload"]["load"].__setitem__(0, 99.0), "the fingerprint is not that of the workload"),
        (lambda r: r.update(seconds=1.0), "seconds = 1, its moves say"),
        (lambda r: r.update(version=4), "has another format than keyshift-plan 3"),
        (lambda r: r.pop("moves"), "lacks the field .moves."),
        (lambda r: r["moves"].append(dict(r["moves"][0])), "contradicts itself"),
        (lambda r: r.update(script="rm"), "has a field .script."),
    ],
)
def test_a_damaged_plan_is_refused(made, tmp_path, change, sentence):
    record = made[1].as_record()
    record = json.loads(json.dumps(record))
    change(record)
    (tmp_path / "plan.json").write_text(json.dumps(record))
    with pytest.raises(ks.InputError, match=sentence):
        ks.read_plan(tmp_path / "plan.json")


def stops_no_worse(seed: int) -> bool:
    """Whether a random plan can be stopped after any phase; where it cannot, its end itself is the worse state."""
    rng = np.random.default_rng(seed)
    w = workload(seed, int(rng.integers(10, 60)), int(rng.integers(2, 8)))
    target = random_target(w, seed, int(rng.integers(3, w.key_groups // 2)))
    plan = ks.plan(ks.KeyGroupAllocation(w), target, phase_moves=int(rng.integers(1, 6)), time_limit=0.0)
    assert plan.violations() == []
    before = ks.KeyGroupAllocation(w).objective(w.current)
    reached = [ks.KeyGroupAllocation(w).objective(a) for a in plan.assignments()]
    np.testing.assert_array_equal(plan.assignments()[-1], target)
    if reached[-1] > before * (1 + 1e-9):
        assert any("raises the load distance" in note for note in plan.notes)
        return False
    assert max(reached) <= before * (1 + 1e-9)
    return True


def test_stopping_after_any_phase_is_no_worse_than_the_start():
    assert sum(stops_no_worse(seed) for seed in range(40)) > 5


@pytest.mark.slow
def test_five_hundred_plans_can_be_stopped_after_any_phase():
    good = sum(stops_no_worse(seed) for seed in range(500))
    assert good > 100


def test_limits_on_the_way_are_kept_or_exceeded_least():
    w = ks.Workload(load=[5, 5, 1], state=[1, 1, 1], current=[0, 1, 2], nodes=3)
    swap = ks.plan(ks.KeyGroupAllocation(w), [1, 0, 2], max_on_the_way={"load": 10})
    assert swap.overload == 0
    assert swap.peak_load == 10
    tight = ks.plan(ks.KeyGroupAllocation(w), [1, 0, 2], max_on_the_way={"load": 8})
    assert tight.overload == tight.overload_bound == pytest.approx(0.25)
    assert "exceeds its limit by 25.0 %: no order does better" in tight.notes[0]
    one = ks.plan(ks.KeyGroupAllocation(w), [1, 2, 2], max_on_the_way={"load": 6})
    assert one.overload == 0  # key group 1 leaves node 1 first
    assert one.moves["key_group"].tolist() == [1, 0]


def test_what_cannot_be_planned_is_refused():
    w = workload()
    problem = ks.KeyGroupAllocation(w, max_migrations=1)
    with pytest.raises(ks.InputError, match="breaks a rule"):
        ks.plan(problem, random_target(w, 0, 5))
    with pytest.raises(ks.InputError, match="holds no assignment"):
        ks.plan(problem, ks.solve(problem, "lp"))
    with pytest.raises(ks.InputError, match="nothing to carry out"):
        ks.plan(ks.KeySplitting([1, 2, 3], workers=2), [0, 1, 0])
    with pytest.raises(ks.InputError, match="names 'disk'"):
        ks.plan(problem, w.current, max_on_the_way={"disk": 3})
    nothing = ks.plan(problem, w.current)
    assert len(nothing) == 0
    assert nothing.seconds == 0
    assert nothing.phases == ()


def _with_load(w: ks.Workload, k: int, load: float) -> ks.Workload:
    changed = w.load.copy()
    changed[-1, k] = load
    return w.replace(load=changed)


def _runs_on(w: ks.Workload, k: int, node: int) -> ks.Workload:
    return w.replace(current=np.where(np.arange(w.key_groups) == k, node, w.current))


CHANGES = {
    "elsewhere": (
        lambda w: _runs_on(w, 3, (int(w.current[3]) + 1) % 5),
        r"key group k3 runs on node \w, the plan expects it on",
    ),
    "load": (lambda w: _with_load(w, 7, 99.0), r"the load of key group k7 is 99, was [\d.]+ \(\+[\d.]+\)"),
    "state": (
        lambda w: w.replace(state=w.state + (np.arange(40) == 2)),
        r"the state of key group k2 is \d+, was \d+ \(\+1\)",
    ),
    "draining": (lambda w: w.replace(draining=[False] * 4 + [True]), "node e now drains"),
    "capacity": (lambda w: w.replace(nodes=[1, 2, 1, 1, 1]), "node b has capacity 2, was 1"),
    "fewer key groups": (lambda w: workload(p=39), "the workload has 39 key groups, the plan was made for 40"),
    "another node": (
        lambda w: w.replace(nodes=6, node_names=list("abcdef"), draining=None),
        "has 6 nodes, the plan was made for 5",
    ),
    "renamed": (lambda w: w.replace(node_names=list("abcdz")), r"node_names\[4\] is 'z', was 'e'"),
    "earlier window": (lambda w: w.replace(load=np.vstack([w.load, w.load])), "earlier windows, traffic, homes"),
    "new home": (lambda w: w.replace(home=w.current), "earlier windows, traffic, homes"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_workload_that_has_changed_is_refused_with_the_right_sentence(made, name):
    problem, plan = made
    assert plan.check(problem.workload).feasible
    change, sentence = CHANGES[name]
    with pytest.raises(ks.models.ChangedWorkloadError, match=sentence) as refused:
        plan.check(change(problem.workload))
    assert len(refused.value.changes) == 1
    if name not in ("fewer key groups", "another node"):
        assert "bring the load distance from" in str(refused.value)


def test_many_changes_are_counted(made):
    problem, plan = made
    with pytest.raises(
        ks.models.ChangedWorkloadError, match=r"and more: 40 loads differ.*objective [\d.]+, planned [\d.]+"
    ):
        plan.check(problem.workload.replace(load=problem.workload.load * 1.1))


def test_plans_are_compared_move_by_move():
    w = ks.Workload(load=[4, 3, 2, 1], state=[1, 1, 1, 1], current=[0, 0, 0, 0], nodes=3)
    problem = ks.KeyGroupAllocation(w)
    one, other = ks.plan(problem, [0, 1, 2, 0]), ks.plan(problem, [0, 1, 1, 2])
    difference = one.diff(other)
    assert difference.counts() == {"same": 1, "other target": 1, "only here": 0, "only there": 1}
    assert difference.figures["moves"] == (2.0, 3.0)
    assert difference.moves["other_target"].tolist() == [1, 1, 2]
    with pytest.raises(ks.InputError, match="different key groups"):
        one.diff(ks.plan(ks.KeyGroupAllocation(workload()), workload().current))


def far_apart(rng: np.random.Generator, size: int) -> np.ndarray:
    """Numbers from 1e-9 to 1e12, some alike, some 0."""
    return [
        10.0 ** rng.uniform(-9, 12, size),
        rng.choice([3e-9, 3e12, 1.0, 0.0, 7e5], size),
        np.full(size, 10.0 ** rng.uniform(-9, 12)),
        rng.choice([1e-9, 1e12], size) * rng.random(size),
    ][rng.integers(4)]


def reads_what_it_writes(seed: int, path) -> None:
    """A plan of extreme scales keeps its own check, and comes back from its file; so does the way back."""
    rng = np.random.default_rng(seed)
    p, n = int(rng.integers(2, 12)), int(rng.integers(2, 5))
    w = ks.Workload(load=far_apart(rng, p) + 1e-9, state=far_apart(rng, p), current=rng.integers(0, n, p), nodes=n)
    target = rng.integers(0, n, p)
    speeds = [None, 10.0 ** rng.uniform(-9, 12), np.maximum(far_apart(rng, n), 1e-9), [1, 2, 1, 2][:n]]
    most = max(np.bincount(a, w.last_load, n).max() for a in (w.current, target))
    plan = ks.plan(
        ks.KeyGroupAllocation(w), target, speeds[rng.integers(4)], int(rng.integers(1, 4)),
        phase_moves=[None, 1, 3, 100][rng.integers(4)], time_limit=2,
        max_on_the_way={"load": float(most * rng.choice([0.5, 1.0, 1.2]))} if rng.random() < 0.4 else None,
    )  # fmt: skip
    assert plan.check(w).feasible, seed
    for one in (plan, plan.undo()):
        assert one.violations() == [], seed
        one.save(path)
        assert ks.read_plan(path).as_record() == one.as_record(), seed


def test_plans_of_any_scale_read_what_they_write(tmp_path):
    for seed in (*range(40), 1084):  # the way back of the last one held less than nothing, by rounding
        reads_what_it_writes(seed, tmp_path / "plan.json")


@pytest.mark.slow
def test_thousands_of_plans_of_any_scale_read_what_they_write(tmp_path):
    for seed in range(100, 3100):
        reads_what_it_writes(seed, tmp_path / "plan.json")


def test_a_move_that_does_not_take_as_long_as_its_state_is_refused(made, tmp_path):
    _, plan = made
    record = plan.as_record()
    record["moves"][0]["end"] *= 0.5
    (tmp_path / "plan.json").write_text(json.dumps(record))
    with pytest.raises(ks.InputError, match="by its state"):
        ks.read_plan(tmp_path / "plan.json")

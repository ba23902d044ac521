"""The loop for every formulation, against recomputations of each step from `solve` and NumPy alone; killed and resumed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import keyshift as ks
from keyshift.generators.intervals import task_workload
from keyshift.generators.routing import ZipfStream
from keyshift.generators.splitting import key_stream
from keyshift.models.placement import rehashed
from keyshift.replays import results as store
from keyshift.replays.planner import Cluster

COUNTS = (4, 5, 4, 3, 3, 4)
CHANCES = {3: {4: 1.0}, 4: {3: 0.5, 5: 0.5}, 5: {4: 1.0}}
ROUTING = {"problem": "mixed-routing", "theta_max": 0.1, "max_table_size": 40}
INTERVALS = [
    ks.replays.Planner("ssm", problem="interval-migration", options={"tau": 0.3}),
    ks.replays.Planner("oms", problem="migration-sequence", options={"tau": 0.3}),
    ks.replays.Planner(
        "mtm", problem="migration-policy", options={"tau": 0.3, "transitions": CHANCES, "discount": 0.8}
    ),
]
KEYS = {"problem": "key-splitting", "workers": 5, "sources": 2}


def zipf(count=5, keys=300, nodes=4, seed=1):
    stream = ZipfStream(keys, nodes, fluctuation=0.4, seed=seed)
    for _ in range(count):
        yield stream.workload()
        stream.advance()


def tasks(count=7, seed=0):
    w = task_workload(24, 4, seed)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield w.replace(load=w.last_load * rng.uniform(0.9, 1.1, 24))


def words(count=4, messages=3000):
    yield from np.array_split(key_stream("drift", count * messages, seed=2), count)


def replayed(what, **more):
    """A replay of each formulation by its name."""
    runs = {
        "routing": lambda: ks.replay(zipf(), ["mixed", "readj"], forecast="last", **ROUTING, **more),
        "intervals": lambda: ks.replay(
            tasks(), INTERVALS, forecast="ewma", scaling=ks.replays.NodeCounts(COUNTS, ahead=3), **more
        ),
        "mclb": lambda: ks.replay(zipf(7, 20), ["uhlb", "clb"], problem="mclb", every=2, forecast="mean:3", **more),
        "keys": lambda: ks.replay(words(), ["pkg", "d-choices", "potc"], **KEYS, **more),
    }
    return runs[what]()


# Mixed routing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["mixed", "readj", "min-table"])
def test_routing_against_a_step_by_step_recomputation(method):
    stream = list(zipf())
    place = stream[0].current
    rows = ks.replay(stream, [method], forecast="last", **ROUTING).rows
    assert len(rows) == 4
    for t, row in enumerate(rows):
        w, realised = stream[t].replace(current=place), stream[t + 1]
        found = ks.solve(ks.MixedRouting(w, theta_max=0.1, max_table_size=40), method, seed=t)
        chosen = found.offered if found.assignment is None else found.assignment
        loads = np.bincount(chosen, realised.last_load, 4)
        assert row["theta"] == pytest.approx(loads.max() / loads.mean() - 1, rel=1e-9)
        assert row["state_moved"] == w.state[chosen != place].sum()
        assert row["table_size"] == (chosen != w.home).sum()
        in_hindsight = ks.solve(
            ks.MixedRouting(realised.replace(current=place, state=w.state), theta_max=0.1, max_table_size=40),
            method,
            seed=t,
        )
        best = in_hindsight.offered if in_hindsight.assignment is None else in_hindsight.assignment
        assert row["knew_theta"] == pytest.approx(
            np.bincount(best, realised.last_load, 4).max() / loads.mean() - 1, abs=1e-9
        )
        place = chosen
    assert sum(row["state_moved"] for row in rows) > 0


def test_the_hash_follows_nodes_that_come_and_go():
    home = np.random.default_rng(0).integers(0, 4, 20_000)
    first = rehashed(home, range(4), 4)
    assert (first == home).all()
    one_more = rehashed(home, range(5), 4)
    assert set(one_more[one_more != first]) == {4}
    assert np.bincount(one_more).min() > 3700  # 4000 each, if even
    one_less = rehashed(home, [0, 2, 3, 4], 4)
    assert set(one_more[one_more != one_less]) == {1}
    assert set(one_less) == {0, 2, 3, 4}
    assert (rehashed(home, [0, 2, 3], 4)[one_less != 4] == one_less[one_less != 4]).all()
    with pytest.raises(ks.InputError, match="nodes is empty"):
        rehashed(home, [], 4)


def test_routing_scales_out_and_in():
    rows = ks.replay(
        zipf(6), ["mixed"], scaling=ks.replays.NodeCounts((4, 5, 5, 4, 4)), **{**ROUTING, "max_table_size": 300}
    ).rows
    assert [row["nodes"] for row in rows] == [4, 5, 5, 5, 4, 4]
    assert [row["draining"] for row in rows] == [0, 0, 0, 1, 0, 0]
    assert all(row["fallback"] == "" for row in rows)
    assert max(row["theta"] for row in rows) <= 0.1 + 1e-9
    cluster, w = Cluster.of(next(zipf())), next(zipf())
    cluster.scale(ks.replays.Scaling(add=1, drain=(0,)))
    assert set(cluster.workload(w).home.tolist()) == {
        1,
        2,
        3,
        4,
    }  # the hash knows the new node, and drops the draining one


# Contiguous intervals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", INTERVALS, ids=lambda planner: planner.method)
def test_intervals_against_a_step_by_step_recomputation(planner):
    stream = list(tasks())
    place, names, fresh = stream[0].current, [0, 1, 2, 3], 4
    rows = ks.replay(stream, [planner], forecast="last", scaling=ks.replays.NodeCounts(COUNTS, ahead=3)).rows
    for t, row in enumerate(rows):
        w = stream[t].replace(
            current=[names.index(name) for name in place] if t else place, nodes=len(names), draining=None
        )
        n, tau = COUNTS[t], 0.3
        if planner.method == "ssm":
            tau = max(tau, float(ks.IntervalMigration(w, n, 0).smallest_tau) * (1 + 1e-12))
            after = ks.solve(ks.IntervalMigration(w, n, tau), "ssm", seed=t).assignment
        elif planner.method == "oms":
            counts = COUNTS[t : t + 3]
            tau = max(tau, *(float(ks.IntervalMigration(w, m, 0).smallest_tau) * (1 + 1e-12) for m in counts))
            after = ks.solve(ks.MigrationSequence(w, counts, tau), "oms", seed=t).assignment[0]
        else:
            tau = max(tau, *(float(ks.IntervalMigration(w, m, 0).smallest_tau) * (1 + 1e-12) for m in CHANCES))
            posed = ks.MigrationPolicy(w, CHANCES, tau, 0.8, nodes_after=n)
            after = posed.decision(ks.solve(posed, "mtm", seed=t).assignment, n)
        assert row["state_moved"] == w.state[after != w.current].sum()
        assert row["nodes"] == n
        loads = np.bincount(after, stream[t + 1].last_load)
        assert row["theta"] == pytest.approx(loads.max() * n / loads.sum() - 1, rel=1e-9)
        assert row["fallback"] == ("tau" if tau > 0.3 else "")
        # Names: a new label is a new node; empty nodes go, the newest first, until n are left.
        while len(names) <= after.max():
            names, fresh = [*names, fresh], fresh + 1
        place = [names[i] for i in after]
        empty = [name for name in names if name not in place]
        for name in reversed(empty[len(empty) - max(0, len(names) - n) :]):
            names.remove(name)
        while len(names) < n:
            names, fresh = [*names, fresh], fresh + 1
    assert sum(row["state_moved"] for row in rows) > 0


def test_a_rule_scales_intervals_on_the_plan():
    stream = list(tasks())
    rule = ks.replays.TargetUtilisation(node_load=stream[0].last_load.sum() / 4 / 0.95)  # 95 % busy: too much
    rows = ks.replay(stream, INTERVALS[:1], scaling=rule).rows
    assert rows[0]["replanned"]
    assert {row["nodes"] for row in rows} == {6}  # ceil(4 * 0.95 / 0.7)
    assert max(row["theta"] for row in rows if row["fallback"] == "") <= 0.3


# MCLB ----------------------------------------------------------------------------------------------------------------


def test_mclb_plans_every_so_many_windows_on_all_of_them():
    stream = list(zipf(8, 20))
    rows = ks.replay(stream, ["uhlb"], problem="mclb", every=3, forecast="last").rows
    place = stream[0].current
    for t, row in enumerate(rows):
        if t % 3 == 2:
            seen = stream[t].replace(load=[w.last_load for w in stream[t - 2 : t + 1]], current=place)
            chosen = ks.solve(ks.MCLB(seen), "uhlb", seed=t).assignment
            assert row["state_moved"] == seen.state[chosen != place].sum()
            place = chosen
        else:
            assert (row["fallback"], row["migrations"]) == ("not due", 0)
            assert "regret" not in row
        assert row["imbalance"] == pytest.approx(np.bincount(place, stream[t + 1].last_load, 4).var())
    assert sum(row["migrations"] for row in rows) > 0


# Key splitting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["hash", "pkg", "potc", "d-choices", "shuffle"])
def test_partitioners_remember_from_window_to_window(scheme):
    stream = list(words())
    rows = ks.replay(stream, [scheme], **KEYS).rows
    whole = ks.Partitioner(scheme, 5, sources=2).feed(np.concatenate(stream))
    for t, (keys, sent) in enumerate(zip(stream, np.array_split(whole, 4), strict=True)):
        loads = np.bincount(sent, minlength=5)
        assert rows[t]["theta"] == pytest.approx(loads.max() / loads.mean() - 1)
        assert rows[t]["counters"] == len(set(zip(keys.tolist(), sent.tolist(), strict=True)))
        free = None if scheme in ("shuffle", "d-choices") else 2
        best = ks.solve(ks.KeySplitting(keys, workers=5, choices=free)).objective
        assert rows[t]["regret"] == pytest.approx((loads.max() - best) / loads.mean())
        assert rows[t]["regret"] >= 0 or scheme == "potc"


# All of them ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["routing", "intervals", "mclb", "keys"])
def test_resumed_ends_with_the_same_bytes(tmp_path, what):
    replayed(what, checkpoint=tmp_path / "whole")
    replayed(what, checkpoint=tmp_path / "parts", periods=2)
    (tmp_path / "parts" / store.RESULTS).unlink()
    replayed(what, checkpoint=tmp_path / "parts")
    assert (tmp_path / "whole" / store.RESULTS).read_bytes() == (tmp_path / "parts" / store.RESULTS).read_bytes()


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from test_replay_formulations import replayed
seen = []
def watch(now):
    seen.append(now.note)
    if len(seen) == 4:
        os._exit(9)
replayed({what!r}, checkpoint={folder!r}, watch=watch)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["routing", "intervals", "mclb", "keys"])
def test_killed_in_the_middle_of_a_period(tmp_path, request, what):
    code = KILLED.format(tests=str(request.path.parent), folder=str(tmp_path / "killed"), what=what)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert not (tmp_path / "killed" / store.RESULTS).exists()
    replayed(what, checkpoint=tmp_path / "killed")
    replayed(what, checkpoint=tmp_path / "whole")
    assert (tmp_path / "killed" / store.RESULTS).read_bytes() == (tmp_path / "whole" / store.RESULTS).read_bytes()


@pytest.mark.parametrize(
    ("problem", "method", "options"),
    [
        ("mixed-routing", "milp", {"theta_max": 0.2}),
        ("movement-within-limits", "milp", {"lower": 0, "upper": 5, "nodes_after": 2}),
        ("key-group-allocation", "milp", {"max_migrations": 1}),
        ("interval-migration", "ssm", {"tau": 0.2}),
        ("mclb", "branch-and-bound", {"max_state_moved": 1}),
    ],
)
def test_straight_back_moves_are_counted_in_every_formulation(problem, method, options):
    # The one that stands between two heavy ones goes where there is room, and comes back.
    w = ks.Workload(load=[4, 2, 2], state=[9, 1, 9], current=[0, 0, 1], nodes=2, home=[0, 0, 1])
    stream = [w, w.replace(load=[2, 2, 4]), w]
    rows = ks.replay(stream, [method], problem=problem, **options).rows
    assert [row["migrations"] for row in rows] == [1, 1, 1]
    assert [row["oscillations"] for row in rows] == [0, 1, 1]
    for memory, back in ((0, [0, 0, 0]), (1, [0, 1, 1])):  # it was left one period ago
        kept = ks.replay(stream, [method], problem=problem, memory=memory, **options).rows
        assert [row["oscillations"] for row in kept] == back


def test_movement_within_limits_decides_how_many_nodes_there_are():
    w = ks.Workload(load=[4, 4, 4, 4], state=[1] * 4, current=[0, 0, 1, 1], nodes=2)
    stream = [w, w.replace(load=[8, 8, 8, 8]), w]
    rows = ks.replay(stream, ["milp"], problem="movement-within-limits", lower=6, upper=10).rows
    assert [(row["nodes"], row["migrations"]) for row in rows] == [(2, 0), (4, 2), (2, 2)]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ks.replay(tasks(), ["ssm"], problem="interval-migration"), "needs tau"),
        (lambda: ks.replay(tasks(), ["ssm"], problem="interval-migration", tau=0.3, nodes_after=3), "comes from the replay"),
        (lambda: ks.replay(tasks(), INTERVALS[:1], scaling=ks.replays.NodeCounts(())), "at least one number of nodes"),
        (lambda: ks.replay(tasks(), INTERVALS[:1], scaling=ks.replays.NodeCounts((3, 0))), r"counts\[1\] = 0"),
        (lambda: ks.replay(words(), ["flow"], **KEYS), "a stream of keys is replayed by hash, shuffle"),
        (lambda: ks.replay(words(), ["pkg", INTERVALS[0]], **KEYS), "mix problems of keys and of workloads"),
        (lambda: ks.replay(words(), ["pkg"], forecast="last", **KEYS), "a stream of keys takes no forecast"),
        (lambda: ks.replay([[1, 2], []], ["pkg"], **KEYS), "window 1 holds no key"),
        (lambda: ks.replay(words(), [ks.replays.Planner("pkg", problem="key-splitting", settings={"speed": 1})]), "no setting like"),
    ],
)  # fmt: skip
def test_bad_requests_are_one_sentence(call, said):
    with pytest.raises(ks.InputError, match=said):
        call()

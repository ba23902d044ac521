"""The adaptation loop: every step of Algorithm 1, resuming after a kill, scaling, oscillations, the shell."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.replays import results as store
from keyshift.replays.adaptation import count_periods, read_periods
from keyshift.replays.planner import Cluster
from keyshift.replays.results import BLOCK, PackedRows


def job(p=24, n=4, seed=0, **options):
    """Two operators, one to one, nothing collocated."""
    rng = np.random.default_rng(seed)
    g = p // 2
    traffic = np.zeros((p, p))
    traffic[np.arange(g), g + np.arange(g)] = rng.integers(20, 40, g)
    current = np.concatenate([np.arange(g) % n, (np.arange(g) + 1) % n])
    load = rng.uniform(0.9, 1.1, p)
    return ks.Workload(
        load=load, state=np.ones(p), current=current, nodes=n, traffic=traffic, operator=np.repeat([0, 1], g), **options
    )


def stream(periods, start=None, seed=5):
    w = job() if start is None else start
    for t in range(periods):
        yield w.replace(load=w.last_load * np.random.default_rng([seed, t]).uniform(0.97, 1.03, w.key_groups))


LIMITS = {"max_load_distance": 30.0, "max_migrations": 4}


def test_collocation_rises_and_the_load_falls():
    model = ks.replays.LoadModel.for_share(job(), 0.5)
    result = ks.replay(stream(7), ["albic", "milp"], load_model=model, **LIMITS)
    frame = result.to_frame()
    assert len(frame) == 14
    for _, part in frame.groupby("method"):
        assert (part["migrations"] <= 4).all()
        assert part["collocation_factor"].iloc[-1] > part["collocation_factor"].iloc[0] + 0.1
        assert part["load_index"].iloc[-1] < 96
    by = frame.pivot(index="period", columns="method", values="collocation_factor")
    assert by["milp"].iloc[3] >= by["albic"].iloc[3]


def test_figures_are_those_right_after_the_plan():
    model = ks.replays.LoadModel(0.01, 0.02)
    first = next(iter(stream(1)))
    row = ks.replay(stream(1), ["milp"], load_model=model, **LIMITS).rows[0]
    plan = ks.solve(ks.CollocatedAllocation(model.measured(first), **LIMITS), seed=0).assignment
    loads = model.node_loads(first, plan)
    assert row["load_distance"] == pytest.approx(np.abs(loads - loads.mean()).max())
    assert row["load_distance_percent"] == pytest.approx(100 * np.abs(loads - loads.mean()).max() / loads.mean())
    assert row["load_index"] == pytest.approx(100 * loads.sum() / model.total_load(first, first.current))
    assert row["migrations"] == (plan != first.current).sum()
    assert row["fallback"] == ""


def test_an_integrated_plan_knows_what_it_saves():
    model = ks.replays.LoadModel.for_share(job(), 0.5)
    planner = ks.replays.Planner(
        "milp", label="integrated", options={**LIMITS, "max_load_distance": 12.0}, integrated=True
    )
    frame = ks.replay(stream(4), [planner], load_model=model).to_frame()
    met = frame[frame["fallback"] == ""]
    assert len(met) >= 3
    assert (met["load_distance_percent"] <= 12 + 1e-6).all()


def test_balance_comes_first_where_the_limit_cannot_be_met():
    crowded, limits = job(16).replace(current=np.zeros(16, dtype=int)), {**LIMITS, "max_migrations": 3}
    frame = ks.replay(stream(6, crowded), ["milp"], **limits).to_frame()
    assert frame["fallback"].tolist()[:3] == ["balance"] * 3
    assert frame["fallback"].iloc[-1] == ""
    assert frame["load_distance"].iloc[0] > frame["load_distance"].iloc[-1]
    stubborn = ks.replays.Planner("milp", options=limits, balance_first=False)
    assert set(ks.replay(stream(2, crowded), [stubborn]).to_frame()["fallback"]) == {"stay"}


def test_moves_straight_back_are_counted():
    cluster = Cluster.of(job())
    before = np.array(cluster.place)
    away = np.where(np.arange(24) < 3, (before + 1) % 4, before)
    assert cluster.apply(away, 0, memory=2) == 0
    assert cluster.apply(before, 1, memory=2) == 3
    assert cluster.apply(before, 2, memory=2) == 0  # staying is not a move
    assert cluster.apply(away, 5, memory=2) == 0  # long ago
    elsewhere = np.where(np.arange(24) < 3, (before + 2) % 4, before)
    assert cluster.apply(elsewhere, 6, memory=2) == 0  # not where they came from


def test_scaling_is_decided_on_the_plan_and_nodes_end_empty():
    w = job()
    rule = ks.replays.TargetUtilisation(node_load=2 * w.last_load.sum() / 4, target=0.8, low=0.6)
    frame = ks.replay(stream(7), ["albic"], scaling=rule, **{**LIMITS, "max_load_distance": 60.0}).to_frame()
    assert bool(frame["replanned"].iloc[0])
    assert frame["draining"].iloc[0] == 1
    assert frame["nodes"].iloc[-1] == 3
    assert frame["draining"].iloc[-1] == 0
    hot = ks.replays.TargetUtilisation(node_load=0.9 * w.last_load.sum() / 4)
    grown = ks.replay(stream(1), ["milp"], scaling=hot, **{**LIMITS, "max_load_distance": None}).to_frame()
    assert grown["nodes"].iloc[0] == 7  # ceil(4 / (0.7 * 0.9))


def test_target_utilisation_by_hand():
    w = job()
    seen = lambda loads: ks.replays.Planned(w, w.current, np.array(loads, dtype=float))  # noqa: E731
    rule = ks.replays.TargetUtilisation(10.0)
    assert not rule(seen([7, 7, 7, 7]))
    assert rule(seen([10, 10, 10, 10])) == ks.replays.Scaling(add=2)
    assert rule(seen([3, 1, 4, 2])) == ks.replays.Scaling(drain=(1, 3))
    assert not ks.replays.TargetUtilisation(10.0)(
        ks.replays.Planned(w.replace(draining=[True, False, False, False]), w.current, np.ones(4))
    )
    with pytest.raises(ks.InputError, match="rise"):
        ks.replays.TargetUtilisation(10.0, target=0.4)


# Checkpoints ------------------------------------------------------------------------------------------------------


def test_resumed_ends_with_the_same_bytes(tmp_path):
    arguments = {"load_model": ks.replays.LoadModel(0.01, 0.01), **LIMITS}
    methods = ["albic", ks.replays.Planner("cola", options={"max_load_distance": 30.0}), "flux"]
    ks.replay(stream(6), methods, checkpoint=tmp_path / "whole", **arguments)
    ks.replay(stream(6), methods, checkpoint=tmp_path / "parts", periods=3, **arguments)
    (tmp_path / "parts" / store.RESULTS).unlink()
    (tmp_path / "parts" / ".period-000003.json.tmp").write_text('{"half')  # what a kill leaves
    resumed = ks.replay(stream(6), methods, checkpoint=tmp_path / "parts", **arguments)
    assert len(resumed.rows) == 18
    assert len(resumed.seconds) == 9  # only what was left to do
    assert (tmp_path / "parts" / store.RESULTS).read_bytes() == (tmp_path / "whole" / store.RESULTS).read_bytes()
    assert len(pd.read_parquet(tmp_path / "whole" / store.RESULTS)) == 18


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from test_replay import LIMITS, stream
import keyshift as ks
seen = []
def watch(now):
    seen.append(now.note)
    if len(seen) == 5:
        os._exit(9)
ks.replay(stream(5), ["albic", "flux"], checkpoint={folder!r}, watch=watch, **LIMITS)
"""


def test_killed_in_the_middle_of_a_period(tmp_path, request):
    folder = tmp_path / "killed"
    code = KILLED.format(tests=str(request.path.parent), folder=str(folder))
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert not (folder / store.RESULTS).exists()
    assert (folder / "period-000001.json").exists()
    assert len(json.loads((folder / "period-000002.json").read_text())["rows"]) == 1  # the first of two methods
    ks.replay(stream(5), ["albic", "flux"], checkpoint=folder, **LIMITS)
    ks.replay(stream(5), ["albic", "flux"], checkpoint=tmp_path / "whole", **LIMITS)
    assert (folder / store.RESULTS).read_bytes() == (tmp_path / "whole" / store.RESULTS).read_bytes()


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    ks.replay(stream(2), ["flux"], checkpoint=tmp_path / "a", **LIMITS)
    with pytest.raises(ks.InputError, match="another seed"):
        ks.replay(stream(2), ["flux"], checkpoint=tmp_path / "a", seed=1, **LIMITS)
    with pytest.raises(ks.InputError, match="other statistics"):
        ks.replay(stream(2, seed=6), ["flux"], checkpoint=tmp_path / "a", **LIMITS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").write_text("mine")
    with pytest.raises(ks.InputError, match="left alone"):
        ks.replay(stream(1), ["flux"], checkpoint=tmp_path / "b", **LIMITS)
    (tmp_path / "a" / "period-000001.json").write_text("{")
    with pytest.raises(ks.InputError, match="is not JSON"):
        ks.replay(stream(2), ["flux"], checkpoint=tmp_path / "a", **LIMITS)
    with pytest.raises(ks.InputError, match="is a file"):
        ks.replay(stream(1), ["flux"], checkpoint=tmp_path / "b" / "letter.txt", **LIMITS)


def test_an_interrupted_period_does_not_count(tmp_path, monkeypatch):
    from keyshift.replays import loop

    real = loop.solve

    def stopped(problem, method, **arguments):
        solution = real(problem, method, **arguments)
        if arguments["seed"] == 1:
            object.__setattr__(solution, "termination", "interrupted")
        return solution

    monkeypatch.setattr(loop, "solve", stopped)
    result = ks.replay(stream(3), ["flux"], checkpoint=tmp_path / "c", **LIMITS)
    assert result.interrupted
    assert [row["period"] for row in result.rows] == [0]
    assert not (tmp_path / "c" / store.RESULTS).exists()


@pytest.mark.parametrize(
    ("methods", "options", "named"),
    [
        ([], {}, "at least one"),
        (["flux", "flux"], {}, "label"),
        (["flux"], {"problem": "chess"}, "chess"),
        (["nonsense"], {}, "nonsense"),
    ],
)
def test_bad_requests_are_named(methods, options, named):
    with pytest.raises(ks.InputError, match=named):
        ks.replay(stream(1), methods, **options)


def test_key_groups_may_not_change():
    with pytest.raises(ks.InputError, match="20 key groups"):
        ks.replay([job(24), job(20)], ["flux"], **LIMITS)


# From disk, and the shell -----------------------------------------------------------------------------------------


def test_periods_from_disk(tmp_path):
    w = job()
    ks.write_workload(w.replace(load=[w.last_load, 2 * w.last_load]), tmp_path / "one.json")
    assert [x.last_load[0] / w.last_load[0] for x in read_periods(tmp_path / "one.json")] == [1, 2]
    for name, factor in (("b", 3), ("a", 1)):
        (tmp_path / "many").mkdir(exist_ok=True)
        ks.write_workload(w.replace(load=factor * w.last_load), tmp_path / "many" / name)
    assert [x.last_load[0] / w.last_load[0] for x in read_periods(tmp_path / "many")] == [1, 3]
    assert (count_periods(tmp_path / "one.json"), count_periods(tmp_path / "many")) == (2, 2)
    (tmp_path / "empty").mkdir()
    for missing, why in (("empty", "neither"), ("nowhere", "exist")):
        with pytest.raises(ks.InputError, match=why):
            list(read_periods(tmp_path / missing))


def test_the_shell(tmp_path, capsys):
    w = job()
    ks.write_workload(w.replace(load=[w.last_load] * 3), tmp_path / "w")
    call = [
        "replay",
        str(tmp_path / "w"),
        "-m",
        "albic",
        "-m",
        "flux",
        "--max-migrations",
        "4",
        "--max-load-distance",
        "30",
    ]
    assert main([*call, "--remote-share", "0.5", "--out", str(tmp_path / "out")]) == 0
    assert "albic" in capsys.readouterr().out
    assert (tmp_path / "out" / "figures" / "load_index.png").stat().st_size > 5000
    assert main([*call, "--periods", "2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["rows"]) == 4
    assert main([*call, "--remote-share", "0.5", "--serialisation", "1"]) == 2
    assert main(["replay", str(tmp_path / "nowhere")]) == 2
    assert main([*call, "--node-load", str(w.last_load.sum()), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["draining"] > 0


def test_figures(tmp_path):
    result = ks.replay(stream(3), ["flux", "albic"], **LIMITS)
    assert [path.name for path in result.plot(tmp_path, ["migrations", "absent"])] == ["migrations.png"]
    figure = result.figure()
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 5
    assert figure.axes[0].get_ylabel().startswith("collocation factor")
    assert result.write(tmp_path / "rows.parquet").exists()


def test_mixed_routing_can_be_replayed():
    # The hash's nodes come with the statistics; a replay must not lose them.
    w = ks.Workload(load=[8, 1, 1, 1, 1], state=[1] * 5, current=[0, 0, 0, 0, 1], nodes=2, home=[0, 0, 0, 0, 1])
    shown = ks.replay([w, w], ["mixed"], problem="mixed-routing", theta_max=0.6, max_table_size=3)
    assert len(shown.rows) == 2


def test_homes_follow_the_nodes():
    w = ks.Workload(
        load=[1, 1, 1], state=[1] * 3, current=[0, 2, 2], nodes=3, draining=[False, True, False], home=[0, 2, 0]
    )
    cluster = Cluster.of(w)
    assert cluster.terminate_empty() == 1
    assert cluster.workload(w).home.tolist() == [0, 1, 0]  # node 2 has moved up
    assert set(cluster.workload(w.replace(home=[0, 1, 0])).home.tolist()) <= {0, 1}  # node 1 is gone: hashed anew


def test_rows_are_packed_and_read_as_they_were():
    made = [{"period": t, "method": "milp", "bound": None if t % 3 else t / 7} for t in range(2 * BLOCK + 5)]
    rows = PackedRows(made)
    assert (len(rows), rows[0], rows[BLOCK], rows[-1]) == (len(made), made[0], made[BLOCK], made[-1])
    assert list(rows) == made
    assert rows == tuple(made)
    assert rows != tuple(made[:-1])
    assert rows != (*made[:-1], {})
    assert rows[BLOCK - 2 : BLOCK + 2] == tuple(made[BLOCK - 2 : BLOCK + 2])
    with pytest.raises(IndexError):
        rows[len(made)]


def test_a_long_replay_grows_by_little_for_each_row():
    made = ({"period": t, **{f"figure {i}": t / (i + 1) for i in range(20)}} for t in range(6 * BLOCK))
    tracemalloc.start()
    try:
        rows = PackedRows(made)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 300 * len(rows)  # dictionaries take 1.6 kilobytes each

"""Plan on the forecast, apply, value on the window that realised: against NumPy, pandas and a step-by-step recomputation."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from draws import rest_slow

import keyshift as ks
from keyshift.cli import main
from keyshift.models import metrics
from keyshift.replays.forecasting import Past
from keyshift.replays.planner import bottleneck

LIMITS = {"problem": "key-group-allocation", "max_migrations": 3}


def windows(count=9, p=12, n=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    base = rng.uniform(1, 9, p)
    for t in range(count):
        load = base * (1 + 0.5 * np.sin(np.arange(p) + t)) * rng.uniform(0.8, 1.2, p)
        traffic = np.triu(rng.poisson(2, (p, p)), 1).astype(float)
        yield ks.Workload(
            load=load, state=rng.uniform(1, 4, p), current=np.arange(p) % n, nodes=n, traffic=traffic,
            resources={"memory": rng.uniform(0, 5, p)}, **options,
        )  # fmt: skip


def told(rule, seen, ahead=1):
    """What a forecast says after some windows."""
    past = Past(ks.replays.Forecast.read(rule))
    for w in seen:
        past.add(w)
    return past.expected(ahead)


def frame_of(seen, what=lambda w: w.last_load):
    return pd.DataFrame([what(w) for w in seen])


@pytest.mark.parametrize("seen", [1, 2, 3, 5, 9])
def test_forecasts_are_those_of_pandas(seen):
    stream = list(windows(seen))
    for what in (lambda w: w.last_load, lambda w: w.resources["memory"], lambda w: w.traffic.toarray().ravel()):
        past = frame_of(stream, what)

        def near(rule, expected, what=what):
            np.testing.assert_allclose(what(told(rule, stream)), expected.to_numpy(), rtol=1e-12)

        near("last", past.iloc[-1])
        near("mean", past.iloc[-4:].mean())
        near("mean:2", past.iloc[-2:].mean())
        near("ewma", past.ewm(alpha=0.3, adjust=False).mean().iloc[-1])
        near("ewma:0.7", past.ewm(alpha=0.7, adjust=False).mean().iloc[-1])
        same_hour = past.iloc[[t for t in range(seen) if t % 4 == seen % 4][-2:] or [-1]]
        near("seasonal:4:2", same_hour.mean())
        if past.shape[1] == 12:  # traffic is never a quantile
            near("quantile:0.75:3", past.iloc[-3:].quantile(0.75))
    assert told("mean", stream).state.tolist() == stream[-1].state.tolist()


def test_a_season_tells_more_than_one_window():
    stream = list(windows(9))
    for ahead in range(1, 10):
        at = max(t for t in range(9) if t % 4 == (8 + ahead) % 4)
        assert told("seasonal:4", stream, ahead).last_load.tolist() == stream[at].last_load.tolist()
    assert told("last", stream, 3).last_load.tolist() == stream[-1].last_load.tolist()


def test_functions_and_their_rows():
    stream = list(windows(6))
    trend = lambda load: np.maximum([2 * load[-1] - load[-2], 3 * load[-1] - 2 * load[-2]], 0)  # noqa: E731
    a, b = stream[-1].last_load, stream[-2].last_load
    np.testing.assert_allclose(told(trend, stream).last_load, np.maximum(2 * a - b, 0))
    np.testing.assert_allclose(told(trend, stream, 5).last_load, np.maximum(3 * a - 2 * b, 0))
    seen = []
    told(ks.replays.Forecast(lambda load: seen.append(load.shape) or load[-1], windows=3), stream)
    assert seen == [(3, 12)]


def test_memory_does_not_grow_with_the_stream():
    for rule, most in (("last", 1), ("mean:8", 8), ("ewma", 1), ("seasonal:5:2", 10), ("quantile:0.5:3", 3)):
        past = Past(ks.replays.Forecast.read(rule))
        for w in windows(30):
            past.add(w)
        assert len(past.windows) == most


def planned_and_valued(rule, stream, method="flux", limit=3):
    """The loop of an allocation, step by step, from nothing but `solve` and the metrics."""
    place, left, rows = stream[0].current, {}, []
    for t in range(len(stream) - 1):
        expected = told(rule, stream[: t + 1]).replace(current=place)
        realised = stream[t + 1].replace(current=place, state=stream[t].state)
        solve = lambda w: ks.solve(ks.KeyGroupAllocation(w, max_migrations=limit), method, seed=t).assignment  # noqa: B023, E731
        chosen, in_hindsight = solve(expected), solve(realised)
        moved = np.flatnonzero(chosen != place)
        back = sum(k in left and left[k] == (chosen[k], left[k][1]) and t - left[k][1] <= 5 for k in moved)
        left |= {k: (place[k], t) for k in moved}
        loads = np.bincount(chosen, realised.last_load, 3)
        rows.append(
            {
                "load_distance": metrics.load_distance(realised, chosen), "planned_load_distance": metrics.load_distance(expected, chosen),
                "knew_load_distance": metrics.load_distance(realised, in_hindsight), "theta": loads.max() / loads.mean() - 1,
                "regret": metrics.load_distance(realised, chosen) - metrics.load_distance(realised, in_hindsight),
                "remote_traffic": metrics.remote_traffic(realised, chosen), "state_moved": stream[t].state[moved].sum(),
                "migrations": moved.size, "oscillations": back,
            }
        )  # fmt: skip
        place = chosen
    return pd.DataFrame(rows)


RULES = ["quantile:0.9:3", "last", "mean:3", "ewma:0.5", "seasonal:4"]


@pytest.mark.parametrize(
    ("rule", "method"), [*((rule, "flux") for rule in RULES), *rest_slow(1, [(rule, "milp") for rule in RULES])]
)
def test_the_loop_against_a_step_by_step_recomputation(rule, method):
    stream = list(windows(8, seed=3))
    frame = ks.replay(stream, [method], forecast=rule, **LIMITS).to_frame()
    expected = planned_and_valued(rule, stream, method)
    assert frame["period"].tolist() == list(range(7))
    np.testing.assert_allclose(frame[expected.columns].to_numpy(float), expected.to_numpy(float), rtol=1e-9, atol=1e-9)
    assert expected["migrations"].sum() > 7


def test_last_valued_as_today_gives_todays_numbers():
    stream = list(windows(7))
    today = ks.replay(stream[:-1], ["flux", "milp"], **LIMITS).rows
    ahead = ks.replay(stream, ["flux", "milp"], forecast="last", **LIMITS).rows
    valued = ("load_distance", "load_distance_percent", "theta", "imbalance", "remote_traffic")
    for now, then in zip(today, ahead, strict=True):
        assert {name: then[f"planned_{name}"] for name in valued} == {name: now[name] for name in valued}
        for name in ("migrations", "state_moved", "oscillations", "objective", "bound", "nodes", "fallback"):
            assert then[name] == now[name]
    assert [row["load_distance"] for row in ahead] != [row["load_distance"] for row in today]


def test_nothing_is_regretted_where_windows_repeat():
    same = [next(windows(1))] * 4
    assert (ks.replay(same, ["milp"], forecast="last", **LIMITS).to_frame()["regret"] == 0).all()
    spared = ks.replay(same, ["flux"], forecast="last", regret=False, **LIMITS).to_frame()
    assert "regret" not in spared
    assert "knew_theta" not in spared


@pytest.mark.parametrize("forecast", ["last", "ewma", "seasonal:3", "mean:2"])
def test_resumed_with_a_forecast_ends_with_the_same_bytes(tmp_path, forecast):
    run = {"forecast": forecast, "min_gain": 0.01, **LIMITS}
    ks.replay(windows(7), ["flux", "potc"], checkpoint=tmp_path / "whole", **run)
    ks.replay(windows(7), ["flux", "potc"], checkpoint=tmp_path / "parts", periods=2, **run)
    resumed = ks.replay(windows(7), ["flux", "potc"], checkpoint=tmp_path / "parts", **run)
    assert len(resumed.seconds) == 8
    assert (tmp_path / "whole/results.parquet").read_bytes() == (tmp_path / "parts/results.parquet").read_bytes()
    with pytest.raises(ks.InputError, match="another forecast"):
        ks.replay(windows(7), ["flux", "potc"], checkpoint=tmp_path / "parts", **{**run, "forecast": "mean:3"})
    with pytest.raises(ks.InputError, match="another patience"):
        ks.replay(windows(7), ["flux", "potc"], checkpoint=tmp_path / "parts", **{**run, "min_gain": 1})
    other = [*list(windows(7))[:3], *windows(4, seed=9)]
    with pytest.raises(ks.InputError, match="other statistics than period 2"):
        ks.replay(other, ["flux", "potc"], checkpoint=tmp_path / "parts", **run)


# Anti-oscillation --------------------------------------------------------------------------------------------------


def test_a_plan_is_carried_out_only_if_it_is_worth_its_state():
    w = ks.Workload(load=[4, 2, 2], state=[9, 1, 3], current=[0, 0, 1], nodes=2)  # moving 1 or 2: distance 2 -> 0
    run = {"problem": "key-group-allocation", "max_migrations": 1, "forecast": "last"}
    held = lambda **more: ks.replay([w, w], ["milp"], **run, **more).rows[0]["fallback"] == "held"  # noqa: E731
    assert not held(min_gain=1.99)
    assert held(min_gain=2.0)  # no more than its price
    assert not held(min_gain=2.0, horizon=2)
    assert not held(hysteresis=1.0)
    assert held(hysteresis=1.01)
    row = ks.replay([w, w], ["milp"], **run, min_gain=3).rows[0]
    assert (row["migrations"], row["state_moved"], row["load_distance"], row["regret"]) == (0, 0, 2, 2)


def test_patience_ends_what_goes_back_and_forth():
    base = ks.Workload(load=[4, 2, 2], state=[1] * 3, current=[0, 0, 1], nodes=2)
    stream = [base.replace(load=[4, 2, 2] if t % 2 else [3, 2, 3]) for t in range(10)]
    run = {"problem": "key-group-allocation", "max_migrations": 1, "forecast": "last"}
    eager = ks.replay(stream, ["flux"], **run).to_frame()
    patient = ks.replay(stream, ["flux"], hysteresis=1.5, **run).to_frame()
    assert eager["oscillations"].sum() >= patient["oscillations"].sum() == 0
    assert patient["state_moved"].sum() == 0


def test_draining_and_broken_limits_do_not_wait():
    w = ks.Workload(load=[4, 2, 2], state=[9, 1, 3], current=[0, 0, 1], nodes=3, draining=[False, True, False])
    run = {"problem": "key-group-allocation", "forecast": "last", "min_gain": 1e9}
    assert ks.replay([w, w], ["milp"], **run).rows[0]["migrations"] > 0
    tight = w.replace(draining=[False] * 3, traffic=np.zeros((3, 3)))
    broken = {"forecast": "last", "min_gain": 1e9, "max_load_distance": 90}
    assert ks.replay([tight, tight], ["milp"], **broken).rows[0]["migrations"] > 0


# The resource that is balanced -------------------------------------------------------------------------------------


def test_the_bottleneck_is_what_the_cluster_uses_most_of():
    w = ks.Workload(
        load=[30, 20], state=[1, 1], current=[0, 0], nodes=2, resources={"memory": [60, 10], "network": [1, 80]}
    )
    percent = dict.fromkeys(("load", "memory", "network"), 100)
    assert bottleneck(w, percent) == "network"
    assert bottleneck(w, {"load": 100, "memory": 100}) == "memory"
    assert bottleneck(w, {**percent, "network": 400}) == "memory"
    assert bottleneck(w, {"load": 50, "memory": 70}) == "load"  # of equals the load
    run = {"problem": "key-group-allocation", "max_migrations": 1, "capacities": percent}
    row = ks.replay([w], ["milp"], **run).rows[0]
    assert (row["resource"], row["load_distance"]) == ("network", 39.5)
    # The bottleneck moves with the windows: memory is used up in the second.
    later = w.replace(resources={"memory": [300, 10], "network": [1, 80]})
    rows = ks.replay([w, later, later], ["milp"], forecast="last", **run).rows
    assert [row["resource"] for row in rows] == ["network", "memory"]
    named = ks.replay([w], ["milp"], problem="key-group-allocation", resource="memory", max_migrations=1).rows[0]
    assert (named["resource"], named["load_distance"]) == ("memory", 25)
    assert ks.replay([w], ["milp"], **LIMITS).rows[0]["resource"] == "load"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"forecast": "tomorrow"}, "choose one of last, mean"),
        ({"forecast": "mean:x"}, "numbers follow the colons"),
        ({"forecast": "last:3"}, "last takes no number"),
        ({"forecast": "mean:0"}, "windows = 0 must be at least 1"),
        ({"forecast": "ewma:0"}, "weight = 0 must be above 0"),
        ({"forecast": "quantile:2"}, "level = 2 must be at most 1"),
        ({"forecast": lambda load: load[-1, :3]}, "forecast has 3 entries, expected 12"),
        ({"forecast": lambda load: -load[-1]}, r"forecast\[0, 0\] = .* must not be negative"),
        ({"min_gain": -1}, "min_gain = -1 must be at least 0"),
        ({"horizon": 0}, "horizon = 0 must be at least 1"),
        ({"hysteresis": "much"}, "hysteresis = 'much' must be a finite number"),
        ({"every": 0}, "every = 0 must be at least 1"),
        ({"resource": "disk"}, "resource = 'disk': the workload has load, memory"),
        ({"capacities": {"memory": 1}}, "capacities must also give what a node carries of 'load'"),
        ({"capacities": {"load": 1, "disk": 1}}, "capacities names 'disk'"),
        ({"capacities": {"load": 0}}, "must be above 0"),
        ({"capacities": {"load": 1}, "resource_capacity": {"load": 99}}, "resource_capacity names 'load'"),
    ],
)
def test_bad_requests_are_one_sentence(options, said):
    with pytest.raises(ks.InputError, match=said):
        ks.replay(windows(3), ["flux"], **{**LIMITS, **options})


def test_the_shell(tmp_path, capsys):
    load = [w.last_load for w in windows(6)]
    ks.write_workload(next(windows(1)).replace(load=load), tmp_path / "w")
    line = ["replay", str(tmp_path / "w"), "-p", "key-group-allocation", "-m", "flux", "--max-migrations", "3"]
    assert main([*line, "--forecast", "mean:2", "--min-gain", "0.1", "--horizon", "2", "--hysteresis", "0.05"]) == 0
    shown = capsys.readouterr().out
    assert "planned %" in shown
    assert "regret" in shown
    assert main([*line, "--forecast", "last", "--no-regret", "--every", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["fallback"] for row in rows] == ["not due", "", "not due", "", "not due"]
    assert main([*line, "--capacity", "load=9", "--capacity", "memory=1", "--json"]) == 0
    assert {row["resource"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"memory"}
    assert main([*line, "--resource", "memory", "--json"]) == 0
    assert main([*line, "--node-counts", "3,4", "--json"]) == 0
    capsys.readouterr()
    for wrong, said in (
        (["--forecast", "tomorrow"], "choose one of"), (["--capacity", "load"], "resource=number"),
        (["--node-counts", "3,x"], "3,4,4"), (["--node-counts", "3", "--node-load", "9"], "give one of them"),
    ):  # fmt: skip
        assert main([*line, *wrong]) == 2
        assert said in capsys.readouterr().err

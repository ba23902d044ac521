"""Streaming: several micro-batches and late data against batch and against a plain recomputation; restarts."""

from __future__ import annotations

import json
from datetime import timedelta

import numpy as np
import pytest
from spark_frames import frame
from spark_oracle import recompute, spark_key_group
from streaming_log import (
    GROUPS,
    ORACLE,
    SCHEMA,
    START,
    TOPOLOGY,
    batches,
    same,
    split_late,
    stream_of,
    window_of,
    write_batch,
)

from keyshift.models import InputError
from keyshift.spark_stats import StatsStream, collect, output, streaming
from keyshift.spark_stats.statistics_files import read_manifest, read_statistics

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("count", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_batches_with_late_data_agree_with_batch_and_recomputation(spark, tmp_path, count):
    made = list(batches(count=count))
    kept, late = split_late(made)
    assert late >= 3  # else this test shows nothing
    source, out, seen = tmp_path / "in", tmp_path / "out", []
    for number, rows in enumerate(made[:2]):
        write_batch(source, number, rows)
    stream_of(spark, source, out, on_window=seen.append).start().awaitTermination()
    halfway = len(seen)
    for number, rows in enumerate(made[2:], start=2):  # the same directory, a new query: it goes on
        write_batch(source, number, rows)
    stream = stream_of(spark, source, out, on_window=seen.append)
    stream.start().awaitTermination()
    stream.finish()
    streamed = read_statistics(out, nodes=3)

    rows = [tuple(row.values()) for row in kept]
    batch = collect(frame(spark, rows, SCHEMA), TOPOLOGY, time="ts", window="1 hour", origin=START, key_groups=GROUPS)
    same(streamed, batch.workload(nodes=3))
    expected = recompute(kept, ORACLE, TOPOLOGY.edges, window_of, lambda key: spark_key_group(key, GROUPS))
    assert read_manifest(out)["rejected"] == {**expected.rejected, "late": late}
    total = expected.load.groupby("window")["load"].sum()
    np.testing.assert_array_equal(streamed.load.sum(axis=1), total.to_numpy())
    assert 0 < halfway < len(seen) == streamed.windows
    np.testing.assert_array_equal(np.vstack([w.load for w in seen]), streamed.load)
    same(seen[-1], read_statistics(out, nodes=3, last=1))


def test_a_batch_handed_over_twice_counts_once(spark, tmp_path):
    rows = next(batches())
    stream = stream_of(spark, tmp_path, tmp_path / "out")
    batch = frame(spark, [tuple(row.values()) for row in rows], SCHEMA)
    stream.batch(batch, 0)
    stream.batch(batch, 0)
    stream.finish()
    arrived = sum(window_of(row) is not None for row in rows)
    kept = sum(row["ts"] is not None and row["key"] is not None for row in rows)
    load = read_statistics(tmp_path / "out", nodes=2)
    assert load.traffic.sum() <= kept <= arrived
    assert read_manifest(tmp_path / "out")["rejected"].get("no time", 0) == len(rows) - arrived


def test_small_batches_of_many_windows_leave_few_folders_and_a_small_manifest(spark, tmp_path, monkeypatch):
    """Six batches of an hour and a half each: what waits is put together, and runs move to files of their own."""
    monkeypatch.setattr(streaming, "TOGETHER", 1)
    monkeypatch.setattr(output, "RUNS", 1)
    monkeypatch.setattr(output, "PARTS", 2)
    made = [row for rows in batches(count=2, size=20) for row in rows if row["ts"] is not None]
    made.sort(key=lambda row: row["ts"])
    stream = stream_of(spark, tmp_path, tmp_path / "out", watermark="2 hours")
    for number, at in enumerate(range(0, len(made), 9)):
        rows = [tuple(row.values()) for row in made[at : at + 9]]
        stream.batch(frame(spark, rows, SCHEMA), number)
        manifest = json.loads((tmp_path / "out" / "statistics.json").read_text())
        assert len(manifest["runs"]) <= 1
        assert len(manifest["stream"]["pending"]) <= 1
        assert {part["file"] for part in manifest.get("older", [])} == {
            f.name for f in (tmp_path / "out").glob("runs-*")
        }
    stream.finish()
    everything = [tuple(row.values()) for row in made]
    batch = collect(
        frame(spark, everything, SCHEMA), TOPOLOGY, time="ts", window="1 hour", origin=START, key_groups=GROUPS
    )
    same(read_statistics(tmp_path / "out", nodes=3), batch.workload(nodes=3))
    assert read_manifest(tmp_path / "out")["rejected"] == batch.rejected_counts()
    batch.write(tmp_path / "out")  # all windows once more: the older runs go
    same(read_statistics(tmp_path / "out", nodes=3), batch.workload(nodes=3))
    assert len(read_manifest(tmp_path / "out")["runs"]) == 1


def test_one_tuple_of_the_far_future_closes_nothing(spark, tmp_path):
    stream = stream_of(spark, tmp_path, tmp_path / "out", watermark="0 seconds", jump="1 day")

    def send(number, *hours):
        stream.batch(frame(spark, [(START + timedelta(hours=h), "a", "u", 1.0) for h in hours], SCHEMA), number)
        return len(read_manifest(tmp_path / "out")["runs"])

    assert send(0, 0, 0.2, 0.4, 9000) == 0
    assert send(1, 0.5, 9000) == 0
    assert send(2, 9000) == 0
    assert send(3, 1.2) == 1  # the first hour is over
    assert send(4, 80, 80.1) == 1  # three days without a tuple: beyond the jump at first,
    assert send(5, 80.2) == 2  # and taken for the time once there is nothing else
    stream.finish()
    manifest = read_manifest(tmp_path / "out")
    assert sorted(w for run in manifest["runs"].values() for w in run["windows"]) == [0, 1, 80, 9000]
    assert manifest["rejected"] == {}


def test_a_directory_of_other_statistics_is_refused(spark, tmp_path):
    stream = stream_of(spark, tmp_path, tmp_path / "out")
    stream.batch(frame(spark, [], SCHEMA), 0)
    with pytest.raises(InputError, match="holds statistics of another key_groups: 4, not 8"):
        StatsStream(
            spark.readStream.schema(SCHEMA).json(str(tmp_path)), TOPOLOGY, tmp_path / "out",
            time="ts", window="1 hour", origin=START, key_groups=8,
        )  # fmt: skip
    with pytest.raises(InputError, match="needs the number of nodes"):
        stream_of(spark, tmp_path, tmp_path / "out", nodes=None, on_window=print)

"""Streaming: several micro-batches and late data against batch and against a plain recomputation; restarts."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from spark_oracle import OracleOperator, recompute, spark_key_group

from keyshift.models import InputError
from keyshift.models.files.statistics import read_manifest, read_statistics
from keyshift.spark_stats import Operator, StatsStream, Topology, collect

pytestmark = pytest.mark.spark

START = datetime(2015, 9, 11, tzinfo=UTC)
SCHEMA = "ts timestamp, key string, route string, cost double"
TOPOLOGY = Topology(
    [Operator("a", key="key", cost="cost"), Operator("b", key="route", state="cost * 0.1", windows=3)], [("a", "b")]
)
ORACLE = [
    OracleOperator("a", lambda r: r["key"], cost=lambda r: r["cost"]),
    OracleOperator("b", lambda r: r["route"], state=lambda r: r["cost"] * 0.1, windows=3),
]
GROUPS = 4
DELAY = timedelta(minutes=30)


def batches(seed=5, count=4, size=25):
    """Micro-batches whose times drift forward; some rows come much too late, some have no key or no time."""
    rng = np.random.default_rng(seed)
    for b in range(count):
        yield [
            {
                "ts": None
                if rng.random() < 0.05
                else START + timedelta(minutes=int(max(0, 60 * b + rng.integers(-150, 60)))),
                "key": None if rng.random() < 0.1 else "abcdef"[rng.integers(6)],
                "route": "uvwxyz"[rng.integers(6)],
                "cost": float(rng.integers(0, 9)) / 3,
            }
            for _ in range(size)
        ]


def window_of(row):
    return None if row["ts"] is None else int((row["ts"] - START) // timedelta(hours=1))


def split_late(all_batches):
    """What the watermark lets pass, and how many rows come too late."""
    kept, late, mark = [], 0, None
    for rows in all_batches:
        for row in rows:
            w = window_of(row)
            if mark is not None and w is not None and START + (w + 1) * timedelta(hours=1) <= mark:
                late += 1
            else:
                kept.append(row)
        latest = max((row["ts"] for row in rows if row["ts"] is not None), default=None)
        if latest is not None:
            mark = latest - DELAY if mark is None else max(mark, latest - DELAY)
    return kept, late


def write_batch(folder, number, rows):
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({**row, "ts": None if row["ts"] is None else row["ts"].isoformat()}) for row in rows]
    file = folder / f"{number:03}.json"
    file.write_text("\n".join(lines))
    os.utime(file, (1_000_000_000 + number,) * 2)  # Spark reads files in the order of their times


def stream_of(spark, folder, out, **options):
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return StatsStream(
        events,
        TOPOLOGY,
        out,
        time="ts",
        window="1 hour",
        origin=START,
        key_groups=GROUPS,
        watermark=DELAY,
        **{"nodes": 3, **options},
    )


def same(a, b):
    np.testing.assert_array_equal(a.load, b.load)
    np.testing.assert_array_equal(a.state, b.state)
    assert (a.traffic != b.traffic).nnz == 0


def test_batches_with_late_data_agree_with_batch_and_recomputation(spark, tmp_path):
    made = list(batches())
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
    batch = collect(
        spark.createDataFrame(rows, SCHEMA), TOPOLOGY, time="ts", window="1 hour", origin=START, key_groups=GROUPS
    )
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
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    stream.batch(frame, 0)
    stream.batch(frame, 0)
    stream.finish()
    arrived = sum(window_of(row) is not None for row in rows)
    kept = sum(row["ts"] is not None and row["key"] is not None for row in rows)
    load = read_statistics(tmp_path / "out", nodes=2)
    assert load.traffic.sum() <= kept <= arrived
    assert read_manifest(tmp_path / "out")["rejected"].get("no time", 0) == len(rows) - arrived


def test_a_directory_of_other_statistics_is_refused(spark, tmp_path):
    stream = stream_of(spark, tmp_path, tmp_path / "out")
    stream.batch(spark.createDataFrame([], SCHEMA), 0)
    with pytest.raises(InputError, match="holds statistics of another key_groups: 4, not 8"):
        StatsStream(
            spark.readStream.schema(SCHEMA).json(str(tmp_path)), TOPOLOGY, tmp_path / "out",
            time="ts", window="1 hour", origin=START, key_groups=8,
        )  # fmt: skip
    with pytest.raises(InputError, match="say how many nodes"):
        stream_of(spark, tmp_path, tmp_path / "out", nodes=None, on_window=print)

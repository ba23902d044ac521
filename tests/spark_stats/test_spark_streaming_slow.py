"""Streaming on random logs and on real ones: micro-batches, batch and a plain recomputation agree exactly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import streaming_log
from brought import environment
from data_folder import data_folder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
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

from keyshift.spark_stats import Operator, StatsStream, Topology, collect
from keyshift.spark_stats.statistics_files import read_manifest, read_statistics

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), count=st.integers(2, 5), size=st.integers(1, 40))
def test_random_logs(spark, tmp_path_factory, seed, count, size):
    made = list(batches(seed, count, size))
    kept, late = split_late(made)
    expected = recompute(kept, ORACLE, TOPOLOGY.edges, window_of, lambda key: spark_key_group(key, GROUPS))
    if not len(expected.load):
        return  # no row at all that a statistic could count
    folder = tmp_path_factory.mktemp("stream")
    for number, rows in enumerate(made):
        write_batch(folder / "in", number, rows)
    stream = stream_of(spark, folder / "in", folder / "out")
    stream.start().awaitTermination()
    stream.finish()
    streamed = read_statistics(folder / "out", nodes=3)
    rows = [tuple(row.values()) for row in kept]
    batch = collect(frame(spark, rows, SCHEMA), TOPOLOGY, time="ts", window="1 hour", origin=START, key_groups=GROUPS)
    same(streamed, batch.workload(nodes=3))
    assert read_manifest(folder / "out")["rejected"] == expected.rejected | ({"late": late} if late else {})
    total = expected.load.groupby("window")["load"].sum()
    np.testing.assert_array_equal(streamed.load.sum(axis=1)[streamed.load.sum(axis=1) > 0], total[total > 0].to_numpy())


def stream_equals_batch(spark, folder, frame, topology, window, origin, parts=4):
    """Write a log in parts, in the order of its times, stream them, and compare with one batch over all."""
    frame = frame.sort_values("ts", kind="stable")
    (folder / "in").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        file = folder / "in" / f"{number:03}.parquet"
        frame.iloc[rows].to_parquet(file, index=False, coerce_timestamps="us")
        os.utime(file, (1_000_000_000 + number,) * 2)
    whole = spark.read.parquet(str(folder / "in"))
    setting = {"time": "ts", "window": window, "origin": origin, "key_groups": 20}
    events = spark.readStream.schema(whole.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    stream = StatsStream(events, topology, folder / "out", watermark="1 hour", **setting)
    stream.start().awaitTermination()
    stream.finish()
    streamed = read_statistics(folder / "out", nodes=5)
    with collect(whole, topology, **setting) as batch:
        same(streamed, batch.workload(nodes=5))
        assert read_manifest(folder / "out")["rejected"] == batch.rejected_counts()
    return streamed


def test_the_real_flights(spark, tmp_path):
    from keyshift.generators.real import flights

    topology = Topology(
        [Operator("extract", key="tailnum"), Operator("sum", key="tailnum", filter="arr_delay IS NOT NULL", windows=3)],
        [("extract", "sum")],
    )
    log = flights()
    w = stream_equals_batch(spark, tmp_path, log, topology, "1 week", "2013-01-01")
    known = log.dropna(subset="tailnum")
    assert w.load[:, :20].sum() == len(known)
    assert w.load[:, 20:].sum() == known["arr_delay"].notna().sum()


@pytest.mark.skipif(data_folder() is None, reason="the folder of test data is not there (KEYSHIFT_TEST_DATA)")
def test_the_wikipedia_edits(spark, tmp_path):
    edits = pd.read_json(data_folder() / "wikiticker-2015-09-12-sampled.json.gz", lines=True)
    log = pd.DataFrame({"ts": pd.to_datetime(edits["time"], utc=True), "page": edits["page"], "user": edits["user"]})
    topology = Topology([Operator("page", key="page"), Operator("user", key="user", windows=2)], [("page", "user")])
    w = stream_equals_batch(spark, tmp_path, log, topology, "1 hour", "2015-09-12")
    assert w.load[:, :20].sum() == len(log)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [100])
def test_kills_at_any_moment_of_a_stream_lose_nothing_and_count_nothing_twice(tmp_path, kills):
    for number, rows in enumerate(batches()):
        write_batch(tmp_path / "in", number, rows)

    def started(out):
        line = [sys.executable, streaming_log.__file__, str(tmp_path / "in"), str(tmp_path / out)]
        return subprocess.Popen(line, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True)

    began, rng = time.monotonic(), random.Random(0)
    assert started("whole").wait() == 0
    whole, hit, places = time.monotonic() - began, 0, 0
    expected, rejected = (f(tmp_path / "whole") for f in (read_statistics, read_manifest))
    while hit < kills:
        places += 1
        while True:
            job = started(f"killed-{places}")
            try:
                code = job.wait(rng.uniform(0.4, 1.1) * whole if hit < kills else None)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)  # Java, too
                job.wait()
                hit += 1
            else:
                assert code == 0
                break
        same(read_statistics(tmp_path / f"killed-{places}"), expected)
        found = read_manifest(tmp_path / f"killed-{places}")
        assert found["rejected"] == rejected["rejected"]
        assert found["stream"]["pending"] == {}
    print(f"{hit} kills of {places} streams")

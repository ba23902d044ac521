"""How much each verb reads, and how evenly its stages are spread: by what Spark's own store says of them."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from spark_stages import stages_of

from keyshift.spark_stats import Operator, StatsStream, Topology, collect, collect_keys, estimate, read_log
from keyshift.spark_stats.statistics_files import read_manifest

pytestmark = pytest.mark.spark

ROWS = 12_000
TOPOLOGY = Topology(
    [Operator("user", key="u", cost="s", state="s", windows=2), Operator("item", key="i", bytes="s")],
    [("user", "item")],
)
VERBS = {
    "workload": lambda keys: keys.workload(4),
    "workload with traffic": lambda keys: keys.workload(4, to=["item"]),
    "key splitting": lambda keys: keys.key_splitting(4),
    "mixed routing": lambda keys: keys.mixed_routing(4, 0.2, degree=4, movable=900),
    "heaviest pairs": lambda keys: keys.heavy_traffic(capacity=100),
    "top": lambda keys: keys.top(10),
    "key placement": lambda keys: keys.key_placement(4),
    "distinct": lambda keys: keys.distinct(),
    "traffic of keys": lambda keys: keys.traffic().count(),
}


@contextmanager
def sixteen_partitions(spark):
    settings = {"spark.sql.shuffle.partitions": "16", "spark.sql.adaptive.enabled": "true",
                "spark.sql.adaptive.coalescePartitions.enabled": "false"}  # fmt: skip
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def log_of(spark, folder):
    rng = np.random.default_rng(0)
    times = pd.to_datetime(1.7e9 + np.arange(ROWS) * 4 * 3600 / ROWS, unit="s").astype("datetime64[us]")
    user, item, size = (rng.integers(1, most, ROWS) for most in (3000, 900, 9))
    pd.DataFrame({"ts": times, "u": user, "i": item, "s": size}).to_parquet(folder / "log.parquet")
    return read_log(spark, str(folder / "log.parquet"))


def check(stages):
    assert stages.scanned == ROWS
    assert stages.skew <= 1.5
    assert not stages.alone


@pytest.mark.parametrize("window", [None, pytest.param("1 hour", marks=pytest.mark.slow)])
def test_statistics_read_a_log_once_and_spread_over_all_tasks(spark, tmp_path, window):
    with sixteen_partitions(spark):
        options = {"time": "ts", "window": window, "key_groups": 300}
        with collect(log_of(spark, tmp_path), TOPOLOGY, **options) as stats:
            with stages_of(spark) as stages:
                stats.workload(3)
                assert len(list(stats.workloads(3))) == (1 if window is None else 5)
                if window is not None:
                    stats.transitions(0.8, most=4)
                for table in (stats.load, stats.state, stats.traffic, stats.arrivals, stats.rejected_by_operator):
                    table.count()
                stats.write(tmp_path / "out", nodes=3)
            check(stages)
            with stages_of(spark) as stages:  # single keys of two operators: once more, for both
                stats.write(tmp_path / "keys", nodes=3, keys=["user", "item"])
            check(stages)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, "1 hour"])
@pytest.mark.parametrize("verb", VERBS)
def test_each_question_of_single_keys_reads_a_log_once(spark, tmp_path, window, verb):
    with sixteen_partitions(spark), stages_of(spark) as stages:
        log = log_of(spark, tmp_path)
        with collect_keys(log, TOPOLOGY, "user", time="ts", window=window, key_groups=300) as keys:
            VERBS[verb](keys)
    check(stages)


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_an_estimate_reads_a_log_once_and_spreads_over_all_tasks(spark, tmp_path, share):
    with sixteen_partitions(spark), stages_of(spark) as stages:
        found = estimate(log_of(spark, tmp_path), TOPOLOGY, share, time="ts", key_groups=300)
    assert abs(found.loads["tuples"].sum() - 2 * ROWS) < ROWS / 10
    check(stages)


@pytest.mark.slow
def test_a_batch_of_a_stream_reads_its_rows_once_and_spreads_over_all_tasks(spark, tmp_path):
    (tmp_path / "in").mkdir()
    log = log_of(spark, tmp_path / "in")
    events = spark.readStream.schema(log.schema).parquet(str(tmp_path / "in"))
    with sixteen_partitions(spark):
        stream = StatsStream(events, TOPOLOGY, tmp_path / "out", time="ts", window="1 hour", key_groups=300)
        with stages_of(spark, "ts") as stages:
            stream.start().awaitTermination()
        check(stages)
        assert stages.fill
        with stages_of(spark, "ts") as stages:
            stream.finish()
        assert stages.scanned == 0  # what waits is read, not the log
        assert stages.skew <= 1.5
    arrived = (run["checks"]["arrivals"] for run in read_manifest(tmp_path / "out")["runs"].values())
    assert sum(sums["tuples"] for of_run in arrived for sums in of_run.values()) == ROWS

"""Batch statistics against a plain recomputation."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from spark_frames import frame
from spark_oracle import OracleOperator, recompute, spark_key_group, xxh64

import keyshift as ks
from keyshift import read_workload
from keyshift.models import InputError
from keyshift.spark_stats import Operator, Topology, collect, read_log

pytestmark = pytest.mark.spark

START = datetime(2015, 9, 11, tzinfo=UTC)
SCHEMA = "ts timestamp, key string, route string, cost double, size bigint"
TOPOLOGY = Topology(
    operators=[
        Operator("extract", key="key"),
        Operator("sum", key="key", filter="cost is null or cost <> 7", cost="cost", state="size", windows=3),
        Operator("route", key="route", state="size * 0.3", windows=2),
        Operator("alone", key="size", cost="2"),
    ],
    edges=[("extract", "sum"), ("extract", "route")],
)
ORACLE = [
    OracleOperator("extract", lambda r: r["key"]),
    OracleOperator(
        "sum",
        lambda r: r["key"],
        filter=lambda r: r["cost"] is None or r["cost"] != 7,
        cost=lambda r: r["cost"],
        state=lambda r: r["size"],
        windows=3,
    ),
    OracleOperator(
        "route",
        lambda r: r["route"],
        state=lambda r: None if r["size"] is None else float(r["size"] * 3) / 10,
        windows=2,
    ),
    OracleOperator("alone", lambda r: r["size"], cost=lambda r: 2),
]
GROUPS = 5
COLUMNS = ("ts", "key", "route", "cost", "size")

rows = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.none() | st.integers(0, 20 * 60).map(lambda minutes: START + timedelta(minutes=minutes)),
            "key": st.none() | st.sampled_from(["a", "b", "cé", "d" * 40, "e", "f"]),
            "route": st.none() | st.text(max_size=3).filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t)),
            "cost": st.none() | st.sampled_from([0.0, 0.1, 1 / 3, 7.0, 1e9, -1.0, math.nan, math.inf, 1e-20]),
            "size": st.none() | st.integers(-1, 100),
        }
    ),
    max_size=80,
)


def window_of(row):
    return None if row["ts"] is None else int((row["ts"] - START) // timedelta(hours=1))


def as_pandas(table, windows="window_start"):
    frame = table.toPandas()
    frame["window"] = (pd.to_datetime(frame.pop(windows), utc=True) - START) // pd.Timedelta(hours=1)
    return frame


def assert_same(stats, expected):
    for name in ("load", "state", "traffic"):
        want = getattr(expected, name)
        keys = [c for c in want.columns if c not in ("tuples", "load", "state")]
        got = as_pandas(getattr(stats, name))[list(want.columns)].sort_values(keys, ignore_index=True)
        pd.testing.assert_frame_equal(got, want, check_dtype=False, check_exact=True, obj=name)
    assert {r.kind: r.rows for r in stats.rejected.collect()} == expected.rejected
    arrivals = as_pandas(stats.arrivals)
    assert dict(zip(arrivals["window"], arrivals["tuples"], strict=True)) == expected.arrivals


@pytest.mark.slow
@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=rows)
def test_agrees_with_the_recomputation_on_random_logs(spark, log):
    events = frame(spark, [tuple(row[c] for c in COLUMNS) for row in log], SCHEMA)
    with collect(events, TOPOLOGY, time="ts", window="1 hour", origin=START, key_groups=GROUPS) as stats:
        expected = recompute(log, ORACLE, TOPOLOGY.edges, window_of, lambda key: spark_key_group(key, GROUPS))
        assert_same(stats, expected)


def test_workload_by_hand(spark):
    """Four tuples, one key group: 3 in hour 0, none in hour 1, 1 in hour 2; the second operator keeps two hours."""
    log = [(START + timedelta(minutes=m), "a", None, c, 10) for m, c in ((0, 1.0), (1, 2.0), (59, 7.0), (120, 4.0))]
    topology = Topology(
        [
            Operator("first", key="key"),
            Operator("second", key="key", filter="cost < 5", cost="cost", state="size", windows=3, bytes="8"),
        ],
        [("first", "second")],
    )
    stats = collect(frame(spark, log, SCHEMA), topology, time="ts", window="1 hour", key_groups=1)
    workload = stats.workload(nodes=2)
    np.testing.assert_array_equal(workload.load, [[3, 3], [0, 0], [1, 4]])
    np.testing.assert_array_equal(workload.state, [1, 30])
    np.testing.assert_array_equal(workload.traffic.toarray(), [[0, 1], [0, 0]])
    np.testing.assert_array_equal(workload.operator, [0, 1])
    assert workload.keys == ("first/0", "second/0")
    assert stats.workload(nodes=2, last=1).windows == 1
    with pytest.raises(InputError, match="max_rows = 5 numbers"):
        stats.workload(nodes=2, max_rows=5)
    with pytest.raises(InputError, match="'first' has no `bytes`"):
        stats.workload(nodes=2, traffic="bytes")
    assert [stats.load.count(), stats.traffic.count()] == [4, 2]
    first = stats.between(stats.seen[0], stats.seen[0])  # also where the tables of all windows have been read
    assert [first.load.count(), first.traffic.count(), first.seen] == [2, 1, stats.seen[:1]]


def test_index_and_placement(spark):
    log = frame(spark, [(START, k, None, 1.0, 1) for k in "abcdefgh"], SCHEMA)
    topology = Topology([Operator("one", key="key"), Operator("two", key="key")], [("one", "two")])
    workload = collect(log, topology, key_groups=6).workload(nodes=4)
    np.testing.assert_array_equal(workload.current, [0, 0, 1, 2, 2, 3] * 2)
    np.testing.assert_array_equal(workload.home, workload.current)
    groups = [spark_key_group(k, 6) for k in "abcdefgh"]
    np.testing.assert_array_equal(workload.last_load, np.tile(np.bincount(groups, minlength=6), 2))
    dense = workload.traffic.toarray()
    np.testing.assert_array_equal(np.diag(dense[:6, 6:]), np.bincount(groups, minlength=6))
    assert dense.sum() == 8


LOOP = Topology(
    [
        Operator("generate", key="tweet", filter="kind = 'tweet'"),
        Operator("detect", key="pattern", state="1", bytes="size"),
    ],
    [("generate", "detect"), ("detect", "detect", "sender"), ("detect", "generate", "sender")],
)
"""Patterns are generated and counted; frequent ones come back to the detector, under another key, and to the generator."""


def test_operators_in_a_loop_against_a_recount(spark, tmp_path):
    rng = np.random.default_rng(3)
    log = [("tweet", f"t{rng.integers(9)}", f"p{rng.integers(7)}", None if rng.random() < 0.8 else f"p{rng.integers(7)}", int(rng.integers(1, 4)))
           for _ in range(200)]  # fmt: skip
    log += [("back", None, f"p{rng.integers(7)}", f"p{rng.integers(7)}", int(rng.integers(1, 4))) for _ in range(100)]
    events = frame(spark, log, "kind string, tweet string, pattern string, sender string, size bigint")
    place = {key: spark_key_group(key, GROUPS) for row in log for key in row[1:4] if key}
    load, tuples, sizes = np.zeros(2 * GROUPS), *np.zeros((2, 2 * GROUPS, 2 * GROUPS))
    for kind, tweet, pattern, sender, size in log:
        seen = [(GROUPS + place[sender], GROUPS + place[pattern])] if sender else []
        load[GROUPS + place[pattern]] += 1
        if kind == "tweet":
            load[place[tweet]] += 1
            seen += [(place[tweet], GROUPS + place[pattern])] + (
                [(GROUPS + place[sender], place[tweet])] if sender else []
            )
        for pair in seen:
            tuples[pair] += 1
            sizes[pair] += size * (pair[0] >= GROUPS)
    with collect(events, LOOP, key_groups=GROUPS) as stats:
        stats.write(tmp_path / "stats", nodes=2)
        found = read_workload(tmp_path / "stats")
        np.testing.assert_array_equal(found.last_load, load)
        np.testing.assert_array_equal(found.traffic.toarray(), tuples)
        detect = stats.traffic.where("src_operator = 'detect'").toPandas()
        assert detect["bytes"].sum() == sizes.sum()
        own = stats.keys("detect").workload(nodes=2, to=["detect"])
    assert own.keys == tuple(f"detect/p{i}" for i in range(7))
    pairs = [(int(row[3][1:]), int(row[2][1:])) for row in log if row[3]]
    np.testing.assert_array_equal(
        own.traffic.toarray(), np.histogram2d(*zip(*pairs, strict=True), bins=[range(8)] * 2)[0]
    )
    ks.check(ks.CollocatedAllocation(found), found.current)


def test_a_sender_that_would_be_hashed_otherwise_is_refused(spark):
    events = frame(spark, [("a", 1)], "pattern string, sender int")
    with pytest.raises(InputError, match=r"edge detect -> detect: the sender's key = 'sender' is of type int.*cast it"):
        collect(events, Topology([Operator("detect", key="pattern")], [("detect", "detect", "sender")]))


def test_a_size_that_cannot_be_used_is_counted_on_the_way_back_too(spark):
    log = [("tweet", "t", "p", None, 1), ("back", None, "p", "p", None), ("back", None, "p", "p", 3)]
    events = frame(spark, log, "kind string, tweet string, pattern string, sender string, size bigint")
    with collect(events, LOOP, key_groups=1) as stats:
        assert stats.rejected_counts() == {"bytes not usable": 1}
        assert stats.workload(nodes=1, traffic="tuples").traffic.toarray().tolist() == [[0, 1], [0, 1]]


def test_xxh64_oracle_against_published_values(spark):
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"abc") == 0x44BC2CF5AD770999
    long = "the same text, forty-odd bytes long, then some"
    row = spark.sql(f"select xxhash64('{long}') as text, xxhash64(7L) as number").collect()[0]
    assert row["text"] % 2**64 == xxh64(long.encode(), 42)
    assert row["number"] % 2**64 == xxh64((7).to_bytes(8, "little"), 42)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": "nothing"}, "operator 'x': key = 'nothing': the log has no column 'nothing'; its columns are ts, key"),
        ({"key": "key +"}, "operator 'x': key = 'key [+]' cannot be read"),
        ({"key": "key", "filter": "size"}, "filter = 'size' is of type bigint, expected boolean"),
        ({"key": "key", "cost": "key"}, "cost = 'key' is of type string, not a number"),
    ],
)
def test_refuses_expressions_before_any_job(spark, change, message):
    events = frame(spark, [], SCHEMA)
    with pytest.raises(InputError, match=message):
        collect(events, Topology([Operator(**{"name": "x", **change})]))


def test_refuses_wrong_arguments(spark):
    events, topology = frame(spark, [], SCHEMA), Topology([Operator("x", key="key")])
    for options, message in (
        ({"window": "1 hour"}, "needs the time of a tuple"),
        ({"time": "ts", "window": "1 month"}, "window = '1 month' is not a length of time"),
        ({"time": "ts", "window": "0 hours"}, "must be above 0"),
        ({"time": "ts", "window": "1 hour", "origin": "noon"}, "origin = 'noon' is not a date"),
        ({"key_groups": 0}, "key_groups = 0 must be at least 1"),
        ({"hash": "md5"}, "hash = 'md5' is unknown"),
    ):
        with pytest.raises(InputError, match=message):
            collect(events, topology, **options)
    with pytest.raises(InputError, match="no row with a usable time"):
        collect(events, topology, time="ts", window="1 hour").workload(nodes=2)


def test_pandas_own_parquet_is_read_and_a_folder_tells_its_format(spark, tmp_path):
    """Timestamps in nanoseconds, which Spark itself refuses, with and without a zone; a Hive folder without a suffix."""
    times = pd.date_range("2024-01-01", periods=90, freq="min")
    table = pd.DataFrame({"ts": times, "zoned": times.tz_localize("Europe/Paris"), "k": range(90)})
    for day in ("1", "2"):
        (tmp_path / "log" / f"day={day}").mkdir(parents=True)
        table.to_parquet(tmp_path / "log" / f"day={day}" / "part.parquet")
    events = read_log(spark, str(tmp_path / "log"))
    topology = Topology([Operator("a", key="k")])
    for time, tuples in (("ts", [120, 60]), ("if(k < 60, ts, zoned)", [180])):  # an hour earlier in UTC than in Paris
        with collect(events, topology, time=time, window="1 hour") as stats:
            assert [row["tuples"] for row in stats.arrivals.orderBy("window_start").collect()] == tuples
    found = (
        events.where("k = 61").selectExpr("day", "date_format(ts, 'HH:mm')", "date_format(zoned, 'HH:mm')").collect()
    )
    assert sorted(map(tuple, found)) == [("1", "01:01", "00:01"), ("2", "01:01", "00:01")]


def test_milliseconds_are_not_read_as_seconds(spark):
    events = spark.range(50).selectExpr("1704067200000 + id * 60000 as ms", "id as k")
    topology = Topology([Operator("a", key="k")])
    with collect(events, topology, time="ms", window="1 hour") as stats:
        (kind,) = stats.rejected_counts()
        assert "if milliseconds: timestamp_millis" in kind
    with collect(events, topology, time="timestamp_millis(ms)", window="1 hour") as stats:
        assert stats.span == (473352, 473352)

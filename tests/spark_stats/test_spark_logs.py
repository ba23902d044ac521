"""What people have: many operators, several logs, days by the clocks of a place, other file systems, keys with lasting numbers."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import textwrap
import uuid

import numpy as np
import pandas as pd
import pytest
from spark_frames import frame

import keyshift as ks
from keyshift.cli import main
from keyshift.models import InputError
from keyshift.models.base.yaml_text import read_yaml
from keyshift.spark_stats import StatsStream, Topology, collect, collect_keys, fetch, hadoop, read_log_stream
from keyshift.spark_stats.statistics_files import read_statistics
from keyshift.spark_stats.topology import PARTS, Operator
from keyshift.spark_stats.windows import Windows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("count", [21, pytest.param(40, marks=pytest.mark.slow)])
def test_many_operators_and_why_each_refuses(spark, count):
    """More than the reasons of 19 go into one number; 40 take three."""
    log = spark.range(60).selectExpr("id as k")
    chain = Topology(
        [Operator(f"o{i}", key=f"if(k % {i + 2} = 0, null, k)") for i in range(count)], [("o3", f"o{count - 1}")]
    )
    with collect(log, chain, key_groups=2) as stats:
        refused = stats.rejected_by_operator.toPandas().set_index("operator")["rows"]
        assert refused.to_dict() == {f"o{i}": len(range(0, 60, i + 2)) for i in range(count)}
        assert stats.rejected_counts() == {
            "null key": sum(any(k % (i + 2) == 0 for i in range(count)) for k in range(60))
        }
        w = stats.workload(nodes=2)
    assert w.load.reshape(count, 2).sum(axis=1).tolist() == [60 - len(range(0, 60, i + 2)) for i in range(count)]
    assert w.traffic.sum() == sum(k % 5 > 0 and k % (count + 1) > 0 for k in range(60))
    with pytest.raises(InputError, match="1 to 200 operators, this one has 201"):
        Topology([Operator(f"o{i}", key="k") for i in range(201)])


def test_days_by_the_clocks_of_a_place(spark, tmp_path):
    hours = pd.date_range("2022-10-28T22:00Z", periods=73, freq="h")  # in Berlin: days of 24, 25, 24 hours
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.json").write_text("\n".join(json.dumps({"ts": str(hour), "k": 1}) for hour in hours))
    setting = {"time": "ts", "window": "1 day", "time_zone": "Europe/Berlin", "key_groups": 1}
    one = Topology([Operator("a", key="k")])
    schema = "ts timestamp, k int"
    stream = StatsStream(spark.readStream.schema(schema).json(str(tmp_path / "log")), one, tmp_path / "out", **setting)
    stream.start().awaitTermination()
    stream.finish()
    assert read_statistics(tmp_path / "out", nodes=1).load.ravel().tolist() == [24, 25, 24]
    with pytest.raises(InputError, match="statistics of another time_zone: 'Europe/Berlin', not None"):
        StatsStream(
            spark.readStream.schema(schema).json(str(tmp_path / "log")),
            one,
            tmp_path / "out",
            time="ts",
            window="1 day",
        )
    assert Windows.of("1 week", "2024-01-01", "America/New_York").start_of(0).isoformat() == "2024-01-01T05:00:00+00:00"
    for wrong, message in (
        ({"window": "1 hour"}, "only whole days and weeks"),
        ({"time_zone": "Berlin"}, "not one of"),
    ):
        with pytest.raises(InputError, match=message):
            collect(spark.range(1).selectExpr("now() as ts", "id as k"), one, **{**setting, **wrong})


def test_each_operator_may_have_its_log(spark, tmp_path, capsys):
    bought = pd.DataFrame({"user": ["a", "b", None], "price": [2.5, 1.0, 1.0], "ts": [10, 20, 30]})
    clicked = [{"page": f"p{i % 3}", "user": i, "ts": 10 * i} for i in range(6)]
    for log in ("orders", "clicks"):
        (tmp_path / log).mkdir()
    bought.to_parquet(tmp_path / "orders" / "a.parquet")
    (tmp_path / "clicks" / "a.json").write_text("\n".join(map(json.dumps, clicked)))
    orders = frame(spark, bought.itertuples(index=False), "user string, price double, ts long")
    clicks = frame(spark, [tuple(click.values()) for click in clicked], "page string, user long, ts long")
    topology = Topology(
        [
            Operator("revenue", key="user", cost="price", log="orders"),
            Operator("hits", key="page", log="clicks"),
            Operator("visits", key="user", log="clicks"),
        ],
        [("hits", "visits")],
    )
    assert Topology.from_dict(topology.to_dict()) == topology
    with collect({"clicks": clicks, "orders": orders}, topology, time="ts", window="1 hour", key_groups=4) as stats:
        assert stats.rejected_by_operator.toPandas().to_numpy().tolist() == [["revenue", "null key", 1]]
        assert {row["key"]: row["load"] for row in stats.keys("revenue").frame.collect()} == {"a": 2.5, "b": 1.0}
        assert {row["key"]: row["load"] for row in stats.keys("hits").frame.collect()} == {"p0": 2, "p1": 2, "p2": 2}
    for given, message in (
        (orders, "one for each of orders, clicks"),
        ({"orders": orders}, "the operators read orders, clicks"),
    ):
        with pytest.raises(InputError, match=message):
            collect(given, topology)
    with pytest.raises(InputError, match="they read different logs"):
        Topology(topology.operators, [("revenue", "hits")])
    with pytest.raises(InputError, match="operator 'x' names no log, and 'revenue' does"):
        Topology([topology.operators[0], Operator("x", key="k")])

    (tmp_path / "t.yaml").write_text(json.dumps(topology.to_dict()))
    line = ["stats", f"orders={tmp_path}/orders", f"clicks={tmp_path}/clicks", "--topology", str(tmp_path / "t.yaml")]
    assert main([*line, "--key-groups", "4", "--nodes", "2", "--keys", "visits", "--out", str(tmp_path / "out")]) == 0
    assert ks.read_workload(tmp_path / "out").load.reshape(3, 4).sum(axis=1).tolist() == [3.5, 6, 6]
    assert len(pd.read_parquet(next((tmp_path / "out" / "runs").iterdir()) / "keys")) == 6
    capsys.readouterr()
    assert main([line[0], line[1], *line[3:], "--out", str(tmp_path / "none")]) == 2
    assert "give NAME=PATH for each of orders, clicks" in " ".join(capsys.readouterr().err.split())


def test_the_documented_topology_counts_nested_fields_by_the_sessions_clocks(spark, tmp_path):
    (tmp_path / "t.yaml").write_text(textwrap.dedent(Topology.from_yaml.__doc__.split("are required::")[1]))
    described = read_yaml(tmp_path / "t.yaml")
    assert described["operators"][0].keys() == {field.name for field in dataclasses.fields(Operator)}
    assert described.keys() == set(PARTS)
    log = spark.range(48).selectExpr(  # two days in Berlin, of which the first has 25 hours
        "timestamp_seconds(1667080800 + 3600 * id) as ts",
        "id % 3 as shop",
        "named_struct('user', named_struct('id', concat('u', id % 5)), 'bytes', 100 * (id % 2)) as event",
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        setting = {"time": "ts", "window": "1 day", "time_zone": "session", "key_groups": 4}
        with collect({"clicks": log}, Topology.from_yaml(tmp_path / "t.yaml"), **setting) as stats:
            load = np.array([w.last_load.reshape(2, 4).sum(axis=1) for w in stats.workloads(nodes=2)])
            sent = stats.traffic.groupBy("window_start").sum("bytes").orderBy("window_start").toPandas()
            assert [str(start) for start in sent["window_start"]] == ["2022-10-30 00:00:00", "2022-10-31 00:00:00"]
            assert stats.workload(nodes=2).state[:4].sum() == 100 * 24  # of both windows
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    np.testing.assert_allclose(load, [[12 * 1.1, 25], [12 * 1.1, 23]], rtol=1e-12)
    assert sent["sum(bytes)"].tolist() == [200 * 12, 200 * 12]


def test_batch_and_stream_count_the_same_keys(spark, tmp_path):
    """A streaming log goes through Spark's own state, window by window."""
    rows = [
        {"ts": str(pd.Timestamp(60 * i, unit="s", tz="UTC")), "user": f"u,{i % 7}", "page": i % 5} for i in range(300)
    ]
    (tmp_path / "log").mkdir()
    for file in range(2):  # two batches of the stream, each with rows of every window
        (tmp_path / "log" / f"{file}.json").write_text("\n".join(map(json.dumps, rows[file::2])))
    one, schema = Topology([Operator("a", key="user", cost="page + 0.5")]), "ts timestamp, user string, page long"
    setting = {"time": "ts", "window": "1 hour", "key_groups": 4}
    batch = collect_keys(spark.read.schema(schema).json(str(tmp_path / "log")), one, **setting).by_window.toPandas()
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(tmp_path / "log"))
    stream = collect_keys(events, one, number=0, **setting).by_window.writeStream.outputMode("complete")
    stream.format("memory").queryName("keys").trigger(availableNow=True).start().awaitTermination()
    order = ["window", "key"]
    pd.testing.assert_frame_equal(
        spark.table("keys").toPandas().sort_values(order, ignore_index=True),
        batch.sort_values(order, ignore_index=True),
    )


@pytest.mark.slow
def test_logs_and_statistics_on_another_file_system_of_hadoops(spark, tmp_path, capsys):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        spark.conf.set(f"fs.viewfs.mounttable.shop.link./{name}", (tmp_path / name).as_uri())
    rows = spark.range(90).selectExpr("timestamp_seconds(60 * id) as ts", "id % 7 as k")
    rows.write.parquet("viewfs://shop/in/log")
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k}]\n")
    line = [
        "stats",
        "viewfs://shop/in/log",
        "--format",
        "parquet",
        "--topology",
        str(tmp_path / "t.yaml"),
        "--time",
        "ts",
    ]
    line += ["--window", "1 hour", "--key-groups", "4", "--nodes", "2", "--json", "--out"]
    assert main([*line, "viewfs://shop/out/s"]) == 0
    assert main([*line, (tmp_path / "here").as_uri()]) == 0
    fetched = fetch(spark, "viewfs://shop/out/s", tmp_path / "fetched")
    here, there = ks.read_workload(tmp_path / "here"), ks.read_workload(fetched)
    assert there.load.tolist() == here.load.tolist()
    assert there.load.sum() == 90
    assert main([*line, "viewfs://shop/out/s"]) == 0  # once more: the same windows, and the old run is gone
    assert len(list((tmp_path / "out" / "s" / "runs").glob("[!.]*"))) == 1
    capsys.readouterr()
    (tmp_path / "out" / "mine").mkdir()
    (tmp_path / "out" / "mine" / "letter.txt").write_text("dear")
    assert main([*line, "viewfs://shop/out/mine"]) == 2
    assert "holds no statistics: it is not written to" in " ".join(capsys.readouterr().err.split())
    assert main([*line, "viewfs://shop/nowhere/s"]) == 2
    assert main([*line, "nosuch://shop/s"]) == 2
    assert "nosuch" in capsys.readouterr().err
    with pytest.raises(InputError, match="is there already"):
        fetch(spark, "viewfs://shop/out/s", tmp_path / "fetched")


@pytest.fixture
def another_default(spark, tmp_path):
    """A file system of Hadoop's that takes what has no scheme, as HDFS does on a cluster."""
    (tmp_path / "disk").mkdir()
    name = f"lake{uuid.uuid4().hex[:6]}"  # Hadoop keeps a file system by its name
    settings = {
        f"fs.viewfs.mounttable.{name}.link./data": (tmp_path / "disk").as_uri(),
        "fs.defaultFS": f"viewfs://{name}/",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield tmp_path / "disk"
    for name in settings:
        spark.conf.unset(name)


def test_everything_of_one_output_goes_to_one_file_system(spark, tmp_path, another_default):
    """A path without a scheme goes where Spark's own paths go; ``file:`` stays here, tables and manifest alike."""
    topology = Topology([Operator("a", key="k")])
    rows = spark.range(90).selectExpr("timestamp_seconds(60 * id) as ts", "id % 7 as k")
    with collect(rows, topology, time="ts", window="1 hour", key_groups=4) as stats:
        stats.write("/data/out", nodes=2, keys=["a"])
        stats.write((tmp_path / "here").as_uri(), nodes=2)
    assert (another_default / "out" / "statistics.json").exists()
    assert list((another_default / "out").glob("runs/*/keys/*/*.parquet"))
    there = ks.read_workload(fetch(spark, "/data/out", tmp_path / "fetched"))
    assert there.load.tolist() == ks.read_workload(tmp_path / "here").load.tolist()


@pytest.mark.slow
def test_a_stream_keeps_its_position_where_its_windows_go(spark, tmp_path, another_default):
    topology, options = Topology([Operator("a", key="k")]), {"time": "ts", "window": "1 hour", "key_groups": 4}
    for part in range(2):
        rows = spark.range(90 * part, 90 * part + 90).selectExpr("timestamp_seconds(60 * id) as ts", "id % 7 as k")
        rows.coalesce(1).write.mode("append").parquet("/data/in")
        stream = StatsStream(
            read_log_stream(spark, "/data/in", format="parquet"), topology, "/data/stream", nodes=2, **options
        )
        stream.start().awaitTermination()
    stream.finish()
    assert {"checkpoint", "runs", "statistics.json"} <= {entry.name for entry in (another_default / "stream").iterdir()}
    assert ks.read_workload(fetch(spark, "/data/stream", tmp_path / "fetched")).load.sum() == 180


def test_a_second_writer_to_a_file_system_without_locks_is_refused(spark, another_default, monkeypatch):
    target = hadoop.place("/data/out", spark)
    assert re.fullmatch(r"viewfs://lake\w+/data/out", str(target))
    with hadoop.claim(target), hadoop.claim(target):  # the same process may ask twice
        other = another_default / "out" / ".keyshift-writer"
        monkeypatch.setattr(hadoop, "_held", set())
        with (
            pytest.raises(InputError, match=r"viewfs://lake\w+/data/out is being written by another run, or was until"),
            hadoop.claim(target),
        ):
            pass
        os.utime(other, (1_000_000_000,) * 2)  # of a job that was killed long ago
        with hadoop.claim(target):
            pass
        monkeypatch.undo()
    assert [entry.name for entry in (another_default / "out").iterdir() if not entry.name.endswith(".crc")] == [
        ".keyshift"
    ]


def test_the_same_statistics_of_files_tables_and_queries(spark, tmp_path, capsys):
    """ORC, Parquet, JSON lines, CSV, a table and a query: equal to the last digit."""
    rows = spark.range(300).selectExpr("timestamp_seconds(60 * id) as ts", "id % 7 as k", "id / 3.0D as cost")
    for kind in ("orc", "parquet", "json"):
        rows.coalesce(1).write.format(kind).save(str(tmp_path / kind))
    rows.selectExpr("ts", "k", "cast(cost as string) as cost").coalesce(1).write.option("header", True).csv(
        str(tmp_path / "csv")
    )
    rows.createOrReplaceTempView("log")
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k, cost: cost}]\n")
    written = ["--schema", "ts timestamp, k bigint, cost double"]
    ways = {kind: [str(tmp_path / kind), "--format", kind] for kind in ("orc", "parquet")}
    ways |= {kind: [str(tmp_path / kind), "--format", kind, *written] for kind in ("json", "csv")}
    ways |= {"table": ["--table", "log"], "query": ["--sql", "select * from log where ts is not null"]}
    found = {}
    for name, way in ways.items():
        line = [
            "stats",
            *way,
            "--topology",
            str(tmp_path / "t.yaml"),
            "--time",
            "ts",
            "--window",
            "1 hour",
            "--key-groups",
            "4",
        ]
        assert main([*line, "--nodes", "2", "--out", str(tmp_path / "out" / name)]) == 0, name
        found[name] = ks.read_workload(tmp_path / "out" / name).load.tolist()
    assert all(load == found["parquet"] for load in found.values())
    capsys.readouterr()
    assert main([*line, "--nodes", "2", "--json", "--out", str(tmp_path / "out" / "again")]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["rows"] == 300
    assert record["spark"].keys() == {"stages", "tasks", "rows_read", "bytes_shuffled", "bytes_spilled"}
    assert record["spark"]["tasks"] >= record["spark"]["stages"] > 0
    for way, said in (
        (["--sql", "drop view log"], "cannot read the query 'drop view log'"),
        (["--table", "nosuch"], "cannot read the table nosuch"),
        (["--table", "log", "--sql", "select 1"], "one of them"),
        ([str(tmp_path / "orc"), "--format", "avro"], "cannot read"),
        ([str(tmp_path / "orc"), "--format", "delta", "--option", "versionAsOf=1"], "no reader of delta"),
        ([str(tmp_path / "csv"), "--format", "csv", "--option", "versionAsOf=1"], "versionAsOf is an option of orc"),
    ):
        assert main(["stats", *way, "--topology", str(tmp_path / "t.yaml"), "--out", str(tmp_path / "not")]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert spark.catalog.tableExists("log")


def test_timestamps_of_sparks_own_files_are_read_after_those_in_nanoseconds(spark, tmp_path):
    """Once Spark takes nanoseconds for whole numbers its own 96-bit timestamps, which pyarrow calls nanoseconds, stay timestamps."""
    from keyshift.spark_stats.sources import read_parquet

    setting = "spark.sql.legacy.parquet.nanosAsLong"
    before = spark.conf.get(setting, "false")
    spark.range(3).selectExpr("timestamp_seconds(60 * id) as ts").write.parquet(str(tmp_path / "own"))
    spark.conf.set(setting, "true")
    try:
        assert read_parquet(spark, str(tmp_path / "own")).schema["ts"].dataType.typeName() == "timestamp"
    finally:
        spark.conf.set(setting, before)

"""What is gathered from logs as people have them: far times, refused rows, streams, and PySpark as it was."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from gathered import stats_of

import keyshift as ks
from keyshift.cli import main
from keyshift.models import InputError
from keyshift.spark_stats import Operator, StatsStream, Topology, collect, read_log, read_log_stream
from keyshift.spark_stats.statistics_files import read_statistics
from keyshift.spark_stats.tallied import far_off

pytestmark = pytest.mark.spark
LOGS = Path(__file__).parent / "data" / "logs"


# Times far off, rows that are refused, nodes and windows that stay -----------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "tuples", "before", "behind"),
    [
        ([0, *range(475_000, 475_100)], [500, *[15_000] * 100], 1, 0),
        ([*range(100), 475_000], [*[15_000] * 100, 5], 0, 1),
        ([0, 10, 2000, 475_000, 475_001], [1, 1, 1, 100, 100], 3, 0),
        ([0, 475_000], [1, 1], 0, 0),  # neither is a few
        ([*range(0, 100_000, 900)], [1] * 112, 0, 0),  # sparse everywhere
        ([5], [3], 0, 0),
        ([], [], 0, 0),
    ],
)
def test_which_times_are_far_off(numbers, tuples, before, behind):
    found = far_off(np.array(numbers, dtype=np.int64), np.array(tuples, dtype=np.int64))
    assert [int(side.sum()) for side in found] == [before, behind]


def test_a_few_times_far_off_are_counted_named_and_left_out(spark, tmp_path):
    rows = ["ts,user", *["0,u1"] * 3, *[f"{1709251200 + 60 * i},u{i % 7}" for i in range(300)], "4102444800,u2"]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    log, one = read_log(spark, str(tmp_path / "log.csv")), Topology([Operator("o", key="user")])
    said = "3 of 304 rows lie far from the others, at 1970-01-01T00:00:00.00:00 .* since = 2024-03-01T00:00:00.00:00 leaves them out"
    with collect(log, one, time="ts", window="1 hour") as stats:
        with pytest.raises(InputError, match=said):
            stats.write(tmp_path / "out")
        with pytest.raises(InputError, match=said):
            stats.workload(nodes=2)
    with (
        collect(log, one, time="ts", window="1 hour", since="2024-03-01") as stats,
        pytest.raises(InputError, match=r"1 of 301 rows .* until = 2024-03-01T05:00:00.00:00 leaves them out"),
    ):
        stats.span  # noqa: B018
    ends = {"since": "2024-03-01", "until": "2024-03-01T05:00:00+00:00"}
    assert stats_of(log, "ts", "1 hour", **ends) == ([60] * 5, {"before since, or not before until": 4})
    with collect(log, one, time="ts", window="1 hour", since="1970-01-01", until="2100-02-01") as stats:  # as asked for
        assert len(stats.seen) == 7
        assert stats.span[1] - stats.span[0] > 1_000_000
    with collect(log, one, time="ts", key_groups=2, **ends) as stats:  # one window
        assert stats.workload(nodes=2).load.sum() == 300


def test_most_rows_refused_ends_with_1_and_the_share(spark, tmp_path, capsys):
    (tmp_path / "t.yaml").write_text("operators: [{name: o, key: user}]")
    (tmp_path / "log.csv").write_text("user,n\nu1,1\n,2\n,3\nu4\n")
    line = ["stats", str(tmp_path / "log.csv"), "--topology", str(tmp_path / "t.yaml"), "--nodes", "2"]
    assert main([*line, "--out", str(tmp_path / "out")]) == 1
    assert "most rows are refused: 3 of 4 (75.0%)" in capsys.readouterr().out
    assert ks.read_workload(tmp_path / "out").load.sum() == 1
    (tmp_path / "log.csv").write_text("user,n\nu1,1\nu2,2\n,3\n,4\n")
    assert main([*line, "--out", str(tmp_path / "other"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["rows"], record["rows_refused"]) == (4, 2)
    (tmp_path / "log.csv").write_text("user,n\nu1\nu2\n")
    assert main([*line, "--out", str(tmp_path / "none")]) == 1
    assert "no row of the log can be used (malformed row: 2)" in capsys.readouterr().out
    assert not (tmp_path / "none" / "statistics.json").exists()


def test_the_shell_says_how_csv_is_written(spark, tmp_path, capsys):
    (tmp_path / "t.yaml").write_text("operators: [{name: o, key: _c0}]")
    (tmp_path / "log.csv").write_bytes("ä;1\nNULL;2\n007;3\n".encode("cp1252"))
    line = ["stats", str(tmp_path / "log.csv"), "--topology", str(tmp_path / "t.yaml"), "--nodes", "2", "--no-header"]
    line += [
        "--separator",
        ";",
        "--encoding",
        "cp1252",
        "--null-word",
        "NULL",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    assert main(line) == 0
    assert json.loads(capsys.readouterr().out)["rejected"] == {"null key": 1}


def test_nodes_given_to_a_stream_are_kept_and_a_window_knows_itself(spark, tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.csv").write_text(
        "ts,user\n" + "".join(f"2024-03-01 0{i % 4}:00:00,u{i}\n" for i in range(40))
    )
    topology, started = Topology([Operator("o", key="user")]), []
    stream = StatsStream(
        read_log_stream(spark, str(tmp_path / "log")), topology, tmp_path / "out", time="ts", window="1 hour",
        nodes=[1, 1, 2], on_window=lambda w: started.append((w.window_start.isoformat(), w.load.sum())),
    )  # fmt: skip
    stream.start().awaitTermination()
    stream.finish()
    assert started == [(f"2024-03-01T0{i}:00:00+00:00", 10) for i in range(4)]
    assert (
        ks.read_workload(tmp_path / "out").capacity.tolist()
        == read_statistics(tmp_path / "out", [1, 1, 2]).capacity.tolist()
    )
    with collect(read_log(spark, str(tmp_path / "log")), topology, time="ts", window="1 hour") as stats:
        assert [w.window_start.hour for w in stats.workloads(2)] == [0, 1, 2, 3]
        stats.write(tmp_path / "batch", nodes=[1, 3])
    assert (
        ks.read_workload(tmp_path / "batch").capacity.tolist()
        == read_statistics(tmp_path / "batch", [1, 3]).capacity.tolist()
    )


# PySpark stays as it was -----------------------------------------------------------------------------------------------

CALLER = """
    import sys, tempfile
    from pyspark.sql import SparkSession, functions as F
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    df = spark.createDataFrame([("a",), ("b",)], "user string")
    settings = dict(spark.sparkContext.getConf().getAll())
    def mine():
        try:
            df.select(F.col("user") + F.map_from_arrays(F.array(F.lit(1)), F.array(F.lit(2)))).collect()
        except Exception as error:
            return type(error).__name__
    def refused(call):
        try:
            call()
        except ValueError as error:
            return type(error).__name__
    from keyshift import spark_stats as s
    one = s.Topology([s.Operator("o", key="user")])
    stats = s.collect(df, one, key_groups=4)
    folder = tempfile.mkdtemp()
    df.write.csv(folder + "/csv", header=True)
    verbs = {
        "collect": lambda: stats.load.count(),
        "workload": lambda: stats.workload(2),
        "write": lambda: stats.write(folder + "/out", nodes=2),
        "keys": lambda: stats.keys().frame.count(),
        "collect_keys": lambda: s.collect_keys(df, one).frame.count(),
        "read_log": lambda: s.read_log(spark, folder + "/csv").count(),
        "read_log_stream": lambda: s.read_log_stream(spark, folder + "/csv"),
        "StatsStream": lambda: s.StatsStream(s.read_log_stream(spark, folder + "/csv"), one, folder + "/s", time="'2024-01-01'",
                                             window="1 day").start().awaitTermination(),
        "a map as a key": lambda: refused(lambda: s.collect(df, s.Topology([s.Operator("o", key="map('a', user)")]))),
        "no column": lambda: refused(lambda: s.collect(df, s.Topology([s.Operator("o", key="usr")]))),
        "no log": lambda: refused(lambda: s.read_log(spark, folder + "/none.csv")),
    }
    found = {"before": mine()} if sys.argv[1:] else {}
    for name, verb in verbs.items():
        verb()
        found[name] = mine()
    print("seen", found, spark.sparkContext.getConf().getAll() == list(settings.items()))
"""


@pytest.mark.parametrize("first", [pytest.param([], marks=pytest.mark.slow), ["before"]])
def test_a_callers_own_mistakes_are_told_as_ever(first):
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CALLER), *first],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    seen = [line for line in told.stdout.splitlines() if line.startswith("seen")]
    assert seen, told.stderr[-2000:]
    assert seen[0].count("AnalysisException") == 11 + len(first)
    assert seen[0].endswith("True")

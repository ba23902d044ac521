"""Statistics by keyshift against the hand-written Spark aggregations that it replaces, against DuckDB and Polars.

    python benchmarks/spark_stats.py [--quick] [--repeats 1] [--tuples 10000000 30000000] [--keys 1000000] --out DIR

The log: 10, and then 30 million tuples (`--tuples`) in time order over 60 hourly windows, two keys of a million possible values each (`--keys`, at most a quarter of
the tuples; cubed uniform numbers, so that some are hot), a size. Two operators with 400 key groups each, one edge, cost and state = size, state
kept for four windows. Everything is written to Parquet, partitioned by window, by everybody.

Wall-clock and CPU seconds, the latter over all processes: on a machine with other work only CPU seconds mean much.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from page import run
from spark_keys import forget_peak, peak_memory
from spark_logs import HOUR, cpu_seconds, generate

from keyshift.papers.page import Page

GROUPS, KEPT = 400, 4


def hand_written(spark, log: Path, out: Path) -> dict[str, object]:
    """The aggregations one would write: load and state of each operator, and traffic."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    events = spark.read.parquet(str(log))
    start = F.window("ts", "1 hour").start.alias("window_start")
    group = {key: F.pmod(F.xxhash64(key), F.lit(GROUPS)).alias("key_group") for key in ("user", "item")}

    def write(table, name):
        table.write.mode("overwrite").partitionBy("window_start").parquet(str(out / name))

    def load(key):
        write(
            events.groupBy(start, group[key]).agg(F.count("*").alias("tuples"), F.sum("size").alias("load")),
            f"load {key}",
        )

    def state(key):
        per_window = events.groupBy(start, group[key]).agg(F.sum("size").alias("added"))
        kept = (
            Window.partitionBy("key_group").orderBy(F.unix_micros("window_start")).rangeBetween(-(KEPT - 1) * HOUR, 0)
        )
        write(per_window.withColumn("state", F.sum("added").over(kept)), f"state {key}")

    def traffic():
        pair = events.groupBy(start, group["user"].alias("src"), group["item"].alias("dst"))
        write(pair.agg(F.count("*").alias("tuples")), "traffic")

    return {
        "load user": lambda: load("user"),
        "load item": lambda: load("item"),
        "state user": lambda: state("user"),
        "state item": lambda: state("item"),
        "traffic": traffic,
    }


def topology():
    from keyshift.spark_stats import Operator, Topology

    operators = [Operator(name, key=name, cost="size", state="size", windows=KEPT) for name in ("user", "item")]
    return Topology(operators, [("user", "item")])


def with_keyshift(spark, log: Path, out: Path) -> None:
    from keyshift.spark_stats import collect

    shutil.rmtree(out, ignore_errors=True)
    with collect(spark.read.parquet(str(log)), topology(), time="ts", window="1 hour", key_groups=GROUPS) as stats:
        stats.write(out)


def stages(spark, log: Path) -> dict[str, Callable[[], None]]:
    """Each does what those before it do, and one thing more."""
    from keyshift.spark_stats.acceptance import read_tuples
    from keyshift.spark_stats.facts import gather
    from keyshift.spark_stats.key_groups import KeyGroups
    from keyshift.spark_stats.windows import Windows

    def run_all(frame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    tuples = read_tuples(spark.read.parquet(str(log)), topology(), "ts", Windows.of("1 hour"), KeyGroups(GROUPS))
    return {
        "scan, windows, key groups": lambda: run_all(tuples.frame),
        "counting, shuffle": lambda: run_all(gather(tuples, topology()).frame),
    }


def with_polars(log: Path, out: Path) -> None:
    """Load, state and traffic by Polars, read as a stream."""
    import polars as pl

    groups = {key: pl.col(key).hash() % GROUPS for key in ("user", "item")}
    events = pl.scan_parquet(log).with_columns(pl.col("ts").dt.truncate("1h").alias("w"), **groups)
    for key in groups:
        counted = events.group_by("w", key).agg(pl.len().alias("tuples"), pl.col("size").sum().alias("load"))
        found = counted.collect(engine="streaming").sort(key, "w")
        held = found.rolling("w", period=f"{KEPT}h", group_by=key).agg(pl.col("load").sum().alias("state"))
        found.join(held, on=["w", key]).write_parquet(out / f"polars_{key}", partition_by="w", mkdir=True)
    pairs = events.group_by("w", "user", "item").agg(pl.len().alias("tuples")).collect(engine="streaming")
    pairs.write_parquet(out / "polars_t", partition_by="w", mkdir=True)


def with_duckdb(log: Path, out: Path, threads: int) -> None:
    import duckdb

    con = duckdb.connect()
    con.execute(f"SET threads = {threads}")
    con.execute("SET memory_limit = '4GB'")
    events = f"(SELECT time_bucket(INTERVAL 1 hour, ts) AS w, hash(user) % {GROUPS} AS u, hash(item) % {GROUPS} AS i, size FROM '{log}')"
    option = "(FORMAT parquet, PARTITION_BY (w), OVERWRITE_OR_IGNORE)"
    for key in ("u", "i"):
        con.execute(
            f"""COPY (SELECT *, sum(load) OVER (PARTITION BY {key} ORDER BY w RANGE BETWEEN INTERVAL {KEPT - 1} hour PRECEDING
            AND CURRENT ROW) AS state FROM (SELECT w, {key}, count(*) AS tuples, sum(size) AS load FROM {events} GROUP BY ALL))
            TO '{out / ("duckdb_" + key)}' {option}"""
        )
    con.execute(
        f"COPY (SELECT w, u, i, count(*) AS tuples FROM {events} GROUP BY ALL) TO '{out / 'duckdb_t'}' {option}"
    )


def same_answer(ours: Path, hand: Path) -> None:
    """Both must say the same: load and tuples of every key group, traffic of every pair."""
    import duckdb

    run_ = next((ours / "runs").iterdir())
    loads = "sum(tuples), sum(load), sum(load * key_group), count(*)"
    pairs = "sum(tuples), sum(tuples * tuples), sum(tuples * (1000 * {0} + {1})), count(*)"
    for what, mine, kept, theirs, table in (
        (loads, loads, "operator = 0", "load user", "load"), (loads, loads, "operator = 1", "load item", "load"),
        (pairs.format("src_key_group", "dst_key_group"), pairs.format("src", "dst"), "true", "traffic", "traffic"),
    ):  # fmt: skip
        a = duckdb.sql(f"SELECT {what} FROM '{run_}/{table}/*/*.parquet' WHERE {kept}").fetchall()[0]
        b = duckdb.sql(f"SELECT {mine} FROM '{hand}/{theirs}/*/*.parquet'").fetchall()[0]
        assert [float(x) for x in a] == [float(x) for x in b]


def statistics(page: Page) -> None:
    """Seconds of everybody, and CPU seconds over all processes."""
    jobs, parts, memory = [], [], []
    for tuples in [1_000_000] if page.quick else sorted(page.given.tuples):
        rows, own = measured(page, tuples)
        table = pd.DataFrame(rows).groupby("job", sort=False).median()
        first = list(table.index).index("scan, windows, key groups")
        stages_, table = table.iloc[first:], table.iloc[:first]
        ours, *others = (f"{name}, everything" for name in ("keyshift", "DuckDB", "Polars"))
        stages_ = pd.concat([stages_, table.loc[[ours]].rename({ours: "tables, checks"})])
        table.loc["hand-written, sum"] = table.drop([ours, *others]).sum()
        table["keyshift in its seconds"] = table.loc[ours, "seconds"] / table["seconds"]
        table["in its CPU seconds"] = table.loc[ours, "CPU seconds"] / table["CPU seconds"]
        jobs.append(table.reset_index().assign(tuples=tuples))
        parts.append(stages_.diff().fillna(stages_).rename_axis("stage").reset_index().assign(tuples=tuples))
        memory.append(pd.DataFrame(own.items(), columns=["memory", "GiB"]).assign(tuples=tuples))
    page.say(
        f"{os.cpu_count()} cores. The JVM ran with -Xmx1200m; it is driver and executor at once. Two keys of a quarter as many values as tuples, at most {page.given.keys:,}."
    )
    page.table(pd.concat(jobs), "jobs")
    page.say("Where keyshift's time goes: each stage ran with all before it; what it adds.")
    page.table(pd.concat(parts), "stages")
    page.say("Before DuckDB and Polars, which run in the same Python.")
    page.table(pd.concat(memory), "memory")


def measured(page: Page, tuples: int) -> tuple[list[dict[str, object]], dict[str, float]]:
    """Rows of job, seconds and CPU seconds for one log; and the memory that keyshift and the hand-written jobs took."""
    from keyshift.spark_stats import local_session

    rows: list[dict[str, object]] = []

    def timed(name: str, job: Callable[[], None]) -> None:
        wall, cpu = time.perf_counter(), cpu_seconds()
        job()
        rows.append({"job": name, "seconds": time.perf_counter() - wall, "CPU seconds": cpu_seconds() - cpu})
        print(tuples, rows[-1], flush=True)

    forget_peak()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        generate(work / "warm.parquet", 200_000, 50_000)
        generate(work / "log.parquet", tuples, min(tuples // 4, page.given.keys))
        conf = {"spark.driver.memory": "1200m", "spark.sql.shuffle.partitions": "8"}
        with local_session("benchmark", conf=conf) as spark:
            for log in ("warm", *["log"] * page.given.repeats):
                path = work / f"{log}.parquet"
                jobs = hand_written(spark, path, work / "hand")
                jobs["keyshift, everything"] = lambda path=path: with_keyshift(spark, path, work / "ours")
                for name, job in jobs.items():
                    job() if log == "warm" else timed(name, job)
            memory = peak_memory()
            timed("DuckDB, everything", lambda: with_duckdb(work / "log.parquet", work, os.cpu_count() or 1))
            timed("Polars, everything", lambda: with_polars(work / "log.parquet", work))
            for _ in range(page.given.repeats):
                for name, job in stages(spark, work / "log.parquet").items():
                    timed(name, job)
            same_answer(work / "ours", work / "hand")
    return rows, memory


if __name__ == "__main__":
    run("spark_stats", "Spark statistics", __doc__, (statistics,), repeats={"type": int, "default": 1},
        tuples={"type": int, "nargs": "+", "default": [10_000_000, 30_000_000]}, keys={"type": int, "default": 1_000_000})  # fmt: skip

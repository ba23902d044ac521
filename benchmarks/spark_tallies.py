"""The tallies in NumPy beside Spark SQL's own `groupBy().agg()`: the same facts of one pass over the log, by both.

    nice -n 10 python benchmarks/spark_tallies.py [--quick] [--tuples 5000000 20000000] --out benchmarks/results/0.4.0

The log is that of `spark_stats.py`. Either one operator, with cost and state, or two and the edge between them; so many key groups an operator,
one window or sixty. Both begin with the same accepted tuples. The tallies count each task's tuples for all operators and edges at once,
and Spark adds up what the tasks have counted. Spark SQL's way turns a tuple into a row for each operator, each edge and its arrival (`inline`), and adds up by window, kind and key groups;
the same whole numbers are added, so that the facts must be equal. Processor seconds are those of all processes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from page import run
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_logs import cpu_seconds, generate

from keyshift.papers.page import Page
from keyshift.spark_stats import Operator, Topology, local_session
from keyshift.spark_stats.acceptance import Tuples, read_tuples
from keyshift.spark_stats.facts import TallyPlan, gather, plan_of
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.tallies import ARRIVED
from keyshift.spark_stats.windows import Windows


def topology(operators: int) -> Topology:
    both = [Operator(name, key=name, cost="size", state="size", windows=4) for name in ("user", "item")]
    return Topology(both[:operators], [("user", "item")] if operators == 2 else [])


def by_spark(tuples: Tuples, plan: TallyPlan) -> DataFrame:
    """One pass by Spark SQL: a row for each operator, edge and arrival, then sums by window, kind and key groups."""
    sums = sorted({name for names in plan.sums for name in names})

    def row(kind: int, groups: list[Column], measures: tuple[str, ...]) -> Column:
        a, b = [*groups, F.lit(0)][:2]
        here = F.when((a >= 0) & (b >= 0), F.lit(kind))
        added = ((F.col(s) if s in measures else F.lit(0)).cast("long").alias(s) for s in sums)
        return F.struct(here.alias("kind"), a.cast("int").alias("a"), b.cast("int").alias("b"), *added)

    rows = [row(ARRIVED, [F.lit(0)], ())]
    for kind, sides in enumerate([*((o,) for o in range(plan.operators)), *plan.edges]):
        rows.append(row(kind, [F.col(f"group_{o}") for o in sides], plan.sums[kind]))
    told = tuples.frame.select("window", F.inline(F.array(*rows))).where("kind is not null")
    return told.groupBy("window", "kind", "a", "b").agg(
        F.count(F.lit(1)).alias("tuples"), *(F.sum(name).alias(name) for name in sums)
    )


def digest(frame: DataFrame, sums: list[str]) -> list[tuple[object, ...]]:
    """By kind: rows, and sums of everything by products that change when two numbers change places."""
    at = F.col("a") + F.col("b") * 7 + F.col("window") % 1000 * 13
    totals = [F.sum(F.col(name)).alias(f"{name} {i}") for i, name in enumerate(["tuples", *sums])]
    turned = [F.sum(F.col(name) * at).alias(f"{name} {i}'") for i, name in enumerate(["tuples", *sums])]
    made = frame.groupBy("kind").agg(F.count(F.lit(1)).alias("rows"), *totals, *turned).orderBy("kind")
    return [tuple(row) for row in made.collect()]


def compared(
    spark: SparkSession, log: Path, operators: int, groups: int, window: str | None, check: bool
) -> dict[str, float]:
    """Processor seconds and wall seconds of both, by turns; both must give the same facts where that is checked."""
    frame, topology_ = spark.read.parquet(str(log)), topology(operators)
    tuples = read_tuples(frame, topology_, "ts", Windows.of(window), KeyGroups(groups))
    plan = plan_of(topology_, tuples)
    facts = gather(tuples, topology_)
    ways = {"tallies": facts.frame, "Spark SQL": by_spark(tuples, plan)}
    took = {}
    for name, way in ways.items():
        wall, cpu = time.perf_counter(), cpu_seconds()
        way.write.format("noop").mode("overwrite").save()
        took |= {f"{name}, CPU s": cpu_seconds() - cpu, f"{name}, s": time.perf_counter() - wall}
    size = plan.sums[0][0]
    ours = facts.frame.where(F.col("kind") != -1)
    edges = F.col("kind") >= operators
    first = ours.withColumn("sum_0", F.when((F.col("kind") < 0) | edges, 0).otherwise(F.col("sum_0")))
    theirs = ways["Spark SQL"].withColumn(size, F.when((F.col("kind") < 0) | edges, 0).otherwise(F.col(size)))
    if check:
        assert digest(first, ["sum_0"]) == digest(theirs, [size])
    return {**took, "ratio": took["Spark SQL, CPU s"] / took["tallies, CPU s"]}


def tallies(page: Page) -> None:
    """Processor seconds of one pass, by the tallies and by Spark SQL."""
    rows = []
    sizes = [200_000] if page.quick else page.given.tuples
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        generate(work / "warm.parquet", 200_000, 50_000)
        conf = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "8"}
        with local_session("benchmark", conf=conf) as spark:
            compared(spark, work / "warm.parquet", 2, 100, "1 hour", True)
            for size in sizes:
                generate(work / f"{size}.parquet", size, max(size // 4, 1_000_000))
                for operators, groups, window in np.ndindex(2, 3, 2):
                    groups, window = (100, 10_000, 1_000_000)[groups], (None, "1 hour")[window]
                    found = compared(spark, work / f"{size}.parquet", operators + 1, groups, window, size == sizes[0])
                    labels = {"tuples": size, "operators": operators + 1, "key groups": groups}
                    rows.append({**labels, "windows": 60 if window else 1, **found})
                    print(rows[-1], flush=True)
                    page.keep(rows, "passes")
    page.table(rows, "passes")


if __name__ == "__main__":
    run("spark_tallies", "Tallies beside Spark SQL", __doc__, (tallies,),
        tuples={"type": int, "nargs": "+", "default": [5_000_000, 20_000_000]})  # fmt: skip

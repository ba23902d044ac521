"""Single keys in Spark: statistics, problems, and a plan applied; and a skewed stage before and after.

    python benchmarks/spark_keys.py [--quick] [--tuples 50000000] --out DIR

Keys follow a Zipf law over a fifth of the tuples' number, so that there are about that many distinct keys; a page follows
from user and chance, so that distinct pairs are about twice as many. Local mode, two threads: driver and executors are one Java process.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
from page import Page, run
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keyshift as ks
from keyshift.engines import spark as engine
from keyshift.models.placement import placement
from keyshift.spark_stats import Operator, Topology, collect_keys, local_session

NODES, GROUPS, THETA = 20, 1000, 0.05
TOPOLOGY = Topology([Operator("users", key="user"), Operator("pages", key="page")], [("users", "pages")])
LAPS: list[dict[str, object]] = []


@contextmanager
def lap(what: str) -> Iterator[dict[str, object]]:
    """Time one stage, and note what it tells."""
    began, told = time.perf_counter(), {}
    yield told
    LAPS.append(
        {"stage": what, "seconds": time.perf_counter() - began, "note": ", ".join(f"{k} {v}" for k, v in told.items())}
    )
    print(LAPS[-1], flush=True)


@contextmanager
def session(page: Page) -> Iterator[SparkSession]:
    conf = {"spark.driver.memory": page.given.memory, "spark.sql.shuffle.partitions": "16"}
    with local_session("keys", master="local[2]", conf=conf) as spark:
        yield spark


def zipf(keys: int, power: float) -> F.Column:
    """A key by a Zipf law of exponent 1 + power, from the hash of the row's number."""
    uniform = F.xxhash64(F.col("id")) / F.lit(2.0**64) + 0.5
    return F.pow(1 - uniform * (1 - keys**-power), F.lit(-1 / power)).cast("long")


def keys(page: Page) -> None:
    """Stages: load, state and traffic of single keys, the problem, its plan, and the true loads under it."""
    tuples = 1_000_000 if page.quick else page.given.tuples
    known = tuples // 5
    with session(page) as spark:
        with lap(
            "make the log"
        ):  # a quarter of the tuples by a Zipf law of exponent 1.1, the rest one key after the other
            user = F.when(F.col("id") % 4 == 0, F.pmod(zipf(known, 0.1), F.lit(known))).otherwise(
                F.pmod(F.col("id"), F.lit(known))
            )
            rows = spark.range(0, tuples, 1, 8).select(user.alias("user"), "id")
            rows = rows.select("user", (F.col("user") * 2 + F.pmod(F.xxhash64("id"), F.lit(2))).alias("page"))
            rows.write.mode("overwrite").parquet(folder := str(page.out / "spark_keys_log"))
        stages(spark.read.parquet(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    page.table(pd.DataFrame(LAPS), "stages")
    page.say(f"{tuples:,} tuples. Driver's Python: {peak:.2f} GiB at most; Java: {page.given.memory}.")


def stages(log: DataFrame) -> None:
    found = collect_keys(log, TOPOLOGY, "users", key_groups=GROUPS).persist()
    with lap("load and state of every key") as told:
        told["distinct keys"] = found.distinct()
    with lap("key-to-key traffic, exact") as told:
        told["distinct pairs"] = found.traffic().count()
    with lap("heaviest pairs, capacity 10,000") as told:
        pairs, low = found.heavy_traffic(capacity=10_000)
        told |= {"pairs": len(pairs), "counts low by at most": low, "promised": log.count() // 10_001}
    with lap("compact records, R = 64") as told:
        told["records"] = len(found.compact(NODES, degree=64))
    with lap("pose mixed routing") as told:
        problem = found.mixed_routing(NODES, THETA, degree=64)
        told["entries"] = problem.workload.key_groups
    with lap("plan (method mixed)") as told:
        solution = ks.solve(problem, "mixed", seed=0, time_limit=60)
        told |= {"status": solution.status, "table entries": int(solution.metrics.get("table_size", -1))}
    if solution.assignment is None:
        raise SystemExit(f"no plan: {solution.message} {solution.details}")
    with lap("route every tuple and add up") as told:
        routed = engine.route(log, solution, key="user", nodes=NODES, key_groups=GROUPS)
        loads = routed.groupBy("node").count().toPandas()["count"].to_numpy(dtype=float)
        told["largest load / limit"] = share = loads.max() / ((1 + THETA) * loads.sum() / NODES)
    assert share <= 1 + 1e-9
    found.close()


def skew(page: Page) -> None:
    """Longest task against the mean in an aggregation of a skewed log: its tuples, and its seconds."""
    nodes, groups, known = 8, 256, 5_000
    with session(page) as spark:
        log = (
            spark.range(0, 500_000 if page.quick else page.given.skewed, 1, 8)
            .select(F.least(zipf(known, 0.2), F.lit(known - 1)).alias("user"), "id")
            .cache()
        )
        log.count()
        problem = collect_keys(log, Topology([Operator("users", key="user")]), key_groups=groups).mixed_routing(
            nodes, 0.02, movable=10_000
        )
        plans = {"hash": placement("ranges", groups, nodes), "MinTable's table": ks.solve(problem, "min-table", seed=0),
                 "exact table": ks.solve(problem, "milp", seed=0, time_limit=60), "PKG, two stages": ks.Partitioner("pkg", nodes)}  # fmt: skip
        rows = []
        for name, plan in plans.items():
            if isinstance(plan, ks.Solution) and plan.assignment is None:
                rows.append({"routing": name})
                continue
            routed = engine.route(log, plan, key="user", nodes=nodes, key_groups=groups)
            placed = engine.partition_by_node(routed.select("user", "id", "node"), nodes)
            tasks = placed.mapInPandas(_work, "tuples bigint, seconds double").toPandas()
            rows.append({"routing": name, **(tasks.max() / tasks.mean()).add_prefix("longest / mean ").to_dict()})
    page.table(pd.DataFrame(rows), "skew")


def _work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """One task of the stage: count by key, and say how long it took. CPU seconds: the machine may be shared."""
    began, tuples, counts = time.process_time(), 0, pd.Series(dtype=float)
    for frame in frames:
        tuples += len(frame)
        counts = counts.add(np.sqrt(frame["id"]).groupby(frame["user"]).sum(), fill_value=0)
    yield pd.DataFrame({"tuples": [tuples], "seconds": [time.process_time() - began]})


if __name__ == "__main__":
    run("spark_keys", "Single keys in Spark", __doc__, (keys, skew), tuples={"type": int, "default": 5_000_000},
        skewed={"type": int, "default": 2_000_000}, memory={"default": "2g"})  # fmt: skip

"""Single keys in Spark: statistics, problems, and a plan applied; and a skewed stage before and after.

    python benchmarks/spark_keys.py --tuples 50000000 --out out/benchmarks

Keys follow a Zipf law over a fifth of the tuples' number, so that there are about that many distinct keys; a page follows
from user and chance, so that distinct pairs are about twice as many. Prints one line a stage, and writes `spark_keys.csv`.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keyshift as ks
from keyshift.engines import spark as engine
from keyshift.models.placement import placement
from keyshift.spark_stats import Operator, Topology, collect_keys, local_session

NODES, GROUPS, THETA = 20, 1000, 0.05
TOPOLOGY = Topology([Operator("users", key="user"), Operator("pages", key="page")], [("users", "pages")])
LAPS: list[tuple[str, float, str]] = []


@contextmanager
def lap(what: str) -> Iterator[dict[str, object]]:
    """Time one stage."""
    start, told = time.perf_counter(), {}
    yield told
    seconds = time.perf_counter() - start
    said = ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in told.items()
    )
    LAPS.append((what, round(seconds, 2), said))
    print(f"{what:<44} {seconds:9.2f} s   {said}", flush=True)


def make_log(spark: SparkSession, tuples: int, folder: Path) -> DataFrame:
    """A quarter of the tuples by a Zipf law of exponent 1.1, the rest one key after the other."""
    keys = tuples // 5
    uniform = (F.xxhash64(F.col("id")) / F.lit(2.0**64) + 0.5).alias("u")
    spread = (F.pow(1 - F.col("u") * (1 - keys**-0.1), F.lit(-10.0))).cast("long")
    user = F.when(F.col("id") % 4 == 0, F.pmod(spread, F.lit(keys))).otherwise(F.pmod(F.col("id"), F.lit(keys)))
    rows = spark.range(0, tuples, 1, 8).select("id", uniform).select(user.alias("user"), "id")
    rows = rows.select("user", (F.col("user") * 2 + F.pmod(F.xxhash64("id"), F.lit(2))).alias("page"))
    rows.write.mode("overwrite").parquet(str(folder))
    return spark.read.parquet(str(folder))


def key_stages(log: DataFrame) -> tuple[ks.Solution, ks.MixedRouting]:
    """Statistics of single keys, the problem, its plan, and the true loads under it."""
    keys = collect_keys(log, TOPOLOGY, "users", key_groups=GROUPS).persist()
    with lap("load and state of every key") as told:
        told["distinct keys"] = keys.distinct()
    with lap("key-to-key traffic, exact") as told:
        told["distinct pairs"] = keys.traffic().count()
    with lap("heaviest pairs, capacity 10,000") as told:
        found, low = keys.heavy_traffic(capacity=10_000)
        told |= {"pairs": len(found), "counts low by at most": low, "promised": log.count() // 10_001}
    with lap("compact records, R = 64") as told:
        told["records"] = len(keys.compact(NODES, degree=64))
    with lap("pose mixed routing") as told:
        problem = keys.mixed_routing(NODES, THETA, degree=64)
        told["entries"] = problem.workload.key_groups
    with lap("plan (method mixed)") as told:
        solution = ks.solve(problem, "mixed", seed=0, time_limit=60)
        told |= {"status": solution.status, "table entries": int(solution.metrics.get("table_size", -1))}
    if solution.assignment is None:
        raise SystemExit(f"no plan: {solution.message} {solution.details}")
    with lap("route every tuple and add up") as told:
        routed = engine.route(log, solution, key="user", nodes=NODES, key_groups=GROUPS)
        loads = routed.groupBy("node").count().toPandas().set_index("node")["count"].to_numpy(dtype=float)
        limit = (1 + THETA) * loads.sum() / NODES
        told |= {"largest load / limit": round(float(loads.max() / limit), 6)}
    assert loads.max() <= limit * (1 + 1e-9)
    keys.close()
    return solution, problem


def skewed_stage(spark: SparkSession, tuples: int) -> pd.DataFrame:
    """Longest task against the mean in an aggregation of a skewed log: tuples of the tasks, and their seconds."""
    nodes, groups = 8, 256
    keys = 5_000
    spread = F.pow(1 - (F.xxhash64(F.col("id")) / F.lit(2.0**64) + 0.5) * (1 - keys**-0.2), F.lit(-5.0)).cast("long")
    log = spark.range(0, tuples, 1, 8).select(F.least(spread, F.lit(keys - 1)).alias("user"), "id").cache()
    log.count()
    found = collect_keys(log, Topology([Operator("users", key="user")]), key_groups=groups)
    problem = found.mixed_routing(nodes, 0.02, movable=10_000)
    plans = {
        "hash": placement("ranges", groups, nodes),
        "MinTable's table": ks.solve(problem, "min-table", seed=0),
        "exact table": ks.solve(problem, "milp", seed=0, time_limit=60),
        "PKG, two stages": ks.Partitioner("pkg", nodes),
    }
    rows = []
    for name, plan in plans.items():
        if isinstance(plan, ks.Solution) and plan.assignment is None:
            rows.append({"routing": name, "longest / mean tuples": np.nan, "longest / mean seconds": np.nan})
            continue
        routed = engine.route(log, plan, key="user", nodes=nodes, key_groups=groups)
        placed = engine.partition_by_node(routed.select("user", "id", "node"), nodes)
        tasks = placed.mapInPandas(_work, "tuples bigint, seconds double").toPandas()
        ratio = tasks.max() / tasks.mean()
        rows.append(
            {"routing": name, "longest / mean tuples": ratio["tuples"], "longest / mean seconds": ratio["seconds"]}
        )
    return pd.DataFrame(rows)


def _work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """One task of the stage: count by key, and say how long it took. CPU seconds: the machine may be shared."""
    start, tuples = time.process_time(), 0
    counts: pd.Series | None = None
    for frame in frames:
        tuples += len(frame)
        part = frame.groupby("user")["id"].agg(lambda ids: float(np.sqrt(ids).sum()))
        counts = part if counts is None else counts.add(part, fill_value=0)
    yield pd.DataFrame({"tuples": [tuples], "seconds": [time.process_time() - start]})


def main() -> None:
    """Run all stages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuples", type=int, default=5_000_000)
    parser.add_argument("--skewed", type=int, default=2_000_000)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    conf = {"spark.driver.memory": options.memory, "spark.sql.shuffle.partitions": "16"}
    with local_session("keys", master="local[2]", conf=conf) as spark:
        with lap("make the log"):
            log = make_log(spark, options.tuples, options.out / "spark_keys_log")
        key_stages(log)
        with lap("skewed stage"):
            table = skewed_stage(spark, options.skewed)
    print(table.to_string(index=False))
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    LAPS.append(("memory of the driver's Python", round(driver, 3), "GiB"))
    print(f"driver's Python: {driver:.2f} GiB at most; Java, driver and executors in one: {options.memory}")
    pd.DataFrame(LAPS, columns=["stage", "seconds", "note"]).to_csv(options.out / "spark_keys.csv", index=False)
    table.to_csv(options.out / "spark_skew.csv", index=False)


if __name__ == "__main__":
    main()

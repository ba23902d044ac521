"""Single keys in Spark: statistics, problems, and a plan applied; and a skewed stage before and after.

    python benchmarks/spark_keys.py [--quick] [--tuples 50000000] --out DIR

Key-level statistics, the plan they lead to and the plan applied, stage by stage; a skewed stage by hash and by plan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from page import run
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keyshift as ks
from keyshift.engines import spark as engine
from keyshift.models.placement import placement
from keyshift.papers.page import Page
from keyshift.spark_stats import Operator, Topology, collect_keys, local_session

NODES, GROUPS, THETA = 20, 1000, 0.05
TOPOLOGY = Topology([Operator("users", key="user"), Operator("pages", key="page")], [("users", "pages")])
LAPS: list[dict[str, object]] = []


def peak_memory() -> dict[str, float]:
    """Peak resident GiB of the driver, since `forget_peak`: this Python process and its JVM."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (entry / "status").read_text(), (entry / "comm").read_text().strip()
        except OSError:
            continue
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if int(entry.name) == os.getpid():
            found["driver, Python"] = int(lines["VmHWM"].split()[0]) / 2**20
        elif command == "java" and int(lines["PPid"]) == os.getpid():
            found["driver and executor, JVM"] = int(lines["VmHWM"].split()[0]) / 2**20
    return dict(sorted(found.items(), reverse=True))


def forget_peak() -> None:
    """Count this Python's peak from what it has now."""
    Path("/proc/self/clear_refs").write_text("5")


@contextmanager
def lap(what: str) -> Iterator[dict[str, object]]:
    """Time one stage, and note what it tells."""
    began, told = time.perf_counter(), {}
    yield told
    note = ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in told.items()
    )
    seconds = time.perf_counter() - began
    LAPS.append({"stage": what, "seconds": seconds, "load of the machine": os.getloadavg()[0], "note": note})
    print(LAPS[-1], flush=True)


@contextmanager
def session(page: Page, partitions: int = 32) -> Iterator[SparkSession]:
    conf = {
        "spark.driver.memory": page.given.driver,
        "spark.executor.memory": page.given.executor,
        "spark.sql.shuffle.partitions": str(partitions),
    }
    with local_session("keys", master=page.given.master, conf=conf) as spark:
        yield spark


def zipf(keys: int, power: float) -> F.Column:
    """A key by a Zipf law of exponent 1 + power, from the hash of the row's number."""
    uniform = F.xxhash64(F.col("id")) / F.lit(2.0**64) + 0.5
    return F.least(F.pow(1 - uniform * (1 - keys**-power), F.lit(-1 / power)).cast("long"), F.lit(keys)) - 1


def make_log(spark: SparkSession, tuples: int, folder: str) -> DataFrame:
    """Write the log, unless it is there: a fifth as many users as tuples, two pages each.

    Of twenty tuples one follows a Zipf law of exponent 1.1, the others take every user in turn - in no order, since its number
    is multiplied by a prime. Were the hottest key as much as a node carries, all others there would have to leave.
    """
    if (Path(folder) / "_SUCCESS").exists():
        return spark.read.parquet(folder)
    known = tuples // 5
    turn, place = F.pmod("id", F.lit(5)), F.expr("id div 5")
    hot = (turn == 4) & (place % 4 == 0)
    user = F.when(hot, zipf(known, 0.1)).otherwise(F.pmod(place * 7_654_321, F.lit(known)))
    page = F.when(turn < 2, turn).otherwise(F.pmod(F.xxhash64("id"), F.lit(2)))
    rows = spark.range(0, tuples, 1, 16).select(user.alias("user"), page.alias("page"))
    rows.select("user", (F.col("user") * 2 + F.col("page")).alias("page")).write.mode("overwrite").parquet(folder)
    return spark.read.parquet(folder)


def keys(page: Page) -> None:
    """Stages: load, state and traffic of single keys, the problem, its plan, and the true loads under it."""
    tuples = 1_000_000 if page.quick else page.given.tuples
    with session(page) as spark:
        with lap("make the log"):
            log = make_log(spark, tuples, str(page.out / f"spark_keys_log_{tuples}"))
        stages(log)
        peak = peak_memory()
        memory = ", ".join(f"{name.split(', ')[-1]} {gib:.2f} GiB" for name, gib in peak.items())
    page.table(pd.DataFrame(LAPS), "stages")
    page.say(
        f"{tuples:,} tuples, {page.given.master}. Peak memory of the driver: {memory}, together {sum(peak.values()):.2f} GiB. Java ran with -Xmx{page.given.driver}; executors of {page.given.executor} each where they have a process of their own."
    )


def stages(log: DataFrame) -> None:
    with collect_keys(log, TOPOLOGY, "users", key_groups=GROUPS).persist() as found:
        with lap("load and state of every key") as told:
            told["distinct keys"] = found.distinct()
        with lap("key-to-key traffic, exact") as told:
            told["distinct pairs"] = found.traffic().count()
        with lap("heaviest pairs, capacity 10,000") as told:
            pairs, low = found.heavy_traffic(capacity=10_000)
            told |= {"pairs": len(pairs), "others have at most": low, "promised": log.count() // 10_001}
        with lap("pose mixed routing") as told:
            problem = found.mixed_routing(NODES, THETA, degree=64)
            told["keys that may move"] = problem.workload.key_groups
        with lap("plan (method mixed)") as told:
            solution = ks.solve(problem, "mixed", seed=0, time_limit=60)
            told |= {"status": solution.status, "table entries": int(solution.metrics.get("table_size", -1))}
        if solution.assignment is None:
            raise SystemExit(f"no plan: {solution.message} {solution.details}")
        with lap("route every tuple, and add up") as told:
            routed = engine.route(log, solution, key="user", nodes=NODES, key_groups=GROUPS)
            loads = routed.groupBy("node").count().toPandas().set_index("node")["count"].to_numpy(dtype=float)
            told["largest load / limit"] = share = float(loads.max() / ((1 + THETA) * loads.sum() / NODES))
        before = np.bincount(problem.workload.home, minlength=NODES)  # keys that may leave each node
        assert before.sum() == problem.workload.key_groups
        assert share <= 1 + 1e-9


def skew(page: Page) -> None:
    """Longest task against the mean in an aggregation of a skewed log: its tuples, its CPU seconds and its seconds, the least of three runs."""
    nodes, groups, known = 8, 256, 5_000
    with session(page, 8) as spark:
        tuples = 500_000 if page.quick else page.given.skewed
        log = spark.range(0, tuples, 1, 8).select(zipf(known, 0.1).alias("user"), "id").cache()
        log.count()
        problem = collect_keys(log, Topology([Operator("users", key="user")]), key_groups=groups).mixed_routing(
            nodes, 0.02
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
            runs = [placed.mapInPandas(_work, _TASK).toPandas() for _ in range(3)]
            tasks = pd.DataFrame({of: np.min([run[of] for run in runs], axis=0) for of in runs[0]})
            told = {"longest task, s": tasks["seconds"].max(), "all tasks, s": tasks["seconds"].sum()}
            rows.append(
                {"routing": name, **(tasks.max() / tasks.mean()).add_prefix("longest / mean ").to_dict(), **told}
            )
    page.table(pd.DataFrame(rows), "skew")
    page.say(
        f"{tuples:,} tuples, {nodes} nodes, {page.given.master}; of PKG's two stages the first: the second adds up at most two counts a key."
    )


_TASK = "tuples bigint, `CPU seconds` double, seconds double"


def _work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """One task of the stage: count by key, and say how long it took, with its share of the shuffle."""
    wall, began, tuples, counts = time.perf_counter(), time.process_time(), 0, pd.Series(dtype=float)
    for frame in frames:
        tuples += len(frame)
        counts = counts.add(np.sqrt(frame["id"]).groupby(frame["user"]).sum(), fill_value=0)
    cpu, seconds = time.process_time() - began, time.perf_counter() - wall
    yield pd.DataFrame({"tuples": [tuples], "CPU seconds": [cpu], "seconds": [seconds]})


if __name__ == "__main__":
    run("spark_keys", "Single keys in Spark", __doc__, (keys, skew), tuples={"type": int, "default": 5_000_000},
        skewed={"type": int, "default": 2_000_000}, driver={"default": "512m"}, executor={"default": "2g"},
        master={"default": "local-cluster[2,1,2048]"})  # fmt: skip

"""Long streams: statistics of a year by the minute, and replays of ten thousand periods.

    python benchmarks/long_streams.py [--quick] [--days 365] [--tuples 20000000] [--only minutes] --out DIR

How time and memory grow with the number of windows: of Spark's statistics, of what is read back, and of the loop.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from page import run
from spark_keys import peak_memory

import keyshift as ks
from keyshift.papers.page import Page
from keyshift.replays.adaptation import read_periods

MINUTE, DAY = 60_000_000, 1440
START = 1_704_067_200_000_000  # a Monday
GROUPS, NODES = 400, 20


def generate(path: Path, tuples: int, days: int) -> None:
    """Write the log, a week at a time: Poisson counts by the minute, two thirds less at night, a half on weekends."""
    rng = np.random.default_rng(0)
    schema = pa.schema(
        [("ts", pa.timestamp("us", tz="UTC")), ("user", pa.int32()), ("item", pa.int32()), ("size", pa.int32())]
    )
    minute = np.arange(days * DAY)
    rate = 1 + 0.5 * np.sin(2 * np.pi * (minute % DAY) / DAY - 2)
    rate *= np.where(minute // DAY % 7 < 5, 1.0, 0.5)
    counts = rng.poisson(tuples * rate / rate.sum())
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, minute.size, 7 * DAY):
            of = np.repeat(minute[first : first + 7 * DAY], counts[first : first + 7 * DAY])
            ts = START + MINUTE * of + np.sort(rng.integers(0, MINUTE, of.size) + MINUTE * of) % MINUTE
            user, item = ((keys * rng.random(of.size) ** 2).astype(np.int32) for keys in (200, 100_000))
            columns = [pa.array(ts, schema[0].type), user, item, rng.integers(1, 1000, of.size).astype(np.int32)]
            writer.write_table(pa.table(columns, schema=schema))


def memory(which: str = "VmRSS") -> float:
    """MB of this process: now (VmRSS), or at most so far (VmHWM)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[which].split()[0]) / 1024


def minutes(page: Page) -> None:
    """Statistics of a year by the minute.

    Tuples over a year, with the rhythm of days and weeks; two operators of 400 key groups each, the first of 200 keys; cost and state
    = size, the first keeps an hour. Windows of a minute.
    """
    from keyshift.spark_stats import Operator, Topology, collect, local_session

    days, tuples = (7, 500_000) if page.quick else (page.given.days, page.given.tuples)
    operators = [
        Operator("users", "user", cost="size", state="size", windows=60),
        Operator("items", "item", cost="size", state="size"),
    ]
    log, out = page.out / f"minutes_{days}_{tuples}.parquet", page.out / f"minutes_{days}"
    if not log.exists():
        generate(log, tuples, days)
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    with local_session("minutes", conf={"spark.driver.memory": page.given.driver}) as spark:
        frame = spark.read.parquet(str(log))
        stats = collect(
            frame, Topology(operators, [("users", "items")]), time="ts", window="1 minute", key_groups=GROUPS
        )
        with stats:
            windows = len(stats.seen)
            counted = time.perf_counter() - began
            stats.write(out, nodes=NODES)
            written = time.perf_counter() - began
        peak = peak_memory()
    files = list(out.rglob("*.parquet"))
    whole = {"days": days, "tuples": pq.read_metadata(log).num_rows, "windows": windows, "seconds to count": counted,
             "seconds to the end": written, "files": len(files), "MB": sum(f.stat().st_size for f in files) / 1e6,
             "MB of statistics.json": (out / "statistics.json").stat().st_size / 1e6,
             **{f"peak GiB, {name}": gib for name, gib in peak.items()}}  # fmt: skip
    page.table(pd.DataFrame({"figure": list(whole), "value": list(whole.values())}), "minutes")
    page.table(pd.DataFrame(_read_back(out, periods=DAY if page.quick else 7 * DAY)), "read_back")


def _read_back(out: Path, periods: int) -> Iterator[dict[str, object]]:
    """What is made of the statistics, each in a process of its own."""
    tasks = {
        "problem of the last window": (1, 0),
        "problem of the last 60": (60, 0),
        "a day replayed": (0, DAY),
        "all replayed": (0, periods),
    }
    for name, (last, most) in tasks.items():
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
            yield {
                "what": name,
                **(child.submit(_posed, out, last) if last else child.submit(_replayed, out, most)).result(),
            }


def _posed(out: Path, last: int) -> dict[str, object]:
    began = time.perf_counter()
    workload = ks.read_workload(out, last=last)
    read = time.perf_counter() - began
    windows = {"windows": last, "over": "mean"} if last > 1 else {}
    found = ks.solve(ks.KeyGroupAllocation(workload, max_migrations=10, **windows), time_limit=5)
    said = f"{workload.windows} windows, {found.status}"
    return {"seconds": read, "peak MB": memory("VmHWM"), "note": said}


def _replayed(out: Path, periods: int) -> dict[str, object]:
    rows = replayed(read_periods(out), "flux", [100, periods // 2, periods], forecast="mean:30", regret=False)
    said = ", ".join(f"{row['MB']:.0f} MB at period {row['periods']:,}" for row in rows)
    seconds = rows[-1]["seconds"]
    return {
        "seconds": seconds,
        "peak MB": memory("VmHWM"),
        "note": f"{1000 * seconds / periods:.1f} ms a period; {said}",
    }


def replayed(workloads: Iterable[ks.Workload], method: str, at: list[int], **options: Any) -> list[dict[str, Any]]:
    """Replay so many periods as `at` ends with: time and memory when each of these many is over."""
    rows, began = [], time.perf_counter()

    def watched() -> Iterator[ks.Workload]:
        for period, workload in enumerate(workloads):
            if period in at:
                rows.append({"periods": period, "seconds": time.perf_counter() - began, "MB": memory()})
            yield workload

    done = ks.replay(watched(), [method], problem="key-group-allocation", max_migrations=10, periods=at[-1], **options)
    if not rows or rows[-1]["periods"] < at[-1]:
        rows.append({"periods": len(done.rows), "seconds": time.perf_counter() - began, "MB": memory()})
    return rows


def walk(nodes: int = 60, key_groups: int = 1200) -> Iterator[ks.Workload]:
    """Loads on a random walk, without an end."""
    rng = np.random.default_rng(0)
    load, state = rng.uniform(1, 10, (2, key_groups))
    while True:
        yield ks.Workload(load=load, state=state, current=np.arange(key_groups) % nodes, nodes=nodes)
        load = np.clip(load * rng.normal(1, 0.05, key_groups), 0.5, 20)


def periods(page: Page) -> None:
    """Replays of ten thousand periods.

    60 nodes, 1,200 key groups, 10 moves a period, loads on a random walk; each replay in a process of its own.
    """
    at = [100, 200] if page.quick else [1000, 2000, 4000, 7000, 10_000]
    runs = {
        "milp, 0.02 s a period": ("milp", {"time_limit": 0.02}),
        "flux, with a checkpoint": ("flux", {"checkpoint": page.out / "checkpoint"}),
    }
    rows: list[dict[str, Any]] = []
    for name, (method, options) in runs.items():
        shutil.rmtree(page.out / "checkpoint", ignore_errors=True)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
            found = child.submit(_walked, method, at, options).result()
        for before, row in zip([{"periods": 0, "seconds": 0.0}, *found], found, strict=False):
            ms = 1000 * (row["seconds"] - before["seconds"]) / (row["periods"] - before["periods"])
            rows.append({"replay": name, "periods": row["periods"], "ms a period": ms, "MB": row["MB"]})
    page.table(rows, "periods")


def _walked(method: str, at: list[int], options: dict[str, Any]) -> list[dict[str, Any]]:
    replayed(walk(), method, [3], **{name: value for name, value in options.items() if name != "checkpoint"})
    return replayed(walk(), method, at, **options)


if __name__ == "__main__":
    run("long_streams", "Long streams", __doc__, (minutes, periods), days={"type": int, "default": 365},
        tuples={"type": int, "default": 20_000_000}, driver={"default": "1g"})  # fmt: skip

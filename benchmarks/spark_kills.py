"""Batches and streams of statistics, killed at drawn moments of their work: what is lost, and what counts twice.

    python benchmarks/spark_kills.py [--quick] [--kills 200] --out DIR

A process counts a log into one directory after the other, by turns as a batch - half of the log first, then all of it, which replaces windows - and as
a stream of four batches with late rows. It is killed, Java and all, at a moment drawn from its work, and started again; it then goes on with the
directory in which it was killed. What stands there is compared with a count in Python after each kill, and when it is whole. Kills that have been
made are kept in a file: the benchmark goes on where it was stopped.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
from page import run

from keyshift.papers.page import Page

BATCHES, ROWS, GROUPS, HOUR, ORIGIN = 4, 60, 4, 3600, 1_441_929_600
DELAY = 1800


def rows_of(batch: int) -> list[dict[str, object]]:
    """Rows whose times drift forward; some come too late for a stream, some have no key."""
    rng = random.Random(batch)
    return [
        {"ts": ORIGIN + max(0, HOUR * batch + rng.randrange(-2 * HOUR, HOUR)), "key": rng.choice(["a", "b", "c", "d", "e", None])}
        for _ in range(ROWS)
    ]  # fmt: skip


def right(stream: bool, batches: int = BATCHES) -> dict[int, int]:
    """Tuples by window, counted row by row; of a stream without those whose window was closed before their batch came."""
    found: Counter[int] = Counter()
    mark = None
    for batch in range(batches):
        rows = rows_of(batch)
        for row in rows:
            window = (row["ts"] - ORIGIN) // HOUR
            late = stream and mark is not None and ORIGIN + (window + 1) * HOUR <= mark
            found[window] += row["key"] is not None and not late
        latest = max(row["ts"] for row in rows) - DELAY
        mark = latest if mark is None else max(mark, latest)
    return {window: count for window, count in found.items() if count}


def work(folder: Path) -> None:
    """Count into one directory after the other, until this process is killed."""
    from keyshift.spark_stats import Operator, StatsStream, Topology, collect, local_session

    topology = Topology([Operator("a", key="key", windows=2), Operator("b", key="upper(key)")], [("a", "b")])
    options = {"time": "ts", "window": "1 hour", "key_groups": GROUPS}
    with local_session("kills", master="local[1]", brief=True) as spark:
        print("begun", flush=True)
        for number in range(10**6):
            out = folder / f"{number:04}"
            if (out / "whole").exists():
                continue
            if number % 2:
                events = spark.readStream.schema("ts bigint, key string").option("maxFilesPerTrigger", 1)
                stream = StatsStream(
                    events.json(str(folder / "in")), topology, out / "stream", watermark=f"{DELAY} seconds", **options
                )
                stream.start().awaitTermination()
                stream.finish()
            else:
                for batches in (BATCHES // 2, BATCHES):
                    files = [str(folder / "in" / f"{batch}.json") for batch in range(batches)]
                    with collect(spark.read.schema("ts bigint, key string").json(files), topology, **options) as found:
                        found.write(out / "batch")
            (out / "whole").touch()
            print("whole", flush=True)


def found_in(out: Path) -> dict[int, int]:
    """Tuples by window that a directory of statistics counts for the first operator; the second and the edge must count the same."""
    from keyshift.spark_stats.statistics_files import MANIFEST, read_manifest, tables_of, windows_of

    if not (out / MANIFEST).exists():
        return {}
    manifest = read_manifest(out)
    if not (numbers := sorted(windows_of(manifest))):
        return {}
    load, pairs = (pd.DataFrame(table.between(numbers[0], numbers[-1])) for table in tables_of(out, manifest))
    counts = [part.groupby("window")[what].sum() for part, what in ((load[load["operator"] == 0], "load"),
              (load[load["operator"] == 1], "load"), (pairs, "tuples"))]  # fmt: skip
    assert all(counts[0].equals(other.astype(float)) for other in counts), "operators and edge count the same tuples"
    first = ORIGIN // HOUR
    return {int(window) - first: int(count) for window, count in counts[0].items()}


def compared(out: Path) -> dict[str, object]:
    """Tuples that a directory lacks of the windows that it has, and those that it has twice; all windows where it is whole."""
    stream, whole = (out / "stream").exists(), (out / "whole").exists()
    found = found_in(out / ("stream" if stream else "batch"))
    expected = right(stream)
    # Half of the batch's log may stand: what the first of its two runs wrote.
    answers = [expected] if stream or whole else [expected, right(False, BATCHES // 2)]
    ways = []
    for answer in answers:
        asked = answer if whole or not stream else {window: answer.get(window, 0) for window in found}
        asked = asked if found or whole else {}
        lost = sum(max(0, count - found.get(window, 0)) for window, count in asked.items())
        ways.append((lost, sum(max(0, count - answer.get(window, 0)) for window, count in found.items())))
    lost, twice = min(ways, key=sum)
    return {"as": "stream" if stream else "batch", "windows there": len(found), "lost": lost, "twice": twice}


def started(folder: Path) -> tuple[subprocess.Popen[bytes], float]:
    """The work, and when it began: its session is up."""
    line = [sys.executable, __file__, "--work", str(folder)]
    job = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    job.stdout.readline()
    return job, time.monotonic()


def kills(page: Page) -> None:
    """What stands after each kill, and when the work was taken up again and ended."""
    folder, file = page.out / "spark_kills", page.out / "spark_kills_each.jsonl"
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for batch in range(BATCHES):
        name = folder / "in" / f"{batch}.json"
        name.write_text("".join(json.dumps(row) + "\n" for row in rows_of(batch)))
        os.utime(name, (1_000_000_000 + batch,) * 2)  # Spark reads files in the order of their times
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    rng, longest = random.Random(len(rows)), None
    while sum(row["after"] == "a kill" for row in rows) < (2 if page.quick else page.given.kills):
        job, began = started(folder)
        if longest is None:  # a batch and a stream, to their ends
            for _ in range(2):
                job.stdout.readline()
            longest = time.monotonic() - began
        moment = rng.uniform(0, longest)
        time.sleep(max(0.0, began + moment - time.monotonic()))
        assert job.poll() is None, "the work ends by a kill alone"
        os.killpg(job.pid, signal.SIGKILL)  # Java too
        job.wait()
        done = {row["place"] for row in rows if row["after"] == "its end"}
        for out in sorted(folder.glob("[0-9]*")):
            if (out / "whole").exists() and out.name not in done:
                rows.append({"place": out.name, "after": "its end", "seconds": None, **compared(out)})
                file.open("a").write(json.dumps(rows[-1]) + "\n")
        at = max((out for out in folder.glob("[0-9]*") if not (out / "whole").exists()), default=None)
        if at is not None:
            rows.append({"place": at.name, "after": "a kill", "seconds": moment, **compared(at)})
            file.open("a").write(json.dumps(rows[-1]) + "\n")
            print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    page.table(table, "each")
    of = table.groupby(["as", "after"])
    page.table(of.agg(times=("lost", "size"), lost=("lost", "sum"), twice=("twice", "sum")).reset_index(), "sums")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]))
    else:
        run("spark_kills", "Statistics on Spark, killed", __doc__, (kills,), kills={"type": int, "default": 200})

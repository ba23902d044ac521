"""A log in micro-batches, some of it late, and a stream of statistics over it; `python streaming_log.py IN OUT` runs it to its end."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
from spark_oracle import OracleOperator

from keyshift.spark_stats import Operator, StatsStream, Topology

START = datetime(2015, 9, 11, tzinfo=UTC)
SCHEMA = "ts timestamp, key string, route string, cost double"
TOPOLOGY = Topology(
    [Operator("a", key="key", cost="cost"), Operator("b", key="route", state="cost * 0.1", windows=3)], [("a", "b")]
)
ORACLE = [
    OracleOperator("a", lambda r: r["key"], cost=lambda r: r["cost"]),
    OracleOperator("b", lambda r: r["route"], state=lambda r: r["cost"] * 0.1, windows=3),
]
GROUPS = 4
DELAY = timedelta(minutes=30)


def batches(seed=5, count=4, size=25):
    """Micro-batches whose times drift forward; some rows come much too late, some have no key or no time."""
    rng = np.random.default_rng(seed)
    for b in range(count):
        yield [
            {
                "ts": None
                if rng.random() < 0.05
                else START + timedelta(minutes=int(max(0, 60 * b + rng.integers(-150, 60)))),
                "key": None if rng.random() < 0.1 else "abcdef"[rng.integers(6)],
                "route": "uvwxyz"[rng.integers(6)],
                "cost": float(rng.integers(0, 9)) / 3,
            }
            for _ in range(size)
        ]


def window_of(row):
    return None if row["ts"] is None else int((row["ts"] - START) // timedelta(hours=1))


def split_late(all_batches):
    """What the watermark lets pass, and how many rows come too late."""
    kept, late, mark = [], 0, None
    for rows in all_batches:
        for row in rows:
            w = window_of(row)
            if mark is not None and w is not None and START + (w + 1) * timedelta(hours=1) <= mark:
                late += 1
            else:
                kept.append(row)
        latest = max((row["ts"] for row in rows if row["ts"] is not None), default=None)
        if latest is not None:
            mark = latest - DELAY if mark is None else max(mark, latest - DELAY)
    return kept, late


def write_batch(folder, number, rows):
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({**row, "ts": None if row["ts"] is None else row["ts"].isoformat()}) for row in rows]
    file = folder / f"{number:03}.json"
    file.write_text("\n".join(lines))
    os.utime(file, (1_000_000_000 + number,) * 2)  # Spark reads files in the order of their times


def stream_of(spark, folder, out, **options):
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return StatsStream(
        events,
        TOPOLOGY,
        out,
        time="ts",
        window="1 hour",
        origin=START,
        key_groups=GROUPS,
        **{"nodes": 3, "watermark": DELAY, **options},
    )


def same(a, b):
    np.testing.assert_array_equal(a.load, b.load)
    np.testing.assert_array_equal(a.state, b.state)
    assert (a.traffic != b.traffic).nnz == 0


if __name__ == "__main__":
    from keyshift.spark_stats import local_session

    with local_session("stream", master="local[2]", brief=True) as session:
        run = stream_of(session, sys.argv[1], sys.argv[2])
        run.start().awaitTermination()
        run.finish()

"""The log that the benchmarks of statistics read, and the processor seconds of all processes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WINDOWS, HOUR = 60, 3_600_000_000
START = 1_700_000_000_000_000 // HOUR * HOUR


def generate(path: Path, tuples: int, keys: int) -> None:
    """Write the log, a million tuples at a time."""
    rng = np.random.default_rng(0)
    schema = pa.schema(
        [("ts", pa.timestamp("us", tz="UTC")), ("user", pa.int64()), ("item", pa.int64()), ("size", pa.int32())]
    )
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, tuples, 1_000_000):
            n = min(1_000_000, tuples - first)
            ts = START + (first + np.arange(n)) * (WINDOWS * HOUR) // tuples
            user, item = ((keys * rng.random(n) ** 3).astype(np.int64) for _ in range(2))
            turn = np.arange(first, first + n)
            user = np.where(turn % 4 == 0, turn // 4 % keys, user)  # so that every user comes at least once
            size = rng.integers(1, 1000, n).astype(np.int32)
            writer.write_table(pa.table([pa.array(ts, schema[0].type), user, item, size], schema=schema))


def cpu_seconds() -> float:
    """CPU seconds of this process and all its descendants, dead or alive."""
    parent, ticks = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parent[int(entry.name)], ticks[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    total = 0
    for pid in parent:
        at = pid
        while at > 1 and at != os.getpid():
            at = parent.get(at, 0)
        total += ticks[pid] if at == os.getpid() else 0
    return total / os.sysconf("SC_CLK_TCK")

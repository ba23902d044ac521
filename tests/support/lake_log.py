"""A log as files of many kinds, jobs over it in processes of their own, and what its statistics must be."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
from brought import environment
from spark_oracle import OracleOperator, recompute, spark_key_group

from keyshift.spark_stats.statistics_files import read_manifest, read_statistics

SUPPORT = Path(__file__).parent
START, GROUPS, HOURS, ROWS = datetime(2026, 3, 1, tzinfo=UTC), 7, 5, 400
SCHEMA = "ts timestamp, user string, item bigint, cost double, size bigint"
TOPOLOGY = """
operators:
  - {name: user, key: user, cost: cost, windows: 2}
  - {name: item, key: item, filter: cost > 0.5, state: cost / 7, bytes: size}
edges: [[user, item]]
"""
ORACLE = [
    OracleOperator("user", lambda r: r["user"], cost=lambda r: r["cost"], windows=2),
    OracleOperator("item", lambda r: r["item"], filter=lambda r: r["cost"] > 0.5, state=lambda r: r["cost"] / 7),
]


def rows_of_log():
    rng = np.random.default_rng(3)
    for i in range(ROWS):
        yield {
            "ts": START + timedelta(microseconds=int((i + rng.random()) * HOURS * 3_600_000_000 / ROWS)),
            "user": None if rng.random() < 0.05 else f"ü{rng.integers(40)}",
            "item": int(rng.integers(-(10**12), 10**12)),
            "cost": float(rng.integers(0, 99)) / 30,
            "size": int(rng.integers(1, 9)),
        }


def write_files(folder, rows):
    """The log in the kinds of files that PyArrow writes, and in parts for streams."""
    kinds = {
        "ts": pa.timestamp("us", "UTC"),
        "user": pa.string(),
        "item": pa.int64(),
        "cost": pa.float64(),
        "size": pa.int64(),
    }
    table = pa.Table.from_pylist(rows, pa.schema(kinds.items()))
    pq.write_table(table, folder / "log.parquet")
    pyarrow.orc.write_table(table, folder / "log.orc")
    pyarrow.csv.write_csv(table, folder / "log.csv")
    lines = (json.dumps({**row, "ts": row["ts"].isoformat()}) for row in rows)
    (folder / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for kind in ("in", "orc"):
        (folder / kind).mkdir()
    plain = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us")))  # Spark 4.1 reads no ORC of the other kind
    for number in range(4):
        pq.write_table(table.slice(number * 100, 100), folder / "in" / f"{number}.parquet")
        pyarrow.orc.write_table(plain.slice(number * 100, 100), folder / "orc" / f"{number}.orc")


def run(python, settings, lines, folder):
    (folder / "lines.json").write_text(json.dumps(lines))
    line = [str(python), str(SUPPORT / "shell_lines.py"), json.dumps(settings), str(folder / "lines.json")]
    told = subprocess.run(line, capture_output=True, text=True, check=False, timeout=900, env=environment(), cwd=folder)
    assert told.returncode == 0, told.stderr[-3000:]
    answers, asked = json.loads(told.stdout.splitlines()[-1]), [line for line in lines if isinstance(line, list)]
    failed = [(line, answer) for line, answer in zip(asked, answers, strict=True) if answer[0]]
    assert not failed, failed
    return answers


def line(folder, out, *source):
    about = ["--topology", str(folder / "t.yaml"), "--time", "ts", "--window", "1 hour", "--key-groups", str(GROUPS)]
    return ["stats", *map(str, source), *about, "--nodes", "3", "--out", str(folder / "statistics" / out)]


def check(folder, name, rows, further=None):
    """The statistics are those of a walk through the rows; `further`: rows refused that are not among these."""
    place = folder / "statistics" / name
    window = lambda row: int((row["ts"] - START) // timedelta(hours=1))  # noqa: E731
    expected = recompute(rows, ORACLE, [("user", "item")], window, lambda key: spark_key_group(key, GROUPS))
    found, number = read_statistics(place), {"user": 0, "item": 1}
    load, state = np.zeros((HOURS, 2 * GROUPS)), np.zeros(2 * GROUPS)
    for row in expected.load.itertuples():
        load[row.window, number[row.operator] * GROUPS + row.key_group] = row.load
    for row in expected.state[expected.state["window"] == HOURS - 1].itertuples():
        state[number[row.operator] * GROUPS + row.key_group] = row.state
    traffic = np.zeros((2 * GROUPS, 2 * GROUPS))
    for row in expected.traffic[expected.traffic["window"] == HOURS - 1].itertuples():
        traffic[row.src_key_group, GROUPS + row.dst_key_group] = row.tuples
    np.testing.assert_array_equal(found.load, load, err_msg=name)
    np.testing.assert_array_equal(found.state, state, err_msg=name)
    np.testing.assert_array_equal(found.traffic.toarray(), traffic, err_msg=name)
    assert read_manifest(place)["rejected"] == expected.rejected | (further or {}), name

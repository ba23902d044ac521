"""Writing statistics: a killed job leaves either the old or the new ones, never a half.

Spark writes a run's tables into a folder of their own, which nothing refers to yet. Then one small file,
``statistics.json``, is replaced in a single step (`os.replace`): from that instant the run's windows count, and the
windows of older runs that it repeats do not. Last, runs that hold nothing any more are deleted. A kill before the
replacement leaves the old answer and a folder that the next run clears; a kill after it leaves the new one. One writer
at a time, and only its own folders are deleted: see `keyshift.spark_stats.hadoop`.

What a run wrote is counted by the tallies it was made of: ``checks`` holds for each table and folder - a window, or
where there are many a block of windows - its rows and the sums of its columns, so that a reader notices a file that
is missing or changed.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyshift.models.base.disk import write_text
from keyshift.models.errors import InputError
from keyshift.spark_stats import hadoop
from keyshift.spark_stats.acceptance import LATE, counts_by_kind
from keyshift.spark_stats.facts import ARRIVED, BITS
from keyshift.spark_stats.hadoop import HadoopPath, local_copy, url_of
from keyshift.spark_stats.key_groups import KeyGroups, label
from keyshift.spark_stats.key_tables import by_window, side
from keyshift.spark_stats.session import persisted, settings
from keyshift.spark_stats.statistics_files import FORMAT, MANIFEST, STATE, read_manifest, runs_of, unit_of
from keyshift.spark_stats.tallied import Tallied
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows, floor_of

FOLDERS, ROWS = 16, 500_000
"""Up to so many windows lie in a folder each; more are put together, into about as many folders, of at most so many rows each.
Hadoop without a native library starts a process for each file and folder that it makes: 20 ms."""
AS_SORTED = {"optimizer.plannedWrite.enabled": "false", "maxConcurrentOutputFileWriters": str(FOLDERS)}
"""Spark would sort by folder before it writes; a task keeps the files of its few folders open instead."""


def write(
    stats: Tallied,
    target: Path | HadoopPath,
    *,
    options: Mapping[str, Any] | None = None,
    keys: Sequence[str] = (),
    manifest: dict[str, Any] | None = None,
    placed_only: bool = False,
) -> None:
    """Write the statistics of one run; see `Stats.write`.

    With a `manifest`, what it says is committed in the same step. With `placed_only`, refused rows that
    belong to no window of the run are left to the caller.
    """
    with hadoop.claim(target):
        if manifest is None:
            manifest = open_manifest(target, description(stats.topology, stats.windows, stats.key_groups))
            if not stats.seen and stats.refusals:
                raise UnusableLogError(stats.rejected_counts())
            stats.refuse_far_off()
            clear(target)
        run = uuid.uuid4().hex[:12]
        hadoop.make(target / "runs" / run)
        block = windows_together(stats)
        checks = write_tables(stats, target / "runs" / run, block, keys)
        seen = set(stats.seen)
        refused = [list(row) for row in stats.refusals if not placed_only or (row[0] in seen and row[1] != LATE)]
        manifest = with_defaults(manifest, **(options or {}))
        about = {"windows": stats.seen, "refused": refused, "checks": checks}
        commit(target, manifest, run, about if block == 1 else {**about, "block": block})


class UnusableLogError(InputError):
    """No row of a log can be used; `rejected` has the rows by kind."""

    def __init__(self, rejected: dict[str, int]) -> None:
        found = ", ".join(f"{kind}: {rows}" for kind, rows in rejected.items())
        super().__init__(f"no row of the log can be used ({found})")
        self.rejected = rejected


def cluster_of(nodes: int | ArrayLike | None) -> dict[str, Any]:
    """The manifest's entry for a number of nodes, or for their capacities."""
    if nodes is None or np.ndim(nodes) == 0:
        return {"nodes": nodes}
    sizes = np.asarray(nodes, dtype=float).tolist()
    return {"nodes": len(sizes), "cluster": {"capacities": sizes}}


def share_refused(manifest: Mapping[str, Any]) -> tuple[int, int]:
    """The number of refused rows, by any operator, and of all rows, over the runs and the stream of a directory."""
    refused = _refused_rows(manifest)
    arrived = [sums for run in manifest["runs"].values() for sums in run.get("checks", {}).get("arrivals", {}).values()]
    beside = sum(rows for window, why, rows in refused if window is None or why == LATE)
    return sum(rows for *_, rows in refused), int(sum(sums["tuples"] for sums in arrived)) + beside


def _refused_rows(manifest: Mapping[str, Any]) -> list[Any]:
    """The refused rows of the runs, of the stream, and of the runs in other files."""
    parts = [*manifest["runs"].values(), manifest.get("stream", {}), *manifest.get("older", [])]
    return [row for part in parts for row in part.get("refused", [])]


def with_defaults(manifest: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the manifest with the reader's defaults: nodes, placement, cluster."""
    return {**manifest, **{name: value for name, value in options.items() if value is not None}}


def description(topology: Topology, windows: Windows, key_groups: KeyGroups) -> dict[str, Any]:
    """Return what must be the same for all runs of one directory."""
    return {
        "keyshift_statistics": FORMAT,
        "topology": topology.to_dict(),
        "length": windows.length,
        "origin": windows.origin,
        "time_zone": windows.zone,
        "key_groups": key_groups.count,
        "hash": key_groups.hash,
    }


def manifest_of(target: Path | HadoopPath, *, whole: bool = True) -> dict[str, Any]:
    """Read the manifest of a directory, wherever that is."""
    with local_copy(target / MANIFEST) as folder:
        for part in read_manifest(folder, whole=False).get("older", []) if whole and folder != target else []:
            (target / part["file"]).copy_to(folder / part["file"])
        return read_manifest(folder, whole=whole)


def open_manifest(target: Path | HadoopPath, description: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a directory, a fresh one where there is none; refuse one of other statistics."""
    if not (target / MANIFEST).exists():
        return {**description, "runs": {}}
    manifest = manifest_of(target, whole=False)
    for name in (*manifest["runs"], *manifest.get("stream", {}).get("pending", {})):
        if not re.fullmatch(r"\w{1,64}", str(name)):
            raise InputError(f"{target / MANIFEST} names a folder {name!r}: not one that keyshift makes")
    for name, value in description.items():
        if manifest.get(name) != value:
            raise InputError(f"{target} holds statistics of another {name}: {manifest.get(name)!r}, not {value!r}")
    return manifest


def windows_together(stats: Tallied) -> int:
    """How many neighbouring windows lie in one folder: one, unless that made many folders."""
    numbers, rows = np.asarray(stats.seen, dtype=np.int64), stats.rows_at_most
    if numbers.size <= FOLDERS:
        return 1
    together = -(-numbers.size // FOLDERS)
    while together > 1:
        _, at = np.unique(numbers // together, return_inverse=True)
        if np.bincount(at, weights=rows).max() <= ROWS:
            break
        together //= 2
    return together


def write_tables(
    stats: Tallied, folder: Path | HadoopPath, block: int, keys: Sequence[str] = ()
) -> dict[str, dict[str, dict[str, Any]]]:
    """Write the tables of one run, partitioned by blocks of so many windows; returns what to check them by."""
    start = stats.windows.start(F.col("window")).alias("window_start")
    ordered = stats._ordered()
    of_keys, kept = key_tables(stats, keys) if keys else ([], [])
    tables = [("arrivals", stats.arrived), ("load", ordered.added), *(("keys", table) for table in of_keys)]
    tables += [("traffic", ordered.pairs)] if stats.topology.edges else []
    # Rows of all tables that come of one frame, counted in one pass.
    of_table = F.when(F.col("code") == ARRIVED, "arrivals").when(F.col("kind") < len(stats.topology.operators), "load")
    counted = [stats.counted.where(F.col("code") >= ARRIVED).withColumn("table", of_table.otherwise("traffic"))]
    counted += [table.withColumn("table", F.lit("keys")) for table in of_keys]
    for name, table in tables:
        columns = [column for column in table.columns if column != "window" or block > 1]
        chosen = table.select(floor_of(F.col("window"), block).alias(unit_of(block)), start, *columns)
        with settings(table.sparkSession, **AS_SORTED):
            chosen.write.mode("append").partitionBy(unit_of(block)).parquet(url_of(folder / name))
    if isinstance(folder, Path) and stats.seen and not any((folder / "arrivals").rglob("*.parquet")):
        said = (
            f"Spark's workers wrote to disks of their own, not to {folder}: name a file system that all of them share"
        )
        raise InputError(f"{said}, such as hdfs://... or s3a://...")
    try:
        return checks(counted, block)
    finally:
        for table in kept:
            table.unpersist()


def key_tables(stats: Tallied, operators: Sequence[str]) -> tuple[list[DataFrame], list[DataFrame]]:
    """window, operator, key, key_group, tuples, load, state_added of each operator, keys as texts; and what Spark keeps."""
    if stats.log is None:
        raise InputError("these statistics are of a stream that has ended: statistics of single keys need the log")
    tables, kept = [], []
    numbers = {stats.topology.number(name): name for name in operators}
    for of_log in stats.topology.logs or (None,):
        own = [o for o in numbers if stats.topology.operators[o].log == of_log]
        if not own:
            continue
        log = stats.log(numbers[own[0]])
        kept.append(persisted(log.counted(*((o,) for o in own))))
        for o in own:
            text = label(F.col("key"), log.kind(o)).cast("string")
            rows = by_window(log, side(kept[-1], o), o).withColumns({"key": text, "operator": F.lit(o)})
            order = stats._order(F.col("key_group").cast("bigint") * 2**BITS)
            tables.append(rows.orderBy(*order, "key").select("window", "operator", *rows.columns[1:-1]))
    return tables, kept


MEASURES = ("load", *STATE, "bytes", "state_added")


def checks(parts: Sequence[DataFrame], block: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return {table: {block: {"rows": number of rows, column: sum of the column, ...}}}, without sums that are null."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for part in parts:
        sums = (F.sum(F.col(column).cast("double")).alias(column) for column in MEASURES if column in part.columns)
        of_block = part.groupBy(floor_of(F.col("window"), block).alias("block"), "table")
        rows = of_block.agg(F.count(F.lit(1)).alias("rows"), F.sum("tuples").alias("tuples"), *sums).collect()
        for (at, table, *_), row in sorted((tuple(row), row.asDict()) for row in rows):
            known = found.setdefault(table, {}).setdefault(str(at), {})
            known |= {what: known.get(what, 0) + value for what, value in list(row.items())[2:] if value is not None}
    return found


def commit(
    target: Path | HadoopPath, manifest: dict[str, Any], run: str | None = None, about: dict[str, Any] | None = None
) -> None:
    """Publish a manifest and a finished run in one step; delete runs that it no longer names.

    Which runs there are is read again from the directory, so that what has been committed since the manifest was opened
    stays.
    """
    with hadoop.claim(target):
        there = (target / MANIFEST).exists()
        before = manifest_of(target, whole=False) if there else {"runs": {}}
        runs, older, replaced = before["runs"], before.get("older", []), set[str]()
        if run is not None and about is not None:
            fresh = set(about["windows"])
            for part in tuple(older):
                if fresh and part["first"] <= max(fresh) and min(fresh) <= part["last"]:
                    runs = {**_former(target, part), **runs}
                    older = [other for other in older if other is not part]
            held, runs = runs, {name: left for name, old in runs.items() if (left := _without(old, fresh))}
            replaced = set(held) - set(runs)
            runs[run] = about
        runs, older = _moved(target, runs, older)
        manifest = {**manifest, "runs": runs, "older": older}
        replace_file(target / MANIFEST, json.dumps({**manifest, "rejected": rejected_counts(manifest)}) + "\n")
        for name in replaced:
            hadoop.remove(target / "runs" / name, known=True)
        for part in before.get("older", []):
            if part not in older:
                (target / part["file"]).unlink()


RUNS, PARTS = 32, 8
"""Runs that the manifest itself holds, and files of so many runs, or of the same number of these, that are put together."""


def _moved(
    target: Path | HadoopPath, runs: dict[str, Any], older: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Put runs into a file of their own where the manifest has many, and such files together, so that it stays small.

    A run is written anew O(log(runs)) times, however many there are.
    """
    if len(runs) <= RUNS:
        return runs, older
    level = 0
    while len(alike := [part for part in older if part["level"] == level]) >= PARTS - 1:
        for part in alike:
            runs = {**_former(target, part), **runs}
        older, level = [part for part in older if part["level"] != level], level + 1
    name = f"runs-{uuid.uuid4().hex[:12]}.json"
    replace_file(target / name, json.dumps(runs) + "\n")
    windows = [window for run in runs.values() for window in run["windows"]]
    refused = added_up([None, why, count] for run in runs.values() for _, why, count in run["refused"])
    return {}, [*older, {"file": name, "first": min(windows), "last": max(windows), "level": level, "refused": refused}]


def added_up(refused: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Add up rows (window, number that says why, rows)."""
    sums: Counter[Any] = Counter()
    for window, why, rows in refused:
        sums[window, why] += rows
    return [[*key, rows] for key, rows in sorted(sums.items(), key=lambda item: (item[0][0] is not None, item))]


def _former(target: Path | HadoopPath, part: dict[str, Any]) -> dict[str, Any]:
    """The runs of such a file."""
    with local_copy(target / part["file"]) as folder:
        return runs_of(folder / part["file"])


def _without(run: dict[str, Any], fresh: set[int]) -> dict[str, Any] | None:
    """Return a run less the windows that another has written; left without any it is forgotten, refused rows too."""
    kept = [number for number in run["windows"] if number not in fresh]
    refused = [row for row in run["refused"] if row[0] is None or row[0] not in fresh]
    blocks = {str(number // run.get("block", 1)) for number in kept}
    checked = {
        table: {number: sums for number, sums in of_blocks.items() if number in blocks}
        for table, of_blocks in run.get("checks", {}).items()
    }
    return {**run, "windows": kept, "refused": refused, **({"checks": checked} if checked else {})} if kept else None


def rejected_counts(manifest: dict[str, Any]) -> dict[str, int]:
    """Return rows refused by kind, over all runs and the stream."""
    topology = Topology.from_dict(manifest["topology"], trust=True)  # nothing is run: only the names are asked for
    return dict(sorted(counts_by_kind(((code, count) for _, code, count in _refused_rows(manifest)), topology).items()))


def replace_file(file: Path | HadoopPath, text: str) -> None:
    """Write a file whole or not at all."""
    file.write_text(text) if isinstance(file, HadoopPath) else write_text(file, text)


def clear(target: Path | HadoopPath) -> None:
    """Delete the runs of killed jobs, which the manifest does not name."""
    folders = target / "runs"
    runs = set(manifest_of(target)["runs"]) if (target / MANIFEST).exists() else set()
    for folder in folders.iterdir() if folders.is_dir() else []:
        if folder.name not in runs:
            hadoop.remove(folder)

"""Writing statistics so that a killed job leaves the old answer or the new one, never half.

Spark writes a run's tables into a folder of their own, which nothing refers to yet. Then one small file,
``statistics.json``, is replaced in a single step (`os.replace`): from that instant the run's windows count, and the
windows of older runs that it repeats do not. Last, runs that hold nothing any more are deleted. A kill before the
replacement leaves the old answer and a folder that the next run clears; a kill after it leaves the new one. One writer
at a time, and only its own folders are deleted: see `keyshift.spark_stats.directory`.

What a run wrote is counted as soon as it is written, window by window: ``checks`` holds for each table and window its
rows and the sums of its columns, so that a reader notices a file that is missing or changed.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.models.files.statistics_manifest import FORMAT, MANIFEST, read_manifest
from keyshift.spark_stats import directory
from keyshift.spark_stats.acceptance import counts_by_kind
from keyshift.spark_stats.key_groups import KeyGroups, label
from keyshift.spark_stats.tallies import LATE
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows

if TYPE_CHECKING:
    from keyshift.spark_stats.statistics import Stats

SUMS = {
    "load": ("tuples", "load", "state_whole", "state_high", "state_low"),
    "traffic": ("tuples", "bytes"),
    "arrivals": ("tuples",),
    "keys": ("tuples", "load", "state_added"),
}
"""The columns of each table whose sums are kept."""


def write(
    stats: Stats,
    target: Path,
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
    target = target.absolute()  # Spark may have been started in another folder
    with directory.claim(target):
        if manifest is None:
            manifest = open_manifest(target, description(stats.topology, stats.windows, stats.key_groups))
            if not stats.seen and stats.refusals:
                found = ", ".join(f"{kind}: {rows}" for kind, rows in stats.rejected_counts().items())
                raise InputError(f"no row of the log can be used ({found})")
        run = uuid.uuid4().hex[:12]
        directory.make(target / "runs" / run)
        checks = write_tables(stats, target / "runs" / run, keys)
        seen = set(stats.seen)
        refused = [list(row) for row in stats.refusals if not placed_only or (row[0] in seen and row[1] != LATE)]
        manifest = with_defaults(manifest, **(options or {}))
        commit(target, manifest, run, {"windows": sorted(seen), "refused": refused, "checks": checks})


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
        "key_groups": key_groups.count,
        "hash": key_groups.hash,
    }


def open_manifest(target: Path, description: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a directory, a fresh one where there is none; refuse one of other statistics."""
    if not (target / MANIFEST).exists():
        return {**description, "runs": {}}
    manifest = read_manifest(target)
    for name in (*manifest["runs"], *manifest.get("stream", {}).get("pending", {})):
        if not re.fullmatch(r"\w{1,64}", str(name)):
            raise InputError(f"{target / MANIFEST} names a folder {name!r}: not one that keyshift makes")
    for name, value in description.items():
        if manifest[name] != value:
            raise InputError(f"{target} holds statistics of another {name}: {manifest[name]!r}, not {value!r}")
    return manifest


def write_tables(stats: Stats, folder: Path, keys: Sequence[str] = ()) -> dict[str, dict[str, dict[str, Any]]]:
    """Write the tables of one run, partitioned by window; returns what to check them by."""
    start = stats.windows.start(F.col("window")).alias("window_start")
    tables: dict[str, DataFrame] = {"load": stats.added, "arrivals": stats.arrived}
    if stats.topology.edges:
        tables["traffic"] = stats.pairs
    if keys:
        tables["keys"] = key_table(stats, keys)
    for name, table in tables.items():  # a window lies in one partition: one file for each window and table
        columns = [column for column in table.columns if column != "window"]
        table.select("window", start, *columns).write.partitionBy("window").parquet(str(folder / name))
    read = stats.added.sparkSession.read  # a scan of what was written costs less than computing the tables again
    return checks({name: read.schema(table.schema).parquet(str(folder / name)) for name, table in tables.items()})


def key_table(stats: Stats, operators: Sequence[str]) -> DataFrame:
    """window, operator, key, key_group, tuples, load, state_added: of single keys, written as texts."""
    if stats.log is None:
        raise InputError("these statistics are of a stream that has gone by: single keys need the log")
    log, parts = stats.log(), []
    for name in operators:
        o = stats.topology.number(name)
        text = label(F.col("key"), log.kind(o)).cast("string")
        rows = log.keys(name, stats.seen[-1]).by_window
        parts.append(rows.withColumns({"key": text, "operator": F.lit(o)}))
    columns = ("window", "operator", "key", "key_group", "tuples", "load", "state_added")
    whole = reduce(DataFrame.union, [part.select(*columns) for part in parts])
    return whole.repartition(F.col("window")).sortWithinPartitions("window", "operator", "key")


def checks(tables: dict[str, DataFrame]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return {table: {window: {"rows": number of rows, column: sum of the column, ...}}}, without sums that are null."""
    longest = max(len(SUMS[name]) for name in tables)
    parts = []
    for name, table in tables.items():
        texts = [F.sum(column).cast("string") for column in SUMS[name]]
        texts += [F.lit(None).cast("string")] * (longest - len(texts))
        columns = [F.lit(name).alias("table"), F.count(F.lit(1)).alias("rows")]
        columns += [text.alias(f"sum_{i}") for i, text in enumerate(texts)]
        parts.append(
            table.groupBy("window")
            .agg(*columns)
            .select("table", "window", "rows", *(f"sum_{i}" for i in range(longest)))
        )
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in tables}
    for name, window, rows, *sums in sorted(reduce(DataFrame.union, parts).collect(), key=lambda row: (row[0], row[1])):
        real = ("load", "bytes", "state_added")
        known = {c: float(v) if c in real else int(v) for c, v in zip(SUMS[name], sums, strict=False) if v}
        found[name][str(window)] = {"rows": rows, **known}
    return found


def commit(target: Path, manifest: dict[str, Any], run: str | None = None, about: dict[str, Any] | None = None) -> None:
    """Make a manifest, and a finished run, count in one step; clear what no longer does.

    Which runs there are is read again from the directory, so that what has been committed since the manifest was opened
    stays.
    """
    with directory.claim(target):
        before: dict[str, Any] = read_manifest(target)["runs"] if (target / MANIFEST).exists() else {}
        runs = before
        if run is not None and about is not None:
            fresh = set(about["windows"])
            runs = {name: left for name, old in before.items() if (left := _without(old, fresh))}
            runs[run] = about
        counts = rejected_counts({**manifest, "runs": runs})
        replace_file(target / MANIFEST, json.dumps({**manifest, "runs": runs, "rejected": counts}) + "\n")
        clear(target, set(runs), set(before))


def _without(run: dict[str, Any], fresh: set[int]) -> dict[str, Any] | None:
    """Return a run less the windows that another has written; left without any it is forgotten, refused rows too."""
    kept = [number for number in run["windows"] if number not in fresh]
    refused = [row for row in run["refused"] if row[0] is None or row[0] not in fresh]
    checked = {
        table: {number: sums for number, sums in windows.items() if int(number) not in fresh}
        for table, windows in run.get("checks", {}).items()
    }
    return {"windows": kept, "refused": refused, **({"checks": checked} if checked else {})} if kept else None


def rejected_counts(manifest: dict[str, Any]) -> dict[str, int]:
    """Return rows refused by kind, over all runs and the stream."""
    topology = Topology.from_dict(manifest["topology"], trust=True)  # nothing is run: only the names are asked for
    rows = [row for run in manifest["runs"].values() for row in run["refused"]]
    rows += manifest.get("stream", {}).get("refused", [])
    return dict(sorted(counts_by_kind(((code, count) for _, code, count in rows), topology).items()))


def replace_file(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    with scratch.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(file)


def clear(target: Path, runs: set[str], before: set[str]) -> None:
    """Delete the runs that the manifest does not name any more, and those that a killed job left."""
    folders = target / "runs"
    for folder in folders.iterdir() if folders.is_dir() else []:
        if folder.name not in runs:
            directory.remove(folder, known=folder.name in before)

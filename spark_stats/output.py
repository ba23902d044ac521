"""Writing statistics so that a killed job leaves the old answer or the new one, never half.

Spark writes a run's tables into a folder of their own, which nothing refers to yet. Then one small file,
``statistics.json``, is replaced in a single step (`os.replace`): from that instant the run's windows count, and the
windows of older runs that it repeats do not. Last, runs that hold nothing any more are deleted. A kill before the
replacement leaves the old answer and a folder that the next run clears; a kill after it leaves the new one. One writer
at a time.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.models.statistics_io import FORMAT, MANIFEST, read_manifest, windows_of

if TYPE_CHECKING:
    from keyshift.spark_stats.statistics import Stats


def write(stats: Stats, target: Path, *, nodes: int | None = None, placement: str | None = None) -> None:
    """Write the statistics of one run; see `Stats.write`."""
    manifest = open_manifest(target, describe(stats))
    run = uuid.uuid4().hex[:12]
    write_tables(stats, target / "runs" / run)
    about = {"windows": stats.seen, "refused": [list(row) for row in stats.refusals]}
    commit(target, manifest, run, about, nodes=nodes, placement=placement)


def describe(stats: Stats) -> dict[str, Any]:
    """Return what must be the same for all runs of one directory."""
    return {
        "keyshift_statistics": FORMAT,
        "topology": stats.topology.to_dict(),
        "length": stats.windows.length,
        "origin": stats.windows.origin,
        "key_groups": stats.key_groups.count,
        "hash": stats.key_groups.hash,
    }


def open_manifest(target: Path, description: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a directory, a fresh one where there is none; refuse one of other statistics."""
    if not (target / MANIFEST).exists():
        if target.exists() and any(entry.name != "runs" for entry in target.iterdir()):
            raise InputError(f"{target} exists and holds no statistics: it is not written to")
        return {**description, "runs": {}}
    manifest = read_manifest(target)
    for name, value in description.items():
        if manifest[name] != value:
            raise InputError(f"{target} holds statistics of another {name}: {manifest[name]!r}, not {value!r}")
    return manifest


def write_tables(stats: Stats, folder: Path) -> None:
    """Write the tables of one run, partitioned by window."""
    start = stats.windows.start(F.col("window")).alias("window_start")
    tables: dict[str, DataFrame] = {"load": stats.added, "arrivals": stats.arrived}
    if stats.topology.edges:
        tables["traffic"] = stats.pairs
    for name, table in tables.items():  # a window lies in one partition: one file for each window and table
        columns = [column for column in table.columns if column != "window"]
        table.select("window", start, *columns).write.partitionBy("window").parquet(str(folder / name))


def commit(
    target: Path,
    manifest: dict[str, Any],
    run: str,
    about: dict[str, Any],
    *,
    nodes: int | None = None,
    placement: str | None = None,
) -> None:
    """Make a finished run count, in one step, and clear what no longer does."""
    fresh = set(about["windows"])
    runs: dict[str, Any] = {}
    for name, old in manifest["runs"].items():
        kept = [number for number in old["windows"] if number not in fresh]
        if kept:  # a run of which no window is left is forgotten, with the rows that had no window
            refused = [row for row in old["refused"] if row[0] is None or row[0] not in fresh]
            runs[name] = {**old, "windows": kept, "refused": refused}
    runs[run] = about
    options = {"nodes": nodes, "placement": placement}
    replaced = {**manifest, **{name: value for name, value in options.items() if value is not None}, "runs": runs}
    replace_file(target / MANIFEST, json.dumps(replaced, indent=1) + "\n")
    clear(target, set(runs))


def replace_file(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    with scratch.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(file)


def clear(target: Path, runs: set[str]) -> None:
    """Delete the runs that the manifest does not name."""
    for folder in (target / "runs").iterdir():
        if folder.name not in runs:
            shutil.rmtree(folder, ignore_errors=True)


__all__ = ["clear", "commit", "describe", "open_manifest", "replace_file", "windows_of", "write", "write_tables"]

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
from keyshift.models.files.statistics import FORMAT, MANIFEST, read_manifest
from keyshift.spark_stats.acceptance import counts_by_kind
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.tallies import LATE
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows

if TYPE_CHECKING:
    from keyshift.spark_stats.statistics import Stats

OURS = ("runs", "pending", "checkpoint")
"""What a job killed before its first commit leaves in an otherwise empty directory."""


def write(
    stats: Stats,
    target: Path,
    *,
    nodes: int | None = None,
    placement: str | None = None,
    manifest: dict[str, Any] | None = None,
    placed_only: bool = False,
) -> None:
    """Write the statistics of one run; see `Stats.write`.

    With a `manifest`, what it says is committed in the same step. With `placed_only`, refused rows that
    belong to no window of the run are left to the caller.
    """
    if manifest is None:
        manifest = open_manifest(target, description(stats.topology, stats.windows, stats.key_groups))
    run = uuid.uuid4().hex[:12]
    write_tables(stats, target / "runs" / run)
    seen = set(stats.seen)
    refused = [list(row) for row in stats.refusals if not placed_only or (row[0] in seen and row[1] != LATE)]
    manifest = with_defaults(manifest, nodes, placement)
    commit(target, manifest, run, {"windows": sorted(seen), "refused": refused})


def with_defaults(manifest: dict[str, Any], nodes: int | None, placement: str | None) -> dict[str, Any]:
    """Return the manifest with what its reader shall take where nothing else is asked for."""
    options = {"nodes": nodes, "placement": placement}
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
        if target.exists() and any(entry.name not in OURS for entry in target.iterdir()):
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


def commit(target: Path, manifest: dict[str, Any], run: str | None = None, about: dict[str, Any] | None = None) -> None:
    """Make a manifest, and a finished run, count in one step; clear what no longer does."""
    runs: dict[str, Any] = manifest["runs"]
    if run is not None and about is not None:
        fresh = set(about["windows"])
        runs = {name: left for name, old in runs.items() if (left := _without(old, fresh))}
        runs[run] = about
    counts = rejected_counts({**manifest, "runs": runs})
    replace_file(target / MANIFEST, json.dumps({**manifest, "runs": runs, "rejected": counts}) + "\n")
    clear(target, set(runs))


def _without(run: dict[str, Any], fresh: set[int]) -> dict[str, Any] | None:
    """Return a run less the windows that another has written; left without any it is forgotten, refused rows too."""
    kept = [number for number in run["windows"] if number not in fresh]
    refused = [row for row in run["refused"] if row[0] is None or row[0] not in fresh]
    return {"windows": kept, "refused": refused} if kept else None


def rejected_counts(manifest: dict[str, Any]) -> dict[str, int]:
    """Return rows refused by kind, over all runs and the stream."""
    topology = Topology.from_dict(manifest["topology"])
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


def clear(target: Path, runs: set[str]) -> None:
    """Delete the runs that the manifest does not name."""
    folders = target / "runs"
    for folder in folders.iterdir() if folders.exists() else []:
        if folder.name not in runs:
            shutil.rmtree(folder, ignore_errors=True)

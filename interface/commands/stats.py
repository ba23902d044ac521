"""keyshift stats: from a log of tuples to statistics on disk."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from keyshift.commands import common
from keyshift.models import arrays
from keyshift.models.errors import InputError
from keyshift.models.files.statistics_manifest import read_manifest, windows_of
from keyshift.models.placement import placement as place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stats(
    log: Annotated[str, typer.Argument(help="Parquet, CSV, JSON lines or text: a file, a folder or a URL.")],
    topology: Annotated[Path, typer.Option("--topology", help="A YAML file: operators and edges.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of statistics; windows are added or replaced.")],
    time: Annotated[str | None, typer.Option(help="Spark SQL for a tuple's time.")] = None,
    window: Annotated[str | None, typer.Option(help='Length of the windows, such as "1 hour". Default: one.')] = None,
    origin: Annotated[str | None, typer.Option(help="An instant at which a window starts (ISO 8601).")] = None,
    key_groups: Annotated[int, typer.Option(help="Key groups of every operator.")] = 128,
    hash_: Annotated[str, typer.Option("--hash", help="xxhash64, flink, kafka, storm or java.")] = "xxhash64",
    nodes: Annotated[int | None, typer.Option(help="Nodes, so that the output can be solved as it is.")] = None,
    placement: Annotated[str, typer.Option(help="Key group to node: ranges, modulo or consistent.")] = "ranges",
    format_: Annotated[str | None, typer.Option("--format", help="parquet, csv, json or words.")] = None,
    schema: Annotated[str | None, typer.Option(help='Columns of CSV and JSON: "ts timestamp, k string".')] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Read the folder as a stream, to its end.")] = False,
    watermark: Annotated[str, typer.Option(help="With --stream: how late a tuple may come.")] = "0 seconds",
    finish: Annotated[bool, typer.Option(help="With --stream: close all windows at the end.")] = True,
    master: Annotated[str | None, typer.Option(help="Spark master. Default: local[*].")] = None,
    conf: Annotated[list[str] | None, typer.Option("--conf", help="A Spark setting, name=value; repeatable.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a log with a single unusable row.")] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Gather load, state and traffic of a topology from a log of tuples."""
    from keyshift.spark_stats import StatsStream, Topology, collect, local_session, read_log, read_log_stream
    from keyshift.spark_stats.collect import refuse
    from keyshift.spark_stats.directory import claim
    from keyshift.spark_stats.failures import in_one_sentence
    from keyshift.spark_stats.output import commit, with_defaults

    described = Topology.from_yaml(topology)
    if stream and (time is None or window is None):
        raise InputError("--stream needs --time and --window")
    if stream and strict:
        raise InputError("--strict needs the whole log: it does not go with --stream")
    _refuse_early(log, format_, schema, time, key_groups, nodes, placement)
    gather: dict[str, Any] = {"time": time, "window": window, "origin": origin}
    gather |= {"key_groups": key_groups, "hash": hash_}
    settings = _settings(conf)
    with (
        claim(out),
        local_session("keyshift stats", master=master, conf=settings) as spark,
        _progress(spark),
        in_one_sentence(),
    ):
        if stream:
            events = read_log_stream(spark, log, format=format_, schema=schema)
            running = StatsStream(events, described, out, watermark=watermark, **gather)
            running.start().awaitTermination()
            if finish:
                running.finish()
            commit(out, with_defaults(read_manifest(out), nodes, placement))
        else:
            events = read_log(spark, log, format=format_, schema=schema)
            with collect(events, described, **gather) as found:
                if strict:
                    refuse(found.rejected_counts())
                found.write(out, nodes=nodes, placement=placement)
    _report(out, as_json)


def _refuse_early(
    log: str, format_: str | None, schema: str | None, time: str | None, key_groups: int, nodes: int | None, where: str
) -> None:
    """Refuse whatever can be refused before Spark takes its seconds to start."""
    from keyshift.spark_stats.expressions import check_schema, check_text
    from keyshift.spark_stats.sources import check_log

    arrays.whole("--nodes", nodes, least=1)
    place(where, arrays.whole("--key-groups", key_groups, least=1, optional=False) or 1, nodes or 1)
    check_log(log, format_)
    if time is not None:
        check_text("--time", time)
    if schema is not None:
        check_schema(schema)


def _report(out: Path, as_json: bool) -> None:
    manifest = read_manifest(out)
    held = sorted(windows_of(manifest))
    record = {"path": str(out), "windows": len(held), "key_groups": manifest["key_groups"]}
    record |= {"operators": [o["name"] for o in manifest["topology"]["operators"]], "rejected": manifest["rejected"]}
    if as_json:
        common.print_json(record)
        return
    size = f"{out}: {len(held)} windows, {len(record['operators'])} operators of {record['key_groups']} key groups"
    table = Table(title=size, min_width=len(size))
    table.add_column("rows refused because")
    table.add_column("rows", justify="right")
    for kind, rows in manifest["rejected"].items():
        table.add_row(kind, f"{rows:,}")
    if not manifest["rejected"]:
        table.add_row("none", "0")
    common.console().print(table)


def _settings(conf: list[str] | None) -> dict[str, str]:
    found = {}
    for setting in conf or []:
        name, sign, value = setting.partition("=")
        if not sign or not name:
            raise InputError(f"--conf {setting}: write name=value")
        found[name] = value
    return found


@contextmanager
def _progress(spark: SparkSession) -> Iterator[None]:
    """Show the tasks of Spark's running stages, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    tracker, done = spark.sparkContext.statusTracker(), threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} tasks"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Spark", total=None)

        def watch() -> None:
            while not done.wait(0.5):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                active = [stage for stage in stages if stage is not None]
                if active:
                    completed, total = (sum(getattr(s, n) for s in active) for n in ("numCompletedTasks", "numTasks"))
                    bar.update(task, description=active[0].name.split(" at ")[0], completed=completed, total=total)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

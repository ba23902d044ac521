"""keyshift stats: from a log of tuples to statistics on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from keyshift.commands import common
from keyshift.commands.stats_job import StatsJob


def stats(
    log: Annotated[
        list[str],
        typer.Argument(
            help="Parquet, CSV, JSON lines or text: a file, folder or URL; of more than one log NAME=PATH each."
        ),
    ],
    topology: Annotated[Path, typer.Option("--topology", help="A YAML file: operators and edges.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Directory of statistics, or a URL; windows are added or replaced.")
    ],
    time: Annotated[str | None, typer.Option(help="Spark SQL for a tuple's time.")] = None,
    window: Annotated[str | None, typer.Option(help='Length of the windows, such as "1 hour". Default: one.')] = None,
    origin: Annotated[str | None, typer.Option(help="An instant at which a window starts (ISO 8601).")] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="Whose clocks cut windows of days: Europe/Berlin, or session. Default: UTC.")
    ] = None,
    key_groups: Annotated[int, typer.Option(help="Key groups of every operator.")] = 128,
    hash_: Annotated[str, typer.Option("--hash", help="xxhash64, flink, kafka, storm or java.")] = "xxhash64",
    nodes: Annotated[int | None, typer.Option(help="Nodes, so that the output can be solved as it is.")] = None,
    placement: Annotated[str, typer.Option(help="Key group to node: ranges, modulo or consistent.")] = "ranges",
    capacities: Annotated[
        str | None, typer.Option(help="Capacity of each node, such as 1,1,2; instead of --nodes.")
    ] = None,
    current: Annotated[
        Path | None, typer.Option(help="CSV of operator, key_group, node: where they run now. Default: the placement.")
    ] = None,
    draining: Annotated[str | None, typer.Option(help="Nodes to be removed, such as 3,4.")] = None,
    keys: Annotated[
        list[str] | None, typer.Option(help="Operator whose single keys are written too; repeatable.")
    ] = None,
    transitions: Annotated[
        float | None,
        typer.Option(
            help="Target utilisation: write transitions.json, how node counts follow each other (needs --nodes)."
        ),
    ] = None,
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
    options = {name: value for name, value in locals().items() if name != "as_json"}
    _report(out, StatsJob(**options).run(), as_json)


def _report(out: str, manifest: dict[str, Any], as_json: bool) -> None:
    from keyshift.models.files.statistics import windows_of

    held = sorted(windows_of(manifest))
    record = {"path": out, "windows": len(held), "key_groups": manifest["key_groups"]}
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

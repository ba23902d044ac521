"""keyshift reproduce: a figure, a table or a claim of the five papers, run again, our figures beside the paper's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.commands import common
from keyshift.models import InputError
from keyshift.terminal import table

SIZES = ("quick", "full")


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which one, such as nasir2015:9; see --list.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List all, with verdicts and seconds.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a look.")] = False,
    out: Annotated[Path, typer.Option(help="A folder for pictures, their data and tables.")] = Path("reproduced"),
    as_json: common.JsonOption = False,
) -> None:
    """Run a figure, a table or a claim of the five papers again; with --list, name all of them."""
    from keyshift.papers import registry

    if list_all:
        rows = [figure for key, figure in registry.figures().items() if key.startswith(name or "")]
        _listed(rows, as_json)
        return
    if name is None:
        raise InputError("say which figure, such as nasir2015:9; keyshift reproduce --list has all")
    figure = registry.find(name)
    with common.progress(f"{name}: {figure.shows}"):
        made = registry.reproduce(name, quick=quick, out=out)
    if as_json:
        numbers = made.numbers.astype(object).where(made.numbers.notna(), None)
        common.print_json({**figure.to_dict(), "took": made.seconds, "quick": quick, "files": list(map(str, made.files)),
                           "compared": numbers.to_dict("records")})  # fmt: skip
        return
    console = common.console()
    console.print(f"{figure.id}: {figure.shows}", soft_wrap=True)
    if len(made.numbers):
        columns = list(made.numbers.columns)
        rows = (map(_cell, row) for row in made.numbers.itertuples(index=False))
        console.print(table(columns, rows, right=[name for name in columns if name != "figure"]))
    said = [("verdict", figure.said), ("why", figure.why), ("data", figure.data), ("seed", figure.seed)]
    said += [
        ("seconds", f"{made.seconds:.1f}" + (", quick" if quick else "")),
        ("written", ", ".join(map(str, made.files))),
    ]
    for what, text in said:
        if text:
            console.print(f"{what}: {text}", soft_wrap=True, markup=False)


def _cell(value: Any) -> str:
    return "-" if value is None or value != value else f"{value:.4g}" if isinstance(value, float) else str(value)


def _listed(rows, as_json: bool) -> None:  # type: ignore[no-untyped-def]
    if as_json:
        common.print_json([row.to_dict() for row in rows])
        return
    times = [[f"{row.kept[size]['seconds']:.0f}" if size in row.kept else "-" for size in SIZES] for row in rows]
    cells = ((row.id, row.shows, row.said, *seconds) for row, seconds in zip(rows, times, strict=True))
    heads = [f"{size}, s" for size in SIZES]
    console = common.console()
    console.print(table(["name", "what it shows", "verdict", *heads], cells, right=heads, whole=("name",)))
    counts = Counter(row.said for row in rows)
    console.print(
        f"{len(rows)} rows: " + ", ".join(f"{count} {said}" for said, count in counts.items()), soft_wrap=True
    )

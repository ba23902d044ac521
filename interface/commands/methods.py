"""keyshift methods: which problems there are, and which methods answer them; keyshift warm-up: compile them ahead."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.catalogue import FORMULATIONS
from keyshift.catalogue.method import Formulation, Method
from keyshift.commands import common


def methods(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only this problem.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """List problems and methods; the first method of each problem is its default."""
    from rich.markup import escape as rich_text
    from rich.table import Table

    common.expect_problem(problem)
    chosen = [(f, m) for name, f in FORMULATIONS.items() if problem in (None, name) for m in f.methods]
    if as_json:
        common.print_json([as_row(formulation, method) for formulation, method in chosen])
        return
    table = Table()
    for heading in ("problem", "method", "kind", "source"):
        table.add_column(heading)
    for formulation, method in chosen:
        limits = f" (for {method.limits})" if method.limits else ""
        table.add_row(formulation.name, method.name, method.kind, rich_text(f"{method.source}{limits}"))
    common.console().print(table)


COLUMNS = ("method", "kind", "certain", "for", "options", "source", "code", "lesson")


def as_row(formulation: Formulation, method: Method) -> dict[str, Any]:
    """All that the catalogue says of a method."""
    return {
        "problem": formulation.name,
        "method": method.name,
        "kind": method.kind,
        "guarantee": method.guarantee,
        "limits": method.limits,
        "options": {name: repr(default) for name, default in method.options.items()},
        "source": method.source,
        "code": place(method.code),
        "lesson": method.lesson or formulation.lesson,
    }


def place(code: str) -> str:
    """Where in the repository ``"module:attribute"`` stands."""
    module, _, attribute = code.partition(":")
    inside = module.removeprefix("keyshift.")
    floors = ("models", "solvers", "heuristics", "spark_stats")
    folder = "" if inside.partition(".")[0] in floors else "interface/"
    return f"{folder}{inside.replace('.', '/')}.py: {attribute}"


def as_markdown(formulations: Iterable[Formulation]) -> str:
    """One heading and one table for each problem."""
    lines = []
    for formulation in formulations:
        lines += [f"## {formulation.name}", "", formulation.summary, ""]
        lines += [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        lines += [_table_row(as_row(formulation, method)) for method in formulation.methods]
        lines.append("")
    return "\n".join(lines)


def _table_row(row: dict[str, Any]) -> str:
    options = ", ".join(f"`{name}`" for name in row["options"]) or "-"
    lesson = f"[{row['lesson'].rpartition('/')[2]}]({row['lesson']}.md)"
    cells = [f"`{row['method']}`", row["kind"], row["guarantee"], row["limits"] or "-"]
    cells += [options, row["source"], f"`{row['code']}`", lesson]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


# keyshift warm-up: compile ahead ---------------------------------------------------------------------------------------


def warm_up(
    problem: Annotated[str | None, typer.Argument(help="Only what this problem's methods call.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep it here; later runs find it where NUMBA_CACHE_DIR names this folder.")
    ] = None,
) -> None:
    """Compile ahead what methods need: for images and CI."""
    if cache is not None:
        os.environ["NUMBA_CACHE_DIR"] = str(cache.absolute())
    from keyshift.solving import warm_up as run

    with common.progress("warming up"):
        seconds = run(problem)
    where = "" if cache is None else f" and kept in {cache}: set NUMBA_CACHE_DIR={cache.absolute()}"
    common.console().print(
        f"compiled in {seconds:.0f} s{where}" if seconds else "all was compiled before", soft_wrap=True
    )

"""keyshift families: the generators of instances, paper by paper."""

from __future__ import annotations

from typing import Annotated

import typer

from keyshift.catalogue.families import FAMILIES, Family
from keyshift.commands import common


def families(
    name: Annotated[str | None, typer.Argument(help="Show this family's parameters.")] = None,
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only families of this problem.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """List the families of instances; with a name, what its parameters are."""
    from rich.markup import escape as rich_text
    from rich.table import Table

    from keyshift.studies.drawing import families as listed
    from keyshift.studies.drawing import find_family

    common.expect_problem(problem)
    chosen = listed(problem) if name is None else [find_family(name)]
    if as_json:
        common.print_json([_record(family) for family in chosen])
        return
    if name is not None:
        _show(FAMILIES[name])
        return
    table = Table()
    for heading in ("family", "problem", "what it draws"):
        table.add_column(heading, no_wrap=heading == "family")
    for family in chosen:
        table.add_row(family.name, family.problem, rich_text(f"{family.summary} {family.source}"))
    common.console().print(table)


def _record(family: Family) -> dict[str, object]:
    names = ("name", "problem", "summary", "source", "code", "parameters")
    return {**{n: getattr(family, n) for n in names}, "grid": {n: list(v) for n, v in family.grid.items()}}


def _show(family: Family) -> None:
    """A family's parameters with their defaults, and all that is drawn where one is not given."""
    console = common.console()
    console.print(f"{family.name}: {family.summary} {family.source}")
    for name, default in family.parameters.items():
        shown = ", ".join(map(str, family.grid[name])) + " (all)" if name in family.grid else default
        console.print(f"  --{name.replace('_', '-')} {shown}")

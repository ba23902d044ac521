"""keyshift methods: which problems there are, and which methods answer them."""

from __future__ import annotations

from typing import Annotated

import typer

from keyshift.catalogue import FORMULATIONS
from keyshift.catalogue.listing import as_row
from keyshift.commands import common
from keyshift.models import InputError


def methods(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only this problem.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """List problems and methods; the first method of each problem is its default."""
    from rich.markup import escape as rich_text
    from rich.table import Table

    if problem is not None and problem not in FORMULATIONS:
        raise InputError(f"--problem {problem}: choose one of {', '.join(FORMULATIONS)}")
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

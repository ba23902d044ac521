"""keyshift methods: which problems there are, and which methods answer them."""

from __future__ import annotations

from typing import Annotated

import typer

from keyshift.catalogue import FORMULATIONS
from keyshift.commands import common
from keyshift.models import InputError


def methods(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only this problem.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """List problems and methods; the first method of each problem is its default."""
    from rich.table import Table

    if problem is not None and problem not in FORMULATIONS:
        raise InputError(f"--problem {problem}: choose one of {', '.join(FORMULATIONS)}")
    rows = [
        {"problem": name, "method": m.name, "kind": m.kind, "source": m.source, "limits": m.limits}
        for name, formulation in FORMULATIONS.items()
        if problem in (None, name)
        for m in formulation.methods
    ]
    if as_json:
        common.print_json(rows)
        return
    table = Table()
    for heading in ("problem", "method", "kind", "source"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row["problem"], row["method"], row["kind"], " ".join(filter(None, (row["source"], row["limits"])))
        )
    common.console().print(table)

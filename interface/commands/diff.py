"""keyshift diff: two saved plans, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common, options, showing
from keyshift.models.figures import figure

PlanArgument = Annotated[Path, typer.Argument(help="A plan that `keyshift plan --out` wrote.")]


def diff(
    one: PlanArgument,
    other: PlanArgument,
    every: options.AllOption = False,
    report: options.ReportOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Compare two plans for the same key groups: figures, then the moves that differ."""
    from keyshift.models.files.plan import read_plan

    common.expect_places(report)
    here, there = read_plan(one), read_plan(other)
    found = here.diff(there)
    if report is not None:
        here.report(report, other=there)
    if as_json:
        moves = found.moves.astype(object).to_dict("records")  # NaN, None in columns of numbers, is printed as null
        common.print_json({"figures": found.figures, "counts": found.counts(), "moves": moves})
        return
    console = common.console()
    rows = [(name, *values) for name, values in found.figures.items()]
    console.print(showing.plain_table(["", one.name, other.name], rows))
    console.print(", ".join(f"{count} {kind}" for kind, count in found.counts().items()))
    differ = found.moves[found.moves["change"] != "same"]
    if len(differ) == 0:
        return
    changes = [
        (str(m.key), str(m.source), _node(m.target), _node(m.other_target), m.load, m.state, m.change)
        for m in differ.astype(object).itertuples()
    ]
    showing.first_rows(console, ["key", "from", "to", "other to", "load", "state", "change"], changes, every)


def _node(value: object) -> str:
    return "stays" if value is None or value != value else figure(value) if isinstance(value, float) else str(value)

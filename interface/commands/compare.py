"""keyshift compare: one problem, many methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common
from keyshift.models.answer import COMPARED, GAP


def compare(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="May be repeated; default: all.")] = None,
    time_limit: common.TimeOption = COMPARED,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    plot: Annotated[Path | None, typer.Option(help="Also write a figure (.png, .svg, .pdf).")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="All columns, whatever the terminal's width.")] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Run methods on one problem and show them side by side."""
    from keyshift.comparison import compare as run
    from keyshift.figures.comparison import figure_path

    target = None if plot is None else figure_path(plot)  # before the work, not after it
    posed = common.read_problem(path, problem, context.args, last)
    with common.progress(f"{posed.name}: comparing") as watch:
        comparison = run(posed, method, time_limit, gap=gap, seed=seed, watch=watch)
    if target is not None:
        comparison.plot(target)
    if as_json:
        common.print_json([common.as_record(s) for s in comparison])
    else:
        console = common.console()
        console.print(comparison.to_table(console.width, wide=wide or None))
        for note in comparison.notes():
            console.print(note)
    raise typer.Exit(0 if any(map(common.has_answer, comparison)) else 1)

"""keyshift pareto: the trade-off between a problem's two objectives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common
from keyshift.models.answer import GAP, TIME_LIMIT


def pareto(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = "mclb",
    last: common.LastOption = None,
    against: Annotated[str | None, typer.Option(help="The second objective, such as migrations or table-size.")] = None,
    points: Annotated[int, typer.Option(help="Number of points, the extremes among them; 0: the whole front.")] = 10,
    time_limit: common.TogetherOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    workers: Annotated[int, typer.Option(help="Points solved at a time.")] = 1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A .json file to write finished points to and resume from.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also write a figure (.png, .svg, .pdf).")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Trace the front of a problem's objective against a second one, with a bound at every point."""
    from keyshift.figures.comparison import figure_path
    from keyshift.fronts.front import pareto as trace

    target = None if plot is None else figure_path(plot)  # before the work, not after it
    posed = common.read_problem(path, problem, context.args, last)
    with common.progress(f"{posed.name}: tracing the front") as watch:
        front = trace(
            posed,
            points or None,
            against=against,
            time_limit=time_limit,
            gap=gap,
            seed=seed,
            workers=workers,
            checkpoint=checkpoint,
            watch=watch,
        )
    if target is not None:
        front.plot(target)
    if as_json:
        common.print_json([common.as_record(s) for s in front])
    else:
        common.console().print(front.to_table())
    raise typer.Exit(0 if len(front) else 1)

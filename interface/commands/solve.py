"""keyshift solve: one problem, one method; compare: methods side by side; pareto: two objectives; check: no method at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.catalogue import find_method
from keyshift.commands import common, showing
from keyshift.models import InputError
from keyshift.models.answer import COMPARED, GAP, TIME_LIMIT
from keyshift.models.figures import figure


def solve(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    method: common.MethodOption = None,
    time_limit: common.TimeOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    effort: common.EffortOption = None,
    settings: common.SettingOption = None,
    repair: common.RepairOption = False,
    every: common.AllOption = False,
    out: common.OutOption = None,
    report: common.ReportOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Answer a problem about a workload: its figures, then the moves.

    The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them.
    """
    common.expect_places(out, report)

    posed = common.read_problem(path, problem, context.args, last)
    chosen = find_method(posed, method).checked(common.read_settings(settings))
    if repair and chosen:
        raise InputError("--set: with --repair a method takes no options")
    with common.progress(f"{posed.name}: {method or 'solving'}") as watch:
        solution = showing.answered(posed, method, repair, time_limit, gap, seed, watch=watch, effort=effort, **chosen)
    made = showing.as_plan(solution) if out or report else None
    if made is None and (out or report) and solution.assignment is not None:
        raise InputError(f"--{'out' if out else 'report'}: {posed.name} moves no key groups, there is no plan to write")
    if made is not None:
        showing.save(made, out, report)
    if as_json:
        common.print_json(common.as_record(solution))
    else:
        console = common.console()
        showing.lines(console, showing.solution_lines(solution))
        if made is None:
            showing.show_bare_moves(console, solution, every)
        else:
            showing.show_moves(console, made, every)
    raise typer.Exit(0 if common.has_answer(solution) else 1)


# keyshift compare: one problem, methods side by side ----------------------------------------------------------------


def compare(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="May be repeated; default: all.")] = None,
    time_limit: common.TimeOption = COMPARED,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    effort: common.EffortOption = None,
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
        comparison = run(posed, method, time_limit, gap=gap, seed=seed, watch=watch, effort=effort)
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


# keyshift pareto: the trade-off between a problem's two objectives -----------------------------------------------------


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


# keyshift explore: the same front as a page that one can play with ------------------------------------------------------


def explore(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    against: Annotated[str | None, typer.Option(help="The second objective, such as migrations or table-size.")] = None,
    budgets: Annotated[int | None, typer.Option(help="Points of the front, 2 to 30; 12 by default.")] = None,
    bandwidth: common.BandwidthOption = None,
    parallel: common.ParallelOption = 1,
    time_limit: common.TogetherOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A .json file to write finished points to and resume from.")
    ] = None,
    title: Annotated[str, typer.Option(help="The page's heading.")] = "",
    out: Annotated[Path, typer.Option(help="The page, an .html file.")] = Path("explore.html"),
    as_json: common.JsonOption = False,
) -> None:
    """Trace the front and write it as one interactive page: a slider, key groups moved by hand, answers side by side.

    The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them.
    """
    from keyshift.report.exploring import explore as run

    posed = common.read_problem(path, problem, context.args, last)
    with common.progress(f"{posed.name}: tracing the front") as watch:
        points = run(
            posed,
            path=out,
            budgets=budgets,
            against=against,
            bandwidth=bandwidth,
            parallel=parallel,
            time_limit=time_limit,
            gap=gap,
            seed=seed,
            checkpoint=checkpoint,
            title=title,
            watch=watch,
        )
    if as_json:
        common.print_json([common.as_record(s) for s in points])
        return
    proven = sum(s.status == "optimal" for s in points)
    answers = "one answer" if len(points) == 1 else f"{len(points)} answers"
    common.console().print(
        f"{out}: {answers}, {proven} proven, {out.stat().st_size / 1e6:.2g} MB; open it in a browser"
    )


# keyshift check: is this assignment allowed, and what is it worth? -----------------------------------------------------


def check(
    context: typer.Context,
    path: common.PathArgument,
    assignment: Annotated[
        Path, typer.Option("--assignment", "-a", help="JSON: a list of nodes, or what `solve --json` printed.")
    ],
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Check an assignment without any solver. Exit code 0: feasible; 1: not."""
    posed = common.read_problem(path, problem, context.args, last)
    report = posed.check(read_assignment(assignment))
    if as_json:
        common.print_json({**vars(report), "violations": list(map(vars, report.violations))})
    else:
        console = common.console()
        console.print("feasible" if report.feasible else "not feasible")
        for violation in report.violations:
            console.print(f"- {violation}")
        console.print(f"{posed.objective_name}: {figure(report.objective, posed.scale)}")
        for name, value in report.metrics.items():
            if name.replace("_", " ") != posed.objective_name:
                console.print(f"{name.replace('_', ' ')}: {figure(value)}")
    raise typer.Exit(0 if report.feasible else 1)


def read_assignment(path: Path) -> Any:
    """The assignment in a file: a list of nodes, what `solve --json` printed, or what the page of `explore` saved."""
    from keyshift.models.files.reading import read_json, shown

    content = read_json(path)
    if isinstance(content, dict):
        if content.get("assignment") is None:
            raise InputError(f"{path} holds no assignment")
        content = content["assignment"]
    if not isinstance(content, list):
        raise InputError(f"{path}: the assignment {shown(content)} must be a list of nodes")
    for value in _flat(content):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{path}: assignment must be an array of node numbers, not of {shown(value)}")
    return content


def _flat(values: list[Any]) -> Iterator[Any]:
    """The numbers of an assignment: a list for most problems, lists of lists for some."""
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value

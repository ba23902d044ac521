"""keyshift solve: one problem, one method; compare: methods side by side; pareto: two objectives; check: no method at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.catalogue import find_method
from keyshift.commands import common, showing
from keyshift.commands.own import RequestArgument
from keyshift.models import InputError
from keyshift.models.answer import COMPARED, GAP, TIME_LIMIT
from keyshift.models.base.figures import figure


def solve(
    request: RequestArgument,
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
) -> common.Response:
    """Answer a problem about a workload: its figures, then the moves."""
    common.expect_places(out, report)

    posed = request.read()
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
    moves = showing.bare_moves(solution, every) if made is None else showing.plan_moves(made, every)
    shown = itertools.chain(showing.figures_of(solution), moves)
    return common.Response(common.as_record(solution), shown, common.has_answer(solution))


# keyshift compare: one problem, methods side by side ----------------------------------------------------------------


def compare(
    request: RequestArgument,
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="May be repeated; default: all.")] = None,
    time_limit: common.TimeOption = COMPARED,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    effort: common.EffortOption = None,
    plot: Annotated[Path | None, typer.Option(help="Also write a figure (.png, .svg, .pdf).")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="All columns, whatever the terminal's width.")] = False,
) -> common.Response:
    """Run methods on one problem and show them side by side."""
    from keyshift.comparison import compare as run
    from keyshift.figures.comparison import figure_path

    target = None if plot is None else figure_path(plot)  # before the work, not after it
    posed = request.read(beside=False)
    with common.progress(f"{posed.name}: comparing") as watch:
        comparison = run(posed, method, time_limit, gap=gap, seed=seed, watch=watch, effort=effort)
    if target is not None:
        comparison.plot(target)
    shown = [comparison.to_table(common.console().width, wide=wide or None), *comparison.notes()]
    good = any(map(common.has_answer, comparison))
    return common.Response([common.as_record(s) for s in comparison], shown, good)


# keyshift pareto: the trade-off between a problem's two objectives -----------------------------------------------------


def pareto(
    request: RequestArgument,
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
) -> common.Response:
    """Trace the front of a problem's objective against a second one, with a bound at every point."""
    from keyshift.figures.comparison import figure_path
    from keyshift.fronts.front import pareto as trace

    target = None if plot is None else figure_path(plot)  # before the work, not after it
    posed = request.read(beside=False)
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
    return common.Response([common.as_record(s) for s in front], [front.to_table()], len(front) > 0)


# keyshift explore: the same front as a page that one can play with ------------------------------------------------------


def explore(
    request: RequestArgument,
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
) -> common.Response:
    """Trace the front and write it as one interactive page: a slider, key groups moved by hand, answers side by side."""
    from keyshift.report.exploring import explore as run

    posed = request.read()
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
    proven = sum(s.status == "optimal" for s in points)
    answers = "one answer" if len(points) == 1 else f"{len(points)} answers"
    said = f"{out}: {answers}, {proven} proven, {out.stat().st_size / 1e6:.2g} MB; open it in a browser"
    return common.Response([common.as_record(s) for s in points], [said])


# keyshift check: is this assignment allowed, and what is it worth? -----------------------------------------------------


def check(
    request: RequestArgument,
    assignment: Annotated[
        Path, typer.Option("--assignment", "-a", help="JSON: a list of nodes, or what `solve --json` printed.")
    ],
) -> common.Response:
    """Check an assignment without any solver. Exit code 0: feasible; 1: not."""
    posed = request.read()
    report = posed.check(read_assignment(assignment))
    shown = ["feasible" if report.feasible else "not feasible", *(f"- {violation}" for violation in report.violations)]
    shown.append(f"{posed.objective_name}: {figure(report.objective, posed.scale)}")
    metrics = ((name.replace("_", " "), value) for name, value in report.metrics.items())
    shown += [f"{name}: {figure(value)}" for name, value in metrics if name != posed.objective_name]
    return common.Response({**vars(report), "violations": list(map(vars, report.violations))}, shown, report.feasible)


def read_assignment(path: Path) -> Any:
    """The assignment in a file: a list of nodes, what `solve --json` printed, or what the page of `explore` saved."""
    from keyshift.models.base.disk import read_json, shown

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

"""keyshift solve: one problem, one method; compare: methods side by side; pareto: two objectives; check: no method at all."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import keyshift as ks
from keyshift.catalogue import find_method
from keyshift.commands import common, showing
from keyshift.commands.own import RequestArgument
from keyshift.models import InputError, Workload
from keyshift.models.answer import COMPARED, GAP, TIME_LIMIT, Progress
from keyshift.models.base.disk import write_text
from keyshift.models.base.figures import figure

if TYPE_CHECKING:
    from keyshift.comparison import Comparison


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
    options = locals()
    from keyshift.figures.comparison import figure_path
    from keyshift.fronts.front import pareto as trace

    target = None if plot is None else figure_path(plot)  # before the work, not after it
    posed = request.read(beside=False)
    with common.progress(f"{posed.name}: tracing the front") as watch:
        front = trace(posed, watch=watch, **common.same_named(trace, {**options, "points": points or None}))
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
    options = locals()
    from keyshift.report.exploring import explore as run

    posed = request.read()
    with common.progress(f"{posed.name}: tracing the front") as watch:
        points = run(posed, path=out, watch=watch, **common.same_named(run, options))
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


# The demo: New York's flights of 2013, from tuples to a proven allocation ----------------------------------------------


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the tables and the picture.")] = Path("out"),
    time_limit: common.TimeOption = 10.0,
    seed: common.SeedOption = 0,
) -> common.Response:
    """Rebalance a real stream: New York's flights of 2013 on 20 nodes (needs pip install '.[demo]' and Java)."""
    with common.progress("demo: flights through Spark, then every method") as watch:
        comparison = run_demo(out, time_limit=time_limit, seed=seed, watch=watch)
    written = (
        f"Written to {out}/: comparison.csv, comparison.txt, comparison.png, plan.json, plan.csv, plan.html, statistics/, "
        f"workload/, flights.parquet, topology.yaml; and {out}/explore.html: open it in a browser and play with it"
    )
    shown = [comparison.to_table(common.console().width), closing_sentence(comparison), written]
    return common.Response([common.as_record(s) for s in comparison], shown)


# The demo: [Madsen2016]'s Real Job 2 on New York's flights of 2013, from tuples to a proven allocation -----------------

NODES, KEY_GROUPS, MIGRATIONS = 20, 100, 13
TOPOLOGY = """\
operators:
  - name: ExtractDelay      # every flight of a known aeroplane
    key: tailnum
  - name: SumDelay          # adds up the delays of those that arrived
    key: tailnum
    filter: arr_delay IS NOT NULL
edges:
  - [ExtractDelay, SumDelay]
"""
GATHERED = ("statistics", "flights.parquet", "topology.yaml")
BANDWIDTH, PHASE_MOVES = 100.0, 5  # tuples of state a second in one transfer, moves in a phase: ours, for the schedule


def flight_workload(folder: Path) -> Workload:
    """Run Real Job 2's statistics in Spark and read them as a workload.

    ExtractDelay reads every flight of a known aeroplane; SumDelay adds up the delays of those that arrived. Both
    are keyed by tail number, so a tuple goes from a key group of one to the same key group of the other.
    """
    from keyshift.generators.real import FIRST_DAY, flights

    rows = flights()  # first: where it is missing, the sentence names the extra that brings all of the demo
    from keyshift.spark_stats import Topology, collect, local_session

    log, description = folder / "flights.parquet", folder / "topology.yaml"
    write_text(description, TOPOLOGY)
    topology = Topology.from_yaml(description)
    rows.to_parquet(log, index=False, coerce_timestamps="us")
    with local_session("keyshift demo") as spark:
        stats = collect(
            spark.read.parquet(str(log)), topology, time="ts", window="1 week", origin=FIRST_DAY, key_groups=KEY_GROUPS
        )
        stats.write(folder / "statistics", nodes=NODES)
        return stats.workload(nodes=NODES)


def run_demo(
    out: Path, *, time_limit: float | None = 10.0, seed: int = 0, watch: Callable[[Progress], None] | None = None
) -> Comparison:
    """Gather the statistics, run every method under 13 migrations, and write tables and picture to a folder.

    Parameters
    ----------
    out : Path
        Made if missing. Gets the log, ``flights.parquet``, with its ``topology.yaml``; ``statistics/``, ``workload/``,
        ``comparison.csv``, ``.txt`` and ``.png``; and of the best answer ``plan.json``, ``plan.csv`` (the moves with
        their times) and ``plan.html``; and ``explore.html``, the page of the front.
    time_limit : float, optional
        Seconds for each method.
    seed : int, default 0
    watch : callable, optional
        Told how far the work has come.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: this is a file, and the demo writes a folder")
    scratch = out / ".demo"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        workload = flight_workload(scratch)
        shutil.rmtree(out / "statistics", ignore_errors=True)
        for name in GATHERED:
            (scratch / name).replace(out / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            out.rmdir()  # where nothing came into it
    ks.write_workload(workload, out / "workload")
    problem = ks.KeyGroupAllocation(workload, max_migrations=MIGRATIONS)
    comparison = ks.compare(problem, time_limit=time_limit, seed=seed, watch=watch)
    write_text(out / "comparison.csv", comparison.to_frame().to_csv(index=False))
    sentence = closing_sentence(comparison)
    write_text(out / "comparison.txt", f"{comparison}\n{sentence}\n")
    comparison.plot(out / "comparison.png")
    _write_plan(comparison, out, seed)
    if comparison.best is not None:
        title, page = "New York's flights: what a budget buys", out / "explore.html"
        ks.explore(problem, path=page, bandwidth=BANDWIDTH, time_limit=time_limit, seed=seed, title=title, watch=watch)
    return comparison


def _write_plan(comparison: Comparison, out: Path, seed: int) -> None:
    """How to carry the best answer out, in steps that can be stopped after any of them."""
    if comparison.best is None:
        return
    made = comparison.best.plan(bandwidth=BANDWIDTH, phase_moves=PHASE_MOVES, seed=seed)
    made.save(out / "plan.json")
    write_text(out / "plan.csv", made.moves.to_csv(index=False))
    made.report(out / "plan.html", comparison=comparison, title="New York's flights: the plan")


def closing_sentence(comparison: Comparison) -> str:
    """One sentence that says what the numbers mean."""
    problem: Any = comparison.problem
    best, bound = comparison.best, comparison.best_bound
    if best is None or best.objective is None or bound is None:
        return "No method found an allocation in the time it had."
    start = problem.objective(problem.workload.current)
    share = 100.0 / problem.scale
    proof = f"and no allocation whatever gets below {share * bound:.3g} %"
    if best.objective - bound <= problem.tolerance:
        proof = "which is proven to be the best possible"
    moves = f"{best.metrics['migrations']:.0f} of {problem.workload.key_groups} key groups ({best.method})"
    return (
        f"In the last week of 2013 the most deviating of {NODES} nodes was {share * start:.3g} % of the "
        f"mean load away from it; moving {moves} brings that to {share * best.objective:.3g} %, {proof}."
    )

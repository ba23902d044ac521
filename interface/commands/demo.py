"""keyshift demo: real flights through Spark into a proven allocation."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import keyshift as ks
from keyshift.commands import common
from keyshift.models import InputError, Workload
from keyshift.models.answer import Progress
from keyshift.models.base.disk import write_text

if TYPE_CHECKING:
    from keyshift.comparison import Comparison


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

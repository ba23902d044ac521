"""keyshift study: methods on whole families of instances, and the table of their gaps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyshift.commands import common
from keyshift.models import BoundError, InputError, Problem
from keyshift.models.answer import GAP, TIME_LIMIT, Progress
from keyshift.models.figures import figure

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


def study(
    context: typer.Context,
    family: Annotated[
        str, typer.Argument(help="Families to draw from, or instances by name; see `keyshift families`.")
    ],
    count: Annotated[int, typer.Option(help="Instances for each choice of parameters.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first instance.")] = 0,
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="May be repeated; default: all.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of every method, with seeds 0, 1, ...")] = 1,
    time_limit: common.TimeOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    effort: common.EffortOption = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the results; a killed study goes on there.")] = None,
    workers: Annotated[int, typer.Option(help="Processes of this machine.")] = 1,
    spark: Annotated[str | None, typer.Option(help="Run on this Spark master instead, such as local[4].")] = None,
    memory: Annotated[float | None, typer.Option(help="GiB for each solve.")] = None,
    best: Annotated[Path | None, typer.Option(help="A table of best known answers to compare with.")] = None,
    update_best: Annotated[bool, typer.Option("--update-best", help="Write improvements into that table.")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write a page (.html).")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Solve many instances by many methods. A family's parameters are options; 20,40 stands for both values.

    --rules FILE and --rule "WORDS" add rules to every instance.
    """
    if update_best and best is None:
        raise InputError("--update-best needs --best FILE")
    common.expect_places(report, best if update_best else None)
    more = list(itertools.takewhile(lambda token: not token.startswith("-"), context.args))
    instances = _drawn([family, *more], count, seed, context.args[len(more) :])
    with _session(spark) as session, common.progress("study") as watch:
        from keyshift.studies.best_known import BestKnown
        from keyshift.studies.study import Study, StudyProgress
        from keyshift.studies.study import study as run

        taken = 0

        def tell(now: StudyProgress) -> None:
            nonlocal taken
            taken = now.taken
            left = "" if now.left is None else f", about {now.left:,.0f} s to go"
            watch(Progress(note=f"{now.done:,} of {now.expected or '?'} solves{left}"))

        done = run(
            instances, method or None, range(seeds), time_limit, out, workers, session, gap=gap, memory=memory,
            best_known=best, watch=tell, effort=effort,
        )  # fmt: skip
    if wrong := done.contradictions():
        said = "; ".join(wrong[:3])
        if not Study(done.rows, BestKnown()).contradictions():
            raise InputError(f"{best} contradicts what was found: {said}")
        if taken:
            raise InputError(f"{out} holds results that contradict others, so one of its files was changed: {said}")
        raise BoundError(said)
    better = done.update_best(best) if update_best and best is not None else done.improvements()
    if report is not None:
        done.report(report, " ".join([family, *more]))
    _show(done, better, as_json)
    raise typer.Exit(0 if any(row["objective"] is not None for row in done.rows) else 1)


def _drawn(names: list[str], count: int, seed: int, extra: list[str]) -> Iterator[tuple[str, Problem]]:
    """The instances, the parameters going to every family that has them."""
    from keyshift.catalogue.options import read_option
    from keyshift.studies.drawing import family, find_family, is_instance

    rules, extra = common.take_rules(extra)
    functions = {name: find_family(name) for name in names if not is_instance(name)}
    known = sorted({parameter for drawn in functions.values() for parameter in drawn.parameters})
    given: dict[str, dict[str, Any]] = {name: {} for name in functions}
    for flag, value in common.pairs(extra, known, "families"):
        for name, drawn in functions.items():
            if flag in drawn.parameters:
                parts = [value] if "[" in value else value.split(",")
                given[name][flag] = [read_option(drawn.function, flag, part) for part in parts]
    draws = [
        family(name, rules=rules)
        if is_instance(name)
        else family(name, count=count, seed=seed, rules=rules, **given[name])
        for name in names
    ]
    return draws[0] if len(draws) == 1 else _Chained(draws)


class _Chained(Iterator[tuple[str, Problem]]):
    """Some draws one after another, which still know how many are to come."""

    def __init__(self, draws: list[Any]) -> None:
        self._draws, self._all = draws, itertools.chain.from_iterable(draws)

    def __next__(self) -> tuple[str, Problem]:
        return next(self._all)

    def __length_hint__(self) -> int:
        return sum(draw.__length_hint__() for draw in self._draws)


@contextmanager
def _session(master: str | None) -> Iterator[Any]:
    """A Spark session on a master, and its end; nothing without one."""
    if master is None:
        yield None
        return
    from keyshift.spark_stats.session import local_session

    with local_session("keyshift study", master=master) as session:
        yield session


def _show(done: Any, better: list[str], as_json: bool) -> None:
    summary = done.summary()
    if as_json:
        common.print_json(
            {"summary": summary.to_dict("records"), "solves": done.to_frame().to_dict("records"), "improved": better}
        )
        return

    console = common.console()
    console.print(summary_as_table(summary, console.width))
    for sentence in better:
        console.print(f"better than known: {sentence}")


WIDE = 140
"""Columns from which on every figure is shown."""


def summary_as_table(summary: pd.DataFrame, width: int) -> Table:
    """A Rich table, a block for each family.

    Parameters
    ----------
    summary : DataFrame
        As `Study.summary` gives it.
    width : int
        Columns of the terminal.
    """
    from rich import box
    from rich.table import Table

    counts = ["solved", "proven", "wins"] + (["broke_rules", "failed"] if width >= WIDE else [])
    gaps = ["gap_mean", "gap_worst"] if width < WIDE else ["gap_mean", "gap_low", "gap_high", "gap_median", "gap_worst"]
    heads = {"gap_mean": "mean", "gap_low": "from", "gap_high": "to", "gap_median": "median", "gap_worst": "worst"}
    table = Table(title="Gaps to the best bound, in percent of the objective", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("family, method", no_wrap=True)
    for name in ["solves", *counts, *gaps, "seconds"]:
        table.add_column(heads.get(name, name.replace("_", " ")), justify="right", no_wrap=True)
    for family, part in summary.groupby("family", sort=False):
        table.add_row(str(family), style="bold")
        for row in part.to_dict("records"):
            figures = [f"{row[name]:,}" for name in ["solves", *counts]]
            shares = [
                figure(None if row[name] is None or row[name] != row[name] else 100 * row[name], 100.0, 3)
                for name in gaps
            ]
            table.add_row(f"  {row['method']}", *figures, *shares, figure(row["seconds_median"], digits=3))
        table.add_section()
    return table

"""keyshift replay: the adaptation loop over a stream of statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from keyshift.commands import common
from keyshift.models import InputError
from keyshift.models.answer import Progress

SHOWN = ("collocation_factor", "load_distance_percent", "load_index", "migrations", "oscillations")


def replay(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="Statistics of `keyshift stats`, a workload, or a folder of workloads.")],
    problem: common.ProblemOption = "collocated-allocation",
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="May be repeated.")] = None,
    periods: Annotated[int | None, typer.Option(help="At most this many periods.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Nodes, where the statistics name none.")] = None,
    serialisation: Annotated[float, typer.Option(help="Load of one remote tuple at its sender.")] = 0.0,
    deserialisation: Annotated[float, typer.Option(help="Load of one remote tuple at its receiver.")] = 0.0,
    remote_share: Annotated[
        float | None, typer.Option(help="Instead: share of all load that traffic makes up when all of it is remote.")
    ] = None,
    node_load: Annotated[
        float | None, typer.Option(help="Load that one node can carry: scale to 70 % of it (50 - 90 %).")
    ] = None,
    time_limit: common.TimeOption = None,
    seed: common.SeedOption = 0,
    memory: Annotated[int, typer.Option(help="A move back within this many periods is an oscillation.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for checkpoints, results.parquet and figures.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Run the adaptation loop period by period, several methods side by side; with --out, a killed run resumes."""
    from keyshift.models.files.replay import count_periods, read_periods
    from keyshift.replays.adaptation import replay as run

    chosen = method or ["albic"]
    posed = common.problem_options(problem, context.args)
    length = count_periods(path)
    with bar(len(chosen) * (length if periods is None else min(periods, length))) as watch:
        result = run(
            read_periods(path, nodes),
            chosen,
            problem=problem,
            periods=periods,
            load_model=load_model(path, nodes, serialisation, deserialisation, remote_share),
            scaling=None if node_load is None else utilisation(node_load),
            seed=seed,
            time_limit=time_limit,
            memory=memory,
            checkpoint=out,
            watch=watch,
            **posed,
        )
    if out is not None and not result.interrupted:
        result.plot(out / "figures")
    if as_json:
        common.print_json({"interrupted": result.interrupted, "rows": list(result.rows)})
    else:
        common.console().print(summary(result.to_frame()))
        if result.interrupted:
            common.console().print("interrupted" + ("; run it again to go on" if out is not None else ""))
    raise typer.Exit(1 if result.interrupted or not result.rows else 0)


def load_model(path: Path, nodes: int | None, serialisation: float, deserialisation: float, share: float | None) -> Any:
    """The load model of the options; a share is of the first period."""
    from keyshift.models.collocation import LoadModel
    from keyshift.models.files.replay import read_periods

    if share is None:
        return LoadModel(serialisation, deserialisation)
    if serialisation or deserialisation:
        raise InputError("--remote-share and --serialisation, --deserialisation say the same: give one of them")
    return LoadModel.for_share(next(read_periods(path, nodes)), share)


def utilisation(node_load: float) -> Any:
    """The default scaling rule."""
    from keyshift.replays.scaling import TargetUtilisation

    return TargetUtilisation(node_load)


def summary(frame: Any) -> Table:
    """For each method, the last period's figures and the sums of its moves."""
    table = Table(title=f"after {frame['period'].nunique() if len(frame) else 0} periods")
    table.add_column("method")
    for heading in (
        "collocation",
        "load distance %",
        "load index %",
        "migrations a period",
        "straight back",
        "fallbacks",
    ):
        table.add_column(heading, justify="right")
    for name, part in frame.groupby("method", sort=False) if len(frame) else ():
        last = part.iloc[-1]
        collocation = f"{last['collocation_factor']:.3f}" if "collocation_factor" in part else "-"
        table.add_row(
            str(name), collocation, f"{last['load_distance_percent']:.2f}", f"{last['load_index']:.1f}",
            f"{part['migrations'].mean():.1f}", str(int(part["oscillations"].sum())),
            str(int((part["fallback"] != "").sum())),
        )  # fmt: skip
    return table


@contextmanager
def bar(total: int) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar on the terminal, one step for each plan."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    terminal = Console(stderr=True)
    with Bar(console=terminal, transient=True, disable=not terminal.is_terminal) as shown:
        task = shown.add_task("replaying", total=total)
        yield lambda now: shown.update(task, advance=1, description=now.note)

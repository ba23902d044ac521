"""keyshift replay: the adaptation loop over a stream of statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from keyshift.commands import common
from keyshift.commands.own import PeriodsArgument
from keyshift.models import InputError
from keyshift.models.answer import TIME_LIMIT, Progress
from keyshift.models.base import guards
from keyshift.terminal import Terminal, table

ForecastOption = Annotated[
    str | None,
    typer.Option(
        help="Plan on a forecast, value the plan on the next window: last, mean:8, ewma:0.3, seasonal:24, seasonal:24:4, "
        "quantile:0.9:8."
    ),
]
RegretOption = Annotated[
    bool, typer.Option(help="With a forecast: also solve the window that followed, for comparison.")
]
GainOption = Annotated[float, typer.Option(help="Carry a plan out only if each unit of state gains more than this.")]
HorizonOption = Annotated[int, typer.Option(help="Number of windows over which the gain is summed.")]
HysteresisOption = Annotated[float, typer.Option(help="Least gain of a plan, as a share of the measure without it.")]
EveryOption = Annotated[int, typer.Option(help="Plan after every so many periods; MCLB looks at all of them.")]
CapacityOption = Annotated[
    list[str] | None,
    typer.Option(help="What a node carries, as load=100 and memory=64: the bottleneck is balanced; may be repeated."),
]
ResourceOption = Annotated[
    str | None, typer.Option(help="Balance this resource, even if another one is the bottleneck.")
]
CountsOption = Annotated[str | None, typer.Option(help="Number of nodes after each period, if known, such as 3,4,4.")]
AheadOption = Annotated[int, typer.Option(help="How many of the future counts a plan may use.")]


def replay(
    request: PeriodsArgument,
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
    time_limit: common.TimeOption = TIME_LIMIT,
    seed: common.SeedOption = 0,
    forecast: ForecastOption = None,
    regret: RegretOption = True,
    min_gain: GainOption = 0.0,
    horizon: HorizonOption = 1,
    hysteresis: HysteresisOption = 0.0,
    every: EveryOption = 1,
    capacity: CapacityOption = None,
    resource: ResourceOption = None,
    node_counts: CountsOption = None,
    counts_ahead: AheadOption = 1,
    memory: Annotated[int, typer.Option(help="A move back within this many periods is an oscillation.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for checkpoints, results.parquet and figures.")] = None,
) -> common.Response:
    """Run the adaptation loop period by period, methods side by side; with --out, a killed run resumes."""
    from keyshift.figures.comparison import expect_pictures
    from keyshift.replays.adaptation import count_periods, read_periods
    from keyshift.replays.adaptation import replay as run

    chosen = method or ["albic"]
    if out is not None:
        expect_pictures()
    path, posed = request.path, request.options()
    with bar(len(chosen) * len(range(count_periods(path))[:periods])) as watch:
        result = run(
            read_periods(path, nodes),
            chosen,
            problem=request.problem,
            periods=periods,
            load_model=load_model(path, nodes, serialisation, deserialisation, remote_share),
            scaling=scaling_rule(node_load, node_counts, counts_ahead),
            forecast=forecast,
            regret=regret,
            min_gain=min_gain,
            horizon=horizon,
            hysteresis=hysteresis,
            every=every,
            resource=resource,
            capacities=capacities(capacity),
            seed=seed,
            time_limit=time_limit,
            memory=memory,
            checkpoint=out,
            watch=watch,
            **posed,
        )
    return replied(result, out)


def replied(result: Any, out: Path | None) -> common.Response:
    """Draw the figures, and respond with the rows or their summary."""
    if out is not None and not result.interrupted:
        result.plot(out / "figures")
    ended = "interrupted" + ("; run it again to go on" if out is not None else "")
    shown = [summary(result.to_frame()), *[ended] * result.interrupted]
    record = {"interrupted": result.interrupted, "rows": list(result.rows)}
    return common.Response(record, shown, not result.interrupted and bool(result.rows))


def load_model(path: Path, nodes: int | None, serialisation: float, deserialisation: float, share: float | None) -> Any:
    """The load model of the options; a share is of the first period."""
    from keyshift.models.collocation import LoadModel
    from keyshift.replays.adaptation import read_periods

    if share is None:
        return LoadModel(serialisation, deserialisation)
    if serialisation or deserialisation:
        raise InputError("--remote-share and --serialisation, --deserialisation say the same: give one of them")
    return LoadModel.for_share(next(read_periods(path, nodes)), share)


def scaling_rule(node_load: float | None, counts: str | None, ahead: int) -> Any:
    """The scaling rule of the options."""
    from keyshift.replays.planner import NodeCounts, TargetUtilisation

    if counts is None:
        return None if node_load is None else TargetUtilisation(node_load)
    if node_load is not None:
        raise InputError("--node-counts and --node-load both say how many nodes there are: give one of them")
    return NodeCounts(tuple(common.several("--node-counts", counts, int, "3,4,4")), ahead)


def capacities(given: list[str] | None) -> dict[str, float]:
    """Capacities of the options, by resource."""
    named = common.named_values("--capacity", given, "resource=number")
    return {name: common.several("--capacity", text, guards.as_number, "resource=number")[0] for name, text in named}


def summary(frame: Any) -> Table:
    """For each method, the last period's figures and the sums of its moves; with a forecast, the means of its outcome."""
    ahead = "planned_load_distance" in frame
    outcome = ("planned %", "realised %", "regret") if ahead else ("collocation", "load distance %", "load index %")
    numbers, rows = (*outcome, "migrations a period", "straight back", "fallbacks"), []
    for name, part in frame.groupby("method", sort=False) if len(frame) else ():
        last = part.iloc[-1]
        figures = (
            f"{last['collocation_factor']:.3f}" if "collocation_factor" in part else "-",
            f"{last['load_distance_percent']:.2f}", f"{last['load_index']:.1f}",
        ) if not ahead else (
            f"{part['planned_load_distance_percent'].mean():.2f}", f"{part['load_distance_percent'].mean():.2f}",
            f"{part['regret'].mean():.4g}" if "regret" in part else "-",
        )  # fmt: skip
        replaced = int((~part["fallback"].isin(["", "not due"])).sum())
        rows.append((name, *figures, f"{part['migrations'].mean():.1f}", int(part["oscillations"].sum()), replaced))
    title = f"after {frame['period'].nunique() if len(frame) else 0} periods"
    return table(("method", *numbers), rows, right=numbers, title=title)


@contextmanager
def bar(total: int) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar on the terminal, one step for each plan."""
    from rich.progress import Progress as Bar

    terminal = Terminal(stderr=True)
    with Bar(console=terminal, transient=True, disable=not terminal.is_terminal) as shown:
        task = shown.add_task("replaying", total=total)
        yield lambda now: shown.update(task, advance=1, description=now.note)

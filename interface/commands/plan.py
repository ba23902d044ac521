"""keyshift plan, explain, diff, remedies, simulate: an answer as moves and phases, and what comes of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from keyshift.commands import common, showing
from keyshift.commands.own import PeriodsArgument, RequestArgument
from keyshift.models import InputError, Problem, Solution
from keyshift.models.answer import GAP, TIME_LIMIT, Progress
from keyshift.models.base import guards
from keyshift.models.base.figures import figure
from keyshift.plans.targets import given
from keyshift.terminal import Terminal, table

if TYPE_CHECKING:
    from keyshift.plans.explaining import Explanation


def plan(
    request: RequestArgument,
    method: common.MethodOption = None,
    time_limit: common.TimeOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    solution: Annotated[
        Path | None, typer.Option(help="Carry out this saved solution or assignment, instead of solving.")
    ] = None,
    bandwidth: common.BandwidthOption = None,
    parallel: common.ParallelOption = 1,
    phase_moves: common.PhaseOption = 100,
    max_on_the_way: Annotated[float | None, typer.Option(help="The most load that a node may have on the way.")] = None,
    min_gain: Annotated[
        float | None, typer.Option(min=0.0, help="Drop moves worth less than this a unit of state.")
    ] = None,
    repair: common.RepairOption = False,
    check: Annotated[Path | None, typer.Option(help="Check that this saved plan still fits, and stop.")] = None,
    out: common.OutOption = None,
    report: common.ReportOption = None,
    every: common.AllOption = False,
) -> common.Response:
    """Solve a problem and plan how to carry the answer out: which key group moves when."""
    if check is not None:
        return _check(request, check)
    common.expect_places(out, report)
    posed = request.read()
    with common.progress(f"{posed.name}: {method or 'solving'}"):
        if solution is not None:
            answer = _saved(posed, solution)
        else:
            answer = showing.answered(posed, method, repair, time_limit, gap, seed)
    if answer.assignment is None:
        said = "there is no plan: `keyshift remedies` says what would have to give"
        return common.Response(common.as_record(answer), [*showing.figures_of(answer), said], False)
    from keyshift.plans.making import plan as make

    made = make(
        answer.problem,
        answer,
        bandwidth,
        parallel,
        phase_moves=phase_moves,
        max_on_the_way=None if max_on_the_way is None else {"load": max_on_the_way},
        min_gain=min_gain,
        seed=seed,
        **showing.patience(answer),
    )
    showing.save(made, out, report)
    figures = itertools.chain(showing.figures_of(answer, 4), showing.lines(showing.plan_lines(made)))
    return common.Response(made.as_record(), itertools.chain(figures, showing.plan_moves(made, every)))


def _saved(posed: Problem, path: Path) -> Solution:
    from keyshift.commands.solve import read_assignment

    found = showing.saved_solution(path)
    if found is None:
        return given(posed, read_assignment(path))
    if found.assignment is not None and (broken := posed.check(found.assignment).violations):
        raise InputError(f"{path}: the assignment breaks a rule here: {broken[0]}")
    return found


def _check(request: RequestArgument, saved: Path) -> common.Response:
    from keyshift.plans.saved import read_plan

    made = read_plan(saved)
    workload = request.workload()
    report = made.check(workload)  # one that has changed is bad input: exit code 2
    record = {"feasible": report.feasible, "objective": report.objective, "metrics": report.metrics}
    said = "the plan was made for this workload, and keeps its limits"
    return common.Response(record, [said, *showing.lines(showing.plan_lines(made))], report.feasible)


# keyshift explain: what each move is worth, what holds the answer back, what a little more would bring -----------------


def explain(
    request: RequestArgument,
    method: common.MethodOption = None,
    time_limit: common.TogetherOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    min_gain: Annotated[
        float | None,
        typer.Option(min=0.0, help="Drop moves worth less than this a unit of state, and say what that costs."),
    ] = None,
    marginals: Annotated[bool, typer.Option(help="Solve again with a little more of each limit.")] = True,
    every: common.AllOption = False,
) -> common.Response:
    """Solve a problem and explain the answer."""
    options = locals()
    from keyshift.plans.explaining import explain as run
    from keyshift.solving import solve

    posed = request.read()
    with common.progress(f"{posed.name}: explaining"):
        answer = solve(posed, method, time_limit=None if time_limit is None else 0.4 * time_limit, gap=gap, seed=seed)
        if answer.assignment is None:
            return common.Response(common.as_record(answer), showing.figures_of(answer), False)
        left = None if time_limit is None else 0.6 * time_limit
        asked = {**options, "marginals": marginals and answer.termination != "interrupted", "time_limit": left}
        found = run(posed, answer, **common.same_named(run, asked))
    return common.Response(found.as_record(), _explained(found, every))


def _explained(found: Explanation, every: bool) -> Iterator[Any]:
    from keyshift.plans.explaining import describe_marginal

    yield from showing.figures_of(found.solution, 5)
    yield f"{found.nothing[0].upper()}{found.nothing[1:]}."
    yield from (f"- {sentence}" for sentence in (*found.binding, *found.stays))
    if len(found.moves):
        load, state = (showing.units_of(found.problem).get(what, "") for what in ("load", "state"))
        columns = showing.head_of("load", load), showing.head_of("state", state)
        heads = ["key", "from", "to", *columns, "worth", "undone alone breaks"]

        def cells(m: Any) -> tuple[str, ...]:
            numbers = (showing.cell_of(*number) for number in ((m.load, load), (m.state, state), (m.gain, load)))
            return str(m.key), str(m.source), str(m.target), *numbers, m.breaks

        yield from showing.first_rows(heads, list(found.moves.itertuples()), cells, every)
    if found.marginals:
        worth = [(m.limit, m.now, m.then, describe_marginal(m)) for m in found.marginals if not m.drops]
        yield ""
        yield showing.plain_table(["a little more of", "now", "then", found.problem.objective_name], worth)
        yield from (f"{priced.limit} {describe_marginal(priced)}" for priced in found.marginals if priced.drops)
    if found.thinned is not None:
        yield str(found.thinned)


# keyshift diff: two saved plans, side by side --------------------------------------------------------------------------

PlanArgument = Annotated[Path, typer.Argument(help="A plan that `keyshift plan --out` wrote.")]


def diff(
    one: PlanArgument,
    other: PlanArgument,
    every: common.AllOption = False,
    report: common.ReportOption = None,
) -> common.Response:
    """Compare two plans for the same key groups: figures, then the moves that differ."""
    from keyshift.plans.saved import read_plan

    common.expect_places(report)
    here, there = read_plan(one), read_plan(other)
    found = here.diff(there)
    if report is not None:
        here.report(report, other=there)
    moves = found.moves.astype(object).to_dict("records")  # NaN, None in columns of numbers, is printed as null
    record = {"figures": found.figures, "counts": found.counts(), "moves": moves}
    rows = [(name, *values) for name, values in found.figures.items()]
    shown: list[Any] = [showing.plain_table(["", one.name, other.name], rows)]
    shown.append(", ".join(f"{count} {kind}" for kind, count in found.counts().items()))
    differ = found.moves[found.moves["change"] != "same"]
    if len(differ):
        heads = ["key", "from", "to", "other to", "load", "state", "change"]

        def cells(m: Any) -> tuple[Any, ...]:
            return str(m.key), str(m.source), _node(m.target), _node(m.other_target), m.load, m.state, m.change

        shown += showing.first_rows(heads, list(differ.astype(object).itertuples()), cells, every)
    return common.Response(record, shown)


def _node(value: object) -> str:
    return "stays" if value is None or value != value else figure(value) if isinstance(value, float) else str(value)


# keyshift remedies: which limit to relax, and by how much -------------------------------------------------------------


def remedies(
    request: RequestArgument,
    target: Annotated[
        float | None, typer.Option(help="An objective that would be good enough; none: any answer.")
    ] = None,
    method: common.MethodOption = None,
    time_limit: common.TogetherOption = TIME_LIMIT,
    seed: common.SeedOption = 0,
) -> common.Response:
    """For each limit: the smallest change that gives the problem an answer, or one that is good enough."""
    from keyshift.plans.remedying import remedies as run

    posed = request.read()
    with common.progress(f"{posed.name}: looking for remedies"):
        found = run(posed, target, method=method, time_limit=time_limit, seed=seed)
    if not found:
        return common.Response([], ["no limit has to be relaxed: the problem has an answer as it is"])
    rows = []
    for r in (r for r in found if not r.drops):
        less, proven = "-" if r.bound is None else r.too_little, "yes" if r.proven else "no"
        rows.append((r.limit, r.now, r.enough, less, proven, getattr(r.solution, "objective", None)))
    heads = ["limit", "now", "enough", "not enough", "proven", posed.objective_name]
    conflicts = (f"- {conflict}" for conflict in posed.conflicts()[:3])
    shown = [*conflicts, showing.plain_table(heads, rows), *map(str, found)]
    return common.Response([r.as_record() for r in found], shown, any(r.value is not None for r in found))


# keyshift simulate: queues at the nodes, before, during and after a plan. A simulation, never a measurement ------------


def simulate(
    path: common.PathArgument,
    service_rate: Annotated[float, typer.Option(help="Tuples a second that a node of capacity 1 serves.")],
    window_seconds: Annotated[float, typer.Option(help="How long a window of the workload is, in seconds.")],
    last: common.LastOption = None,
    plan: Annotated[
        Path | None, typer.Option(help="Carry out this saved plan, which was made with a bandwidth.")
    ] = None,
    at: Annotated[float, typer.Option(min=0.0, help="Time at which the plan begins, in seconds.")] = 0.0,
    pause: Annotated[
        str, typer.Option(help="What waits during a transfer: keys (those that move), nodes (their nodes), or all.")
    ] = "keys",
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Hold all moved key groups from the start of the plan.")
    ] = False,
    service: Annotated[str, typer.Option(help="deterministic or exponential.")] = "deterministic",
    arrivals: Annotated[str, typer.Option(help="poisson or even.")] = "poisson",
    queue: Annotated[int | None, typer.Option(help="Most tuples at a node: then the source stops.")] = None,
    method: Annotated[str, typer.Option(help="events, fluid or auto.")] = "auto",
    seed: common.SeedOption = 0,
) -> common.Response:
    """Simulate throughput and latency of a workload on its nodes, and what a plan does to them."""
    options = locals()
    from keyshift.files.workload import read_workload
    from keyshift.plans.saved import read_plan
    from keyshift.simulation import Migration
    from keyshift.simulation import simulate as run

    how = Migration(pause=pause, progressive=not at_once)  # type: ignore[arg-type]  # it says what it may be
    w, changes = read_workload(path, last=last), [] if plan is None else [(at, read_plan(plan))]
    found = run(w, changes=changes, migration=how, **common.same_named(run, options))
    return common.Response(found.as_record(), [str(found)])


# keyshift replay: the adaptation loop over a stream of statistics ------------------------------------------------------


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
HysteresisOption = Annotated[
    float, typer.Option(help="The smallest gain of a plan that is carried out, as a share of the measure without it.")
]
EveryOption = Annotated[int, typer.Option(help="Plan once in this many periods; MCLB balances over all of them.")]
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
    nodes: Annotated[int | None, typer.Option(help="Number of nodes, if the statistics name none.")] = None,
    serialisation: Annotated[float, typer.Option(help="Load of one remote tuple at its sender.")] = 0.0,
    deserialisation: Annotated[float, typer.Option(help="Load of one remote tuple at its receiver.")] = 0.0,
    remote_share: Annotated[
        float | None, typer.Option(help="Instead: the share of traffic in the total load if all traffic is remote.")
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
    options = locals()
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
            load_model=load_model(path, nodes, serialisation, deserialisation, remote_share),
            scaling=scaling_rule(node_load, node_counts, counts_ahead),
            capacities=capacities(capacity),
            checkpoint=out,
            watch=watch,
            **common.same_named(run, options),
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
    periods = frame["period"].nunique() if len(frame) else 0
    return table(("method", *numbers), rows, right=numbers, title=f"after {periods} period{'s' * (periods != 1)}")


@contextmanager
def bar(total: int) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar on the terminal, one step for each plan."""
    from rich.progress import Progress as Bar

    terminal = Terminal(stderr=True)
    with Bar(console=terminal, transient=True, disable=not terminal.is_terminal) as shown:
        task = shown.add_task("replaying", total=total)
        yield lambda now: shown.update(task, advance=1, description=now.note)

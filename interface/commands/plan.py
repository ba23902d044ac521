"""keyshift plan, explain, diff, remedies, simulate: an answer as moves and phases, and what comes of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyshift.commands import common, showing
from keyshift.commands.own import RequestArgument
from keyshift.models import InputError, Problem, Solution
from keyshift.models.answer import GAP, TIME_LIMIT
from keyshift.models.base.figures import figure

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
    from keyshift.plans.targets import given

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
    from keyshift.plans.explaining import explain as run
    from keyshift.solving import solve

    posed = request.read()
    with common.progress(f"{posed.name}: explaining"):
        answer = solve(posed, method, time_limit=None if time_limit is None else 0.4 * time_limit, gap=gap, seed=seed)
        if answer.assignment is None:
            return common.Response(common.as_record(answer), showing.figures_of(answer), False)
        found = run(
            posed,
            answer,
            min_gain=min_gain,
            marginals=marginals and answer.termination != "interrupted",
            method=method,
            time_limit=None if time_limit is None else 0.6 * time_limit,
            gap=gap,
            seed=seed,
        )
    return common.Response(found.as_record(), _explained(found, every))


def _explained(found: Explanation, every: bool) -> Iterator[Any]:
    from keyshift.plans.explaining import describe_marginal

    yield from showing.figures_of(found.solution, 5)
    yield f"{found.nothing[0].upper()}{found.nothing[1:]}."
    yield from (f"- {sentence}" for sentence in (*found.binding, *found.stays))
    if len(found.moves):
        heads = ["key", "from", "to", "load", "state", "worth", "undone alone breaks"]
        yield from showing.first_rows(
            heads,
            list(found.moves.itertuples()),
            lambda m: (str(m.key), str(m.source), str(m.target), m.load, m.state, m.gain, m.breaks),
            every,
        )
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
        shown += showing.first_rows(
            heads,
            list(differ.astype(object).itertuples()),
            lambda m: (str(m.key), str(m.source), _node(m.target), _node(m.other_target), m.load, m.state, m.change),
            every,
        )
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
    rows = [
        (
            r.limit,
            r.now,
            r.enough,
            "-" if r.bound is None else r.too_little,
            "yes" if r.proven else "no",
            getattr(r.solution, "objective", None),
        )
        for r in found
        if not r.drops
    ]
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
    at: Annotated[float, typer.Option(min=0.0, help="When the plan begins, in seconds.")] = 0.0,
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
    from keyshift.files.workload import read_workload
    from keyshift.plans.saved import read_plan
    from keyshift.simulation import Migration
    from keyshift.simulation import simulate as run

    chosen: dict[str, Any] = {"arrivals": arrivals, "service": service, "method": method}
    how = Migration(pause=pause, progressive=not at_once)  # type: ignore[arg-type]  # it says what it may be
    w, changes = read_workload(path, last=last), [] if plan is None else [(at, read_plan(plan))]
    found = run(
        w,
        None,
        changes,
        service_rate=service_rate,
        window_seconds=window_seconds,
        migration=how,
        queue=queue,
        seed=seed,
        **chosen,
    )
    return common.Response(found.as_record(), [str(found)])

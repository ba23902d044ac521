"""keyshift plan: an answer as moves, phases and a schedule; or a saved plan held against a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common, options, showing
from keyshift.models import InputError, Problem, Solution
from keyshift.models.answer import GAP, TIME_LIMIT


def plan(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    method: options.MethodOption = None,
    time_limit: common.TimeOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    solution: Annotated[Path | None, typer.Option(help="Carry out this saved solution, instead of solving.")] = None,
    bandwidth: options.BandwidthOption = None,
    parallel: options.ParallelOption = 1,
    phase_moves: options.PhaseOption = 100,
    max_load: Annotated[float | None, typer.Option(help="The most load that a node may have on the way.")] = None,
    min_gain: Annotated[
        float | None, typer.Option(min=0.0, help="Drop moves worth less than this a unit of state.")
    ] = None,
    repair: options.RepairOption = False,
    check: Annotated[Path | None, typer.Option(help="Hold this saved plan against the workload, and stop.")] = None,
    out: options.OutOption = None,
    report: options.ReportOption = None,
    every: options.AllOption = False,
    as_json: common.JsonOption = False,
) -> None:
    """Solve a problem and plan how to carry the answer out: which key group moves when.

    The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them.
    """
    if check is not None:
        _check(path, check, last, as_json)
        return
    common.expect_places(out, report)
    posed = common.read_problem(path, problem, context.args, last)
    with common.progress(f"{posed.name}: {method or 'solving'}"):
        if solution is not None:
            answer = _saved(posed, solution)
        else:
            answer = showing.answered(posed, method, repair, time_limit, gap, seed)
    if answer.assignment is None:
        showing.lines(common.console(), showing.solution_lines(answer))
        common.console().print("there is no plan: `keyshift remedies` says what would have to give")
        raise typer.Exit(1)
    from keyshift.plans.making import plan as make

    made = make(
        answer.problem,
        answer,
        bandwidth,
        parallel,
        phase_moves=phase_moves,
        max_on_the_way=None if max_load is None else {"load": max_load},
        min_gain=min_gain,
        seed=seed,
        **showing.patience(answer),
    )
    showing.save(made, out, report)
    if as_json:
        common.print_json(made.as_record())
        return
    console = common.console()
    showing.lines(console, [*showing.solution_lines(answer)[:4], *showing.plan_lines(made)])
    showing.show_moves(console, made, every)


def _saved(posed: Problem, path: Path) -> Solution:
    from keyshift.models.files.solution import read_solution

    found = read_solution(path)
    if found.assignment is not None and (broken := posed.check(found.assignment).violations):
        raise InputError(f"{path}: the assignment breaks a rule here: {broken[0]}")
    return found


def _check(path: Path, saved: Path, last: int | None, as_json: bool) -> None:
    from keyshift.models.files.plan import read_plan
    from keyshift.models.files.workload import read_workload

    made = read_plan(saved)
    report = made.check(read_workload(path, last=last))  # a workload that has changed is bad input: exit code 2
    if as_json:
        common.print_json({"feasible": report.feasible, "objective": report.objective, "metrics": report.metrics})
    else:
        console = common.console()
        console.print("the plan was made for this workload, and keeps its limits")
        showing.lines(console, showing.plan_lines(made))
    raise typer.Exit(0 if report.feasible else 1)

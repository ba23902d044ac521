"""keyshift solve: one problem, one method."""

from __future__ import annotations

import typer

from keyshift.catalogue import find_method
from keyshift.commands import common, options, showing
from keyshift.models import InputError
from keyshift.models.answer import GAP, TIME_LIMIT


def solve(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    method: options.MethodOption = None,
    time_limit: common.TimeOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    settings: common.SettingOption = None,
    repair: options.RepairOption = False,
    every: options.AllOption = False,
    out: options.OutOption = None,
    report: options.ReportOption = None,
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
        solution = showing.answered(posed, method, repair, time_limit, gap, seed, watch=watch, **chosen)
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

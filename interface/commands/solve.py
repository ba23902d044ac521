"""keyshift solve: one problem, one method."""

from __future__ import annotations

from typing import Annotated

import typer

from keyshift.catalogue import find_method
from keyshift.commands import common
from keyshift.comparison import Comparison


def solve(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Default: the best exact one.")] = None,
    time_limit: common.TimeOption = None,
    seed: common.SeedOption = 0,
    settings: common.SettingOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Answer a problem about a workload; the problem's own parameters are options too, such as --max-migrations 13."""
    from keyshift.solving import solve as answer

    posed = common.read_problem(path, problem, context.args)
    options = find_method(posed, method).checked(common.read_settings(settings))
    with common.progress(f"{posed.name}: {method or 'solving'}") as watch:
        solution = answer(posed, method, time_limit=time_limit, seed=seed, watch=watch, **options)
    if as_json:
        common.print_json(common.as_record(solution))
    else:
        console = common.console()
        console.print(Comparison(posed, (solution,)).to_table())
        if solution.message:
            console.print(solution.message, markup=False)
    raise typer.Exit(0 if common.has_answer(solution) else 1)

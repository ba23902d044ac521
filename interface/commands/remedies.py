"""keyshift remedies: which limit must give, and by how much."""

from __future__ import annotations

from typing import Annotated

import typer

from keyshift.commands import common, options, showing


def remedies(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    target: Annotated[
        float | None, typer.Option(help="An objective that would be good enough; none: any answer.")
    ] = None,
    method: options.MethodOption = None,
    time_limit: Annotated[float, typer.Option("--time-limit", "-t", help="Seconds, for everything together.")] = 60.0,
    seed: common.SeedOption = 0,
    as_json: common.JsonOption = False,
) -> None:
    """For each limit: the smallest change that gives the problem an answer, or one that is good enough.

    The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them.
    """
    from keyshift.plans.remedying import remedies as run

    posed = common.read_problem(path, problem, context.args, last)
    with common.progress(f"{posed.name}: looking for remedies"):
        found = run(posed, target, method=method, time_limit=time_limit, seed=seed)
    if as_json:
        common.print_json([remedy.as_record() for remedy in found])
        raise typer.Exit(0 if not found or any(r.value is not None for r in found) else 1)
    console = common.console()
    if not found:
        console.print("nothing has to give: the problem has an answer as it is")
        raise typer.Exit(0)
    for conflict in posed.conflicts()[:3]:
        console.print(f"- {conflict}")
    rows = [
        (
            r.limit,
            r.now,
            r.value,
            r.bound,
            "yes" if r.proven else "no",
            None if r.solution is None else r.solution.objective,
        )
        for r in found
        if not r.drops
    ]
    console.print(showing.plain_table(["limit", "now", "will do", "will not", "proven", posed.objective_name], rows))
    for remedy in found:
        console.print(str(remedy))
    raise typer.Exit(0 if any(r.value is not None for r in found) else 1)

"""keyshift explain: what each move is worth, what holds the answer back, what a little more would bring."""

from __future__ import annotations

from typing import Annotated

import typer

from keyshift.commands import common, options, showing
from keyshift.models.answer import GAP, TIME_LIMIT


def explain(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    method: options.MethodOption = None,
    time_limit: common.TogetherOption = TIME_LIMIT,
    gap: common.GapOption = GAP,
    seed: common.SeedOption = 0,
    min_gain: Annotated[
        float | None,
        typer.Option(min=0.0, help="Drop moves worth less than this a unit of state, and say what that costs."),
    ] = None,
    marginals: Annotated[bool, typer.Option(help="Solve again with a little more of each limit.")] = True,
    every: options.AllOption = False,
    as_json: common.JsonOption = False,
) -> None:
    """Solve a problem and explain the answer.

    The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them.
    """
    from keyshift.plans.explaining import describe_marginal
    from keyshift.plans.explaining import explain as run
    from keyshift.solving import solve

    posed = common.read_problem(path, problem, context.args, last)
    with common.progress(f"{posed.name}: explaining"):
        answer = solve(posed, method, time_limit=None if time_limit is None else 0.4 * time_limit, gap=gap, seed=seed)
        if answer.assignment is None:
            showing.lines(common.console(), showing.solution_lines(answer))
            raise typer.Exit(1)
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
    if as_json:
        common.print_json(found.as_record())
        return
    console = common.console()
    showing.lines(console, showing.solution_lines(answer)[:5])
    console.print(f"{found.nothing[0].upper()}{found.nothing[1:]}.")
    for sentence in found.binding:
        console.print(f"- {sentence}")
    if len(found.moves):
        rows = [
            (str(m.key), str(m.source), str(m.target), m.load, m.state, m.gain, m.breaks)
            for m in found.moves.itertuples()
        ]
        heads = ["key", "from", "to", "load", "state", "worth", "undone alone breaks"]
        showing.first_rows(console, heads, rows, every)
    if found.marginals:
        worth = [(m.limit, m.now, m.then, describe_marginal(m)) for m in found.marginals if not m.drops]
        console.print()
        console.print(showing.plain_table(["a little more of", "now", "then", posed.objective_name], worth))
        for priced in (m for m in found.marginals if m.drops):
            console.print(f"{priced.limit} {describe_marginal(priced)}")
    if found.thinned is not None:
        console.print(str(found.thinned))

"""keyshift model: the declarative model of a problem - printed as algebra, written to a file, solved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common, showing
from keyshift.models import InputError, Solution

KindOption = Annotated[str, typer.Option("--kind", "-k", help="The kind of model: pyomo, cp-sat, ...; see --list.")]


def model(
    context: typer.Context,
    path: common.PathArgument,
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    kind: KindOption = "pyomo",
    shown: Annotated[bool, typer.Option("--print", help="Print it as algebra, the first rows of each family.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Print every row.")] = False,
    write: Annotated[
        Path | None, typer.Option(help="Write it to this file: .mps, .lp or .nl; .pb or .txt for cp-sat.")
    ] = None,
    solve: Annotated[bool, typer.Option("--solve", help="Solve it.")] = False,
    solver: Annotated[str | None, typer.Option(help="The solver to use; default: one that suits the model.")] = None,
    relax: Annotated[bool, typer.Option("--relax", help="Use the model's linear relaxation.")] = False,
    read: Annotated[Path | None, typer.Option(help="Read a solver's solution file for it, and check that.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the kinds that the problem has.")] = False,
    time_limit: common.TimeOption = None,
    seed: common.SeedOption = 0,
    as_json: common.JsonOption = False,
) -> None:
    """Open the declarative model of a problem: print it, write it to a file for any solver, solve it, read an answer.

    The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them.
    """
    posed = common.read_problem(path, problem, context.args, last)
    if listed:
        _list(problem)
        return
    if solver is not None and not solve:
        raise InputError(f"--solver {solver}: add --solve")
    from keyshift.modelling.opening import model as opened

    made = opened(posed, kind)
    if read is not None:
        _show(made.read(read), as_json)
        return
    made = made.relax() if relax else made
    console = common.console()
    if shown or every:
        for line in made.algebra(every).splitlines():
            console.print(line, soft_wrap=True)
    if write is not None:
        made.write(write)
    if solve:
        with common.progress(f"{posed.name}: {kind}"):
            answer = made.solve(solver, time_limit, seed)
        _show(answer, as_json)
    elif not (shown or every):
        showing.lines(
            console,
            [("model", f"{posed.name} in {kind}" + (", relaxed" if relax else "")), ("size", made.size),
             ("variables", made.about.summary), ("explained in", made.about.source),
             *([("written to", str(write))] if write is not None else [])],
        )  # fmt: skip


def _list(problem: str) -> None:
    from keyshift.catalogue import FORMULATIONS

    showing.lines(common.console(), [(entry.kind, entry.summary) for entry in FORMULATIONS[problem].statements])


def _show(answer: Solution, as_json: bool) -> None:
    if as_json:
        common.print_json(common.as_record(answer))
    else:
        showing.lines(common.console(), showing.solution_lines(answer))
        for violation in answer.violations[:3]:
            common.console().print(f"  breaks: {violation}")
    if not common.has_answer(answer):
        raise typer.Exit(1)

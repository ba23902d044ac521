"""keyshift check: is this assignment allowed, and what is it worth?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keyshift.commands import common
from keyshift.models import InputError
from keyshift.models.figures import figure


def check(
    context: typer.Context,
    path: common.PathArgument,
    assignment: Annotated[
        Path, typer.Option("--assignment", "-a", help="JSON: a list of nodes, or what `solve --json` printed.")
    ],
    problem: common.ProblemOption = common.DEFAULT_PROBLEM,
    last: common.LastOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Check an assignment without any solver. Exit code 0: feasible; 1: not."""
    posed = common.read_problem(path, problem, context.args, last)
    report = posed.check(_read(assignment))
    if as_json:
        common.print_json(
            {
                "feasible": report.feasible,
                "violations": [vars(v) for v in report.violations],
                "objective": report.objective,
                "metrics": report.metrics,
            }
        )
    else:
        console = common.console()
        console.print("feasible" if report.feasible else "not feasible")
        for violation in report.violations:
            console.print(f"- {violation}")
        console.print(f"{posed.objective_name}: {figure(report.objective, posed.scale)}")
        for name, value in report.metrics.items():
            if name.replace("_", " ") != posed.objective_name:
                console.print(f"{name.replace('_', ' ')}: {figure(value)}")
    raise typer.Exit(0 if report.feasible else 1)


def _read(path: Path) -> Any:
    from keyshift.models.files.reading import read_json, shown

    content = read_json(path)
    if isinstance(content, dict):
        if content.get("assignment") is None:
            raise InputError(f"{path} holds no assignment")
        content = content["assignment"]
    if not isinstance(content, list):
        raise InputError(f"{path}: the assignment {shown(content)} must be a list of nodes")
    for value in _flat(content):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{path}: assignment must be an array of node numbers, not of {shown(value)}")
    return content


def _flat(values: list[Any]) -> Iterator[Any]:
    """The numbers of an assignment: a list for most problems, lists of lists for some."""
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value

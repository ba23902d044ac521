"""keyshift grade: the marks of somebody's solutions of an exercise sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyshift.commands import common
from keyshift.terminal import table


def grade(
    submission: Annotated[Path, typer.Argument(help="A Python file with the functions of the sheet. It is run.")],
    sheet: Annotated[int, typer.Option(help="Which exercise sheet, 1 to 8.")],
    first: Annotated[int, typer.Option(min=0, help="First seed of the instances; for the final marks a new one.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Instances of each exercise.")] = 100,
    time_limit: Annotated[float, typer.Option("--time-limit", "-t", min=0.01, help="Seconds for each call.")] = 5.0,
    as_json: common.JsonOption = False,
) -> None:
    """Mark a file of solutions of an exercise sheet. Exit code 0: all marks; 1: not all.

    A submission is a program, and it is run: in a process of its own, with limits on time and memory, unable to write to
    files. That stops accidents, not malice: it can read and delete whatever you can. Mark strangers' files in a container, or
    as a user without rights.
    """
    from keyshift.exercises import grading

    with common.progress(f"sheet {sheet}: trying the exercises"):
        result = grading.grade(submission, sheet, seeds=seeds, first=first, time_limit=time_limit)
    if as_json:
        common.print_json({"submission": str(submission), **result.to_dict()})
    else:
        rows = [
            (name, f"{result.marks[name]} of {result.sheet.marks[name]}",
             f"passed on {verdict.tried} instances" if verdict else f"fails on instance {verdict.tried}")
            for name, verdict in result.verdicts.items()
        ]  # fmt: skip
        console = common.console()
        console.print(f"Sheet {sheet}: {result.sheet.title} - {result.total} of {result.most} marks", soft_wrap=True)
        console.print(table(("exercise", "marks", "result"), rows, right=("marks",)))
        for verdict in result.verdicts.values():
            if not verdict:
                console.print(str(verdict), soft_wrap=True)
    raise typer.Exit(0 if result.total == result.most else 1)

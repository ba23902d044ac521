"""Common parts of the subcommands: reading a problem from the line, printing JSON, showing progress."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from rich.console import Console
from typer.core import TyperCommand

from keyshift import terminal
from keyshift.catalogue import FORMULATIONS
from keyshift.models import InputError, Solution
from keyshift.models.answer import Progress
from keyshift.models.base.disk import expect_place
from keyshift.plans.targets import staying
from keyshift.terminal import Terminal

PathArgument = Annotated[
    Path, typer.Argument(help="A workload: a directory, a .json file, or a table as .csv or .parquet.")
]
LastOption = Annotated[
    int | None, typer.Option(min=1, help="Use only this many windows of the workload, the last ones.")
]


def _for_ever(seconds: float | None) -> float | None:
    return None if seconds is None or seconds == math.inf else seconds


TimeOption = Annotated[
    float | None, typer.Option("--time-limit", "-t", callback=_for_ever, help="Seconds for each method; inf: no limit.")
]
TogetherOption = Annotated[
    float | None,
    typer.Option("--time-limit", "-t", callback=_for_ever, help="Seconds, for everything together; inf: no limit."),
]
EffortOption = Annotated[
    float | None, typer.Option(min=0.0, help="A limit on work, in units of about a second; repeatable on any machine.")
]
GapOption = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="Stop when objective minus bound is at most this share of the scale; 0: prove the optimum.",
    ),
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same answer.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SettingOption = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the method, as name=value; may be repeated.")
]


# What all commands do: respond to the line --------------------------------------------------------------------------------


class Unbroken(str):
    """A line that is shown as it is, however wide the terminal."""

    __slots__ = ()


class Response(NamedTuple):
    """The response of a command: a record for --json, lines and tables for people, and whether the exit code is 0."""

    record: Any
    shown: Iterable[Any]
    good: bool = True


def options_of(function: Callable[..., Any]) -> list[Any]:
    """The options and arguments that typer makes of a function's parameters."""
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return list(typer.main.get_command(app).params)


def _printed(as_json: JsonOption = False) -> None:
    """The option of all commands."""


class JsonCommand(TyperCommand):
    """A command that shows the `Response` of its function, or prints its record as JSON. What is shown is made only then."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.params += options_of(_printed)

    def invoke(self, ctx: Any) -> None:
        """Call the function, and show its response."""
        as_json = ctx.params.pop("as_json")
        given = {**ctx.params, **(ctx.obj or {})}
        typed = {}
        for one in self.get_params(ctx):
            value = given.get(name := one.name.removeprefix("own_"))
            if one.param_type_name == "option":
                typed[name] = one.opts[0], ",".join(map(str, value)) if isinstance(value, list) else str(value)
        try:
            response: Response = super().invoke(ctx)
            if as_json:
                print_json(response.record)
            else:
                terminal = console()
                for part in response.shown:
                    sentence = isinstance(part, str) and not terminal.is_terminal
                    terminal.print(part, soft_wrap=sentence or isinstance(part, Unbroken))
        except InputError as error:
            error.args = (as_typed(str(error), typed),)
            raise
        if not response.good:
            raise typer.Exit(1)


def as_typed(sentence: str, options: Mapping[str, tuple[str, str]]) -> str:
    """A message with parameters as the shell writes them; of each, `options` has the option and what was typed after it.

    ``name it by state=`` is ``name it by --state``; ``alpha = -1 must be at least 0`` is ``--alpha -1 ...`` if that was typed.
    A message that begins with an option is the shell's own already.
    """
    if sentence.startswith("--"):
        return sentence

    def advice(found: re.Match[str]) -> str:
        option, _ = options.get(found[1], ("", ""))
        value = re.sub(r"[][' ]", "", found[2])
        return f"{option} {value}".removesuffix("True").rstrip() if option else found[0]

    def refusal(found: re.Match[str]) -> str:
        option, text = options.get(found[1], ("", ""))
        parts = [text, *(part.removesuffix(".0") for part in re.split(r"[][(){}\s,:=']+", text))]
        typed = found[2].strip("'").removesuffix(".0") in parts
        return f"{option} {found[2]}" if option and typed else found[0]

    made = re.sub(r"(?<![-\w'\"])([a-z_]+)=(\[[^]]*\]|'\w+'|[\w.]*\w|)(?![\w=({\[])", advice, sentence)
    value = r"([a-z_]+)(?:\[[^]]*\])* = ('[^']*'|[^\s,:;]+)"
    return re.sub(rf"\b{value}", refusal, made) if re.match(value, made) else made


def console() -> Console:
    """The terminal; into a pipe, lines are wide enough for every column of a comparison.

    Names are data and may hold brackets: nothing is read as Rich's markup, and nothing is coloured by guessing.
    """
    found = Terminal()
    width = None if found.is_terminal or "COLUMNS" in os.environ else 120
    return Terminal(width=width, markup=False, highlight=False)


def same_named(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command that have the names of a function's parameters: they are its arguments."""
    return {name: options[name] for name in inspect.signature(function).parameters if name in options}


def expect_places(*files: Path | None) -> None:
    """Refuse files that cannot be written, before the work."""
    for file in files:
        if file is not None:
            expect_place(file)


def expect_problem(name: str | None) -> None:
    """Refuse an unknown problem."""
    if name is not None and name not in FORMULATIONS:
        raise InputError(f"--problem {name}: choose one of {', '.join(FORMULATIONS)}")


Value = TypeVar("Value")


def named_values(option: str, texts: list[str] | None, written: str) -> Iterator[tuple[str, str]]:
    """Names and values of an option that is given as ``name=value``, maybe more than once."""
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InputError(f"{option} {text:.60}: write it as {written}")
        yield name, value


def several(option: str, text: str | None, kind: Callable[[str], Value], example: str) -> list[Value]:
    """The values of an option that is written with commas between them; none where it is not given."""
    made = []
    for part in [] if text is None else text.split(","):
        try:
            made.append(kind(part))
            if isinstance(made[-1], int) and str(made[-1]) != part.strip():  # 007 and 1_2 are names of something else
                raise ValueError
        except ValueError:
            raise InputError(f"{option} {text:.60}: {part!r:.40} is not a number; write it as {example}") from None
    return made


def read_settings(settings: list[str] | None) -> dict[str, Any]:
    """Method options given as ``name=value``; the method checks them."""
    from keyshift.models.base.yaml_text import parse_yaml

    chosen: dict[str, Any] = {}
    for head, value in named_values("--set", settings, "name=value"):
        name = head.replace("-", "_")
        if name in chosen:
            raise InputError(f"--set {head}: it is given twice")
        chosen[name] = parse_yaml(value, f"--set {head}")
    return chosen


def print_json(content: Any) -> None:
    """Print JSON that any reader accepts: no NaN, no infinity."""
    print(json.dumps(plain(content), allow_nan=False))  # noqa: T201  # the shell's output


def plain(content: Any) -> Any:
    """A value as JSON can hold it: arrays as lists, null for a number that is not finite."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(
        content, inf_nan_mode="null", fallback=lambda v: v.tolist() if hasattr(v, "tolist") else str(v)
    )


def as_record(solution: Solution, with_assignment: bool = True) -> dict[str, Any]:
    """A solution as a plain dictionary, for JSON."""
    names = ("method", "status", "termination", "objective", "bound", "gap_abs", "gap", "seconds", "metrics", "message")
    record = {"problem": solution.problem.name, **{name: getattr(solution, name) for name in names}}
    if stays := staying(solution.problem, solution.assignment):
        record["stays"] = list(stays)
    if solution.priorities:
        record["priorities"] = [stage._asdict() for stage in solution.priorities]
    if with_assignment:
        record["assignment"] = solution.assignment
    return record


def has_answer(solution: Solution) -> bool:
    """Whether the exit code is 0: an assignment, or at least a bound from a method that was asked for one."""
    return solution.assignment is not None or (solution.status == "none" and solution.bound is not None)


@contextmanager
def progress(title: str, limit: float | None = None) -> Iterator[Callable[[Progress], None]]:
    """The line of `keyshift.terminal.progress`, and what a run reports to."""
    with terminal.progress(title, limit) as watch:
        yield watch or (lambda now: None)


# Options that several commands have -------------------------------------------------------------------------------------

BandwidthOption = Annotated[
    float | None, typer.Option(help="Units of state a second that one transfer moves; none: a unit takes a second.")
]
ParallelOption = Annotated[int, typer.Option(min=1, help="Transfers that a node takes part in at once.")]
PhaseOption = Annotated[int, typer.Option(min=1, help="Moves in a phase, at most.")]
OutOption = Annotated[Path | None, typer.Option(help="Write the plan there, as JSON.")]
ReportOption = Annotated[Path | None, typer.Option(help="Write a report there: one HTML page that needs no network.")]
AllOption = Annotated[bool, typer.Option("--all", help="Show every move, not the first twenty.")]
MethodOption = Annotated[str | None, typer.Option("--method", "-m", help="Default: the best exact one.")]
RepairOption = Annotated[
    bool,
    typer.Option("--repair", help="If limits are already broken: repair what can be repaired, make nothing worse."),
]

"""Options that a problem brings: they are read from the rest of a line, and shown where help is asked for."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from keyshift.catalogue import FORMULATIONS
from keyshift.commands.common import DEFAULT_PROBLEM
from keyshift.terminal import Terminal

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
    bool, typer.Option("--repair", help="Where limits are broken already: mend what can be mended, make nothing worse.")
]


RULES_HELP = (
    'FILE, --rule "WORDS"',
    "What the cluster does not allow besides: a YAML or JSON list of rules, words or mappings; or one rule in words, as in "
    '--rule "apart partition rack", --rule "count 4000", --rule "never topic=orders rack=r1". Both may be repeated.',
)


class ProblemCommand(TyperCommand):
    """A command whose help also lists the options of the problem that the line names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the line: help is printed before the options are read."""
        ctx.meta["keyshift.line"] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The command's own help, then the problem's options."""
        super().format_help(ctx, formatter)
        name = named_problem(ctx.meta.get("keyshift.line", []))
        if name in FORMULATIONS:
            show_problem_options(Terminal(markup=False, highlight=False), name)


def named_problem(line: list[str]) -> str:
    """The problem that a line names."""
    for position, token in enumerate(line):
        if token in ("-p", "--problem") and position + 1 < len(line):
            return line[position + 1]
        for head in ("--problem=", "-p"):
            if token.startswith(head) and len(token) > len(head) and not token.startswith("--p" + "arallel"):
                return token.removeprefix(head)
    return DEFAULT_PROBLEM


def show_problem_options(console: Console, name: str) -> None:
    """One paragraph for each option: its name, its kind and default, the docstring's words."""
    cls = FORMULATIONS[name].problem_class
    said = documented(cls)
    console.print(f"Options of {name}\n", style="bold")
    own = [f for f in dataclasses.fields(cls) if f.init][1:]  # type: ignore[arg-type]  # every problem is a dataclass
    for item in own:
        kind, words = said.get(item.name, ("", ""))
        if item.name == "rules":
            kind, words = RULES_HELP
        console.print(Text("  --" + item.name.replace("_", "-"), style="bold cyan"), Text(f" {kind}"))
        for part in textwrap_lines(words, console.width - 6):
            console.print(f"      {part}")
    console.print()


def textwrap_lines(words: str, width: int) -> list[str]:
    """Words in lines of a width."""
    import textwrap

    return textwrap.wrap(words, max(40, width))


def documented(cls: type) -> dict[str, tuple[str, str]]:
    """Kind and description of each parameter, read from the class's numpydoc docstring."""
    lines = (inspect.getdoc(cls) or "").splitlines()
    if "Parameters" not in lines:
        return {}
    found: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in lines[lines.index("Parameters") + 2 :]:
        if line and not line.startswith(" "):
            head, colon, kind = line.partition(" : ")
            if not colon and re.fullmatch(r"[A-Z][a-z]+", line.strip()):
                break  # the next section
            names = [name.strip() for name in head.split(",")]
            found |= dict.fromkeys(names, (kind, ""))
        else:
            for name in names:
                kind, words = found[name]
                found[name] = (kind, f"{words} {line.strip()}".strip().replace(":math:", "").replace("`", ""))
    return found

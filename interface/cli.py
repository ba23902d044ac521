"""The command line. Exit codes - 0: an answer; 1: infeasible, or no answer in time; 2: bad input."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.console import Console

from keyshift.commands import check, compare, demo, generate, methods, pareto, replay, solve, stats
from keyshift.models.errors import KeyshiftError
from keyshift.version import __version__

app = typer.Typer(
    name="keyshift",
    help="Exact, relaxed and heuristic rebalancing of stateful streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# A problem's own parameters are options too (--max-migrations 13): the commands read them from the rest of the line.
PROBLEM_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}

app.command("demo")(demo.demo)
app.command("generate", context_settings=PROBLEM_OPTIONS)(generate.generate)
app.command("stats")(stats.stats)
app.command("solve", context_settings=PROBLEM_OPTIONS)(solve.solve)
app.command("compare", context_settings=PROBLEM_OPTIONS)(compare.compare)
app.command("pareto", context_settings=PROBLEM_OPTIONS)(pareto.pareto)
app.command("replay", context_settings=PROBLEM_OPTIONS)(replay.replay)
app.command("check", context_settings=PROBLEM_OPTIONS)(check.check)
app.command("methods")(methods.methods)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)  # noqa: T201  # the shell's output
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Exact, relaxed and heuristic rebalancing of stateful streams."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        app(args=None if arguments is None else list(arguments), standalone_mode=True)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except KeyshiftError as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]keyshift:[/] {_escaped(str(error))}")
        return 2
    return 0


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def script() -> None:
    """Entry point of the `keyshift` command."""
    sys.exit(main())

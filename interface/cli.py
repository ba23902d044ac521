"""The command line. Exit codes - 0: an answer; 1: infeasible, or no answer in time; 2: bad input; 3: a defect of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer
from rich.console import Console

from keyshift.commands import (
    check,
    compare,
    demo,
    diff,
    explain,
    exporting,
    families,
    generate,
    importing,
    methods,
    model,
    pareto,
    plan,
    remedies,
    replay,
    solve,
    stats,
    study,
)
from keyshift.commands.options import ProblemCommand
from keyshift.models.errors import BoundError, InputError, KeyshiftError
from keyshift.version import __version__

TRACEBACK = "KEYSHIFT_TRACEBACK"
"""Name of the environment's variable that lets a defect through with its traceback; the tests set it."""

MOST_SAID = 600
"""Characters of the longest sentence: a value that is refused may be very long."""

USAGE: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""What Typer raises for a line that it cannot read; recent versions bring their own copy of Click."""

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
app.command("families")(families.families)
app.command("stats")(stats.stats)
app.command("solve", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(solve.solve)
app.command("compare", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(compare.compare)
app.command("plan", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(plan.plan)
app.command("explain", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(explain.explain)
app.command("diff")(diff.diff)
app.command("remedies", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(remedies.remedies)
app.command("pareto", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(pareto.pareto)
app.command("study", context_settings=PROBLEM_OPTIONS)(study.study)
app.command("replay", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(replay.replay)
app.command("check", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(check.check)
app.add_typer(importing.app, name="import")
app.command("export")(exporting.export)
app.command("methods")(methods.methods)
app.command("model", cls=ProblemCommand, context_settings=PROBLEM_OPTIONS)(model.model)


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
    """Run the command line; returns the exit code.

    Whatever happens ends in one sentence: bad input and what the operating system refuses in exit code 2, a defect of
    keyshift in 3. With the variable ``KEYSHIFT_TRACEBACK`` in the environment, a defect shows where it is.
    """
    try:
        return _run(arguments)
    except InputError as error:
        return _said(str(error), 2)
    except BoundError as error:
        return _said(f"{error} - a defect of keyshift: please report it", 3)
    except KeyshiftError as error:
        return _said(str(error), 2)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        return _said(f"{named}{error.strerror or error}", 2)
    except MemoryError:
        return _said("there is not enough memory for this", 2)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        said = " ".join(str(error).split())[:200]
        return _said(
            f"a defect of keyshift, not of your input: {type(error).__name__}: {said} "
            f"(set {TRACEBACK}=1 to see where, and please report it)",
            3,
        )


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
        sys.stdout.flush()  # a full disk is heard here, not at the interpreter's end
    except USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return 2
        said: str = error.format_message()  # type: ignore[attr-defined]
        return _said(" ".join(said.split()), 2)
    except (typer.Abort, KeyboardInterrupt):
        return _said("interrupted", 1)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return code if isinstance(code, int) else 0


def _said(sentence: str, code: int) -> int:
    sentence = sentence if len(sentence) <= MOST_SAID else sentence[:MOST_SAID] + " ..."
    Console(stderr=True, soft_wrap=True).print(f"[bold red]keyshift:[/] {_escaped(sentence)}", highlight=False)
    return code


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape("".join(c if c.isprintable() else "?" for c in text))


def script() -> None:
    """Entry point of the `keyshift` command."""
    sys.exit(main())

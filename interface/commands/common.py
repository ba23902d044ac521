"""Common parts of the subcommands: reading a problem from the line, printing JSON, showing progress."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from typer.core import TyperCommand

from keyshift.catalogue import FORMULATIONS
from keyshift.commands.beside import priorities_of, with_rules_beside
from keyshift.models import InputError, Problem, Solution
from keyshift.models.answer import Progress
from keyshift.models.compiling import COMPILING
from keyshift.models.figures import figure
from keyshift.models.plans.staying import staying
from keyshift.terminal import Terminal

if TYPE_CHECKING:
    from keyshift.rules import Rule


PATIENCE = 2.0
"""Seconds after which a running command shows its progress."""

PathArgument = Annotated[Path, typer.Argument(help="A workload: a directory of Parquet tables or a .json file.")]
ProblemOption = Annotated[
    str,
    typer.Option(
        "--problem",
        "-p",
        help="Which problem to pose; see `keyshift methods`.",
        autocompletion=lambda incomplete: [name for name in FORMULATIONS if name.startswith(incomplete)],
    ),
]
LastOption = Annotated[
    int | None, typer.Option(min=1, help="Only so many windows of the workload, counted from the last.")
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
DEFAULT_PROBLEM = "key-group-allocation"


# What all commands do: pose a problem, reply to the line -----------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """The problem that a line asks about: PATH, --problem, --last, and the problem's own parameters in the rest of the line."""

    path: Path = Path()
    problem: str = DEFAULT_PROBLEM
    last: int | None = None
    line: Sequence[str] = ()

    def read(self, beside: bool = True) -> Problem:
        """The problem itself; with the priorities that lie beside the workload, or as it is printed."""
        return read_problem(self.path, self.problem, list(self.line), self.last, beside)


class Unbroken(str):
    """A line that is shown as it is, however wide the terminal."""

    __slots__ = ()


class Reply(NamedTuple):
    """What a command replies: a record for --json, else lines and tables; and whether its exit code is 0."""

    record: Any
    shown: Iterable[Any]
    good: bool = True


OWN_OPTIONS = "The problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help lists them."


def command(function: Callable[..., Any]) -> Callable[..., int]:
    """A command of the shell: where it is `asked`, with a problem's options; where it gives a `Reply`, with --json.

    What is shown is made only if it is shown.
    """
    signature = inspect.signature(function, eval_str=True)
    own = dict(signature.parameters)
    asked, replies = own.pop("asked", None), signature.return_annotation is Reply

    @wraps(function)
    def run(*, as_json: bool = False, **given: Any) -> int:
        if asked is not None:
            posed = {name: given.pop(name) for name in ("path", "problem", "last")}
            given["asked"] = Asked(**posed, line=given.pop("context").args)
        reply = function(**given)
        if not replies:
            return int(reply or 0)
        if as_json:
            print_json(reply.record)
        else:
            terminal = console()
            for part in reply.shown:
                terminal.print(part, soft_wrap=isinstance(part, Unbroken))
        if not reply.good:
            raise typer.Exit(1)  # which Click hears too, where it runs by itself
        return 0

    def option(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    needed = [name for name, parameter in own.items() if parameter.default is inspect.Parameter.empty]
    named = [own.pop(name) for name in needed]
    if asked is not None:
        usual = Asked() if asked.default is inspect.Parameter.empty else asked.default
        named = [option("context", typer.Context), option("path", PathArgument), *named,
                 option("problem", ProblemOption, usual.problem), option("last", LastOption, None)]  # fmt: skip
        run.__doc__ = f"{inspect.getdoc(function)}\n\n{OWN_OPTIONS}"
    named += [*own.values(), *([option("as_json", JsonOption, False)] if replies else [])]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in named]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return run


def console() -> Console:
    """The terminal; into a pipe, lines are wide enough for every column of a comparison.

    Names are data and may hold brackets: nothing is read as Rich's markup, and nothing is coloured by guessing.
    """
    terminal = Terminal()
    width = None if terminal.is_terminal else max(120, terminal.width)
    return Terminal(width=width, markup=False, highlight=False)


def expect_places(*files: Path | None) -> None:
    """Refuse files that cannot be written, before the work."""
    from keyshift.models.files.disk import expect_place

    for file in files:
        if file is not None:
            expect_place(file)


def expect_problem(name: str | None) -> None:
    """Refuse a problem that nobody knows."""
    if name is not None and name not in FORMULATIONS:
        raise InputError(f"--problem {name}: choose one of {', '.join(FORMULATIONS)}")


def read_problem(path: Path, name: str, extra: list[str], last: int | None = None, beside: bool = False) -> Problem:
    """Build a problem from a file, of which only the `last` windows count, and the rest of the line (``--max-migrations 13``)."""
    options = problem_options(name, with_rules_beside(path, name, extra))
    chosen = (priorities_of(path, name) if beside else {}) | options
    return FORMULATIONS[name].problem_class.from_path(path, last=last, **chosen)


def problem_options(name: str, extra: list[str]) -> dict[str, Any]:
    """Read a problem's own parameters from the rest of the command line."""
    expect_problem(name)
    # Every problem is a dataclass whose first field is the data itself.
    return parse_options(extra, FORMULATIONS[name].problem_class, f"problem {name}", given=1)


def parse_options(extra: list[str], of: Callable[..., Any], title: str, given: int = 0) -> dict[str, Any]:
    """Read ``--name value`` and ``--flag`` from the rest of a line, as the annotations of what takes them say.

    Parameters
    ----------
    extra : list of str
    of : callable
        A function, or a dataclass.
    title : str
        What the options belong to, for messages.
    given : int
        This many leading parameters are not options.
    """
    from keyshift.catalogue.options import no_rules, read_option, refuse_missing
    from keyshift.models.files.disk import read_scenarios

    known = list(inspect.signature(of).parameters)[given:]
    parameters: dict[str, Any] = {}
    if "rules" in known:
        rules, extra = take_rules(extra)
        if rules:
            parameters["rules"] = rules
    elif asked := next((token for token in extra if token.partition("=")[0] in RULE_OPTIONS), None):
        raise InputError(f"{asked.partition('=')[0]}: {no_rules(of, f'the {title}')}")
    for name, value in pairs(extra, known, title):
        parameters[name] = read_scenarios(Path(value)) if name == "scenarios" else read_option(of, name, value)
    refuse_missing(of, parameters, f"the {title}", given)
    return parameters


Value = TypeVar("Value")
RULE_OPTIONS = ("--rules", "--rule")


def take_rules(extra: list[str]) -> tuple[list[Rule], list[str]]:
    """The rules that a line gives, and the rest of it.

    ``--rules FILE`` names a list of rules, in YAML or JSON: words, or mappings; ``--rules none`` names none.
    ``--rule "apart partition rack"`` is one in words. Both may be repeated.
    """
    from keyshift.models.files.disk import read_json
    from keyshift.models.files.schema import naming
    from keyshift.models.rules import read_rule
    from keyshift.models.rules.ruled import read_rules

    tokens, rest = list(extra), list[str]()
    rules: list[Rule] = []
    while tokens:
        token = tokens.pop(0)
        option, equals, value = token.partition("=")
        if option not in RULE_OPTIONS:
            rest.append(token)
            continue
        if not equals:
            value = tokens.pop(0) if tokens and not tokens[0].startswith("--") else ""
        if not value.strip():
            said = f"{option}: write it as " + ("--rules FILE" if option == "--rules" else '--rule "pinned 3"')
            raise InputError(said)
        if option == "--rule":
            rules.append(read_rule(value, "--rule"))
            continue
        if value == "none":  # not even those that lie beside the workload
            continue
        file = Path(value)
        if file.suffix == ".json":
            held = read_json(file)
        else:
            from keyshift.models.files.yaml_text import read_yaml

            held = read_yaml(file, texts=True)
        if not isinstance(held, list):
            raise InputError(f"{file}: there must be a list of rules, not {held!r:.60}")
        with naming(file):
            rules += read_rules(held)
    return rules, rest


def pairs(extra: list[str], known: Sequence[str], title: str) -> Iterator[tuple[str, str]]:
    """Names and values in the rest of a line; each name must be known, and may come only once."""
    from keyshift.catalogue.options import flag

    tokens = list(extra)
    seen: set[str] = set()
    while tokens:
        token = tokens.pop(0)
        head, _, value = token.removeprefix("--").partition("=")
        name = head.replace("-", "_")
        if not token.startswith("--") or name not in known:
            options = ", ".join(map(flag, known))
            raise InputError(f"{token:.60}: the {title} has the options {options or '(none)'}")
        if name in seen:
            raise InputError(f"{flag(name)} is given twice")
        seen.add(name)
        if not value:
            value = tokens.pop(0) if tokens and not tokens[0].startswith("--") else "true"
        yield name, value


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
    from keyshift.models.files.yaml_text import parse_yaml

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


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays as lists, null for a number that is not finite."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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


class _Line:
    """The spinner's words, by what a run does just now; Rich asks for it as long as the spinner turns."""

    def __init__(self, title: str) -> None:
        self.title, self.words = title, [""]

    def __rich__(self) -> str:
        if COMPILING.now:
            return escape(f"{self.title} - compiling, once for this machine: {COMPILING.anew:.0f} s")
        return escape(" ".join([self.title, *self.words]))


@contextmanager
def progress(title: str) -> Iterator[Callable[[Progress], None]]:
    """Show a spinner with the best figures so far on the terminal, once a run takes longer than `PATIENCE`."""
    console = Terminal(stderr=True)
    line = _Line(title)
    status = console.status(line)
    shown = threading.Event()

    def show() -> None:
        if console.is_terminal:
            status.start()
            shown.set()

    def watch(now: Progress) -> None:
        known = {"best": now.objective, "bound": now.bound}
        line.words = [now.note, *(f"{name} {figure(value)}" for name, value in known.items() if value is not None)]

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()
        if shown.is_set():
            status.stop()


# Options that a problem brings: they are read from the rest of a line, and shown where help is asked for ---------------

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


RULES_HELP = (
    'FILE, --rule "WORDS"',
    "What the cluster does not allow besides: a YAML or JSON list of rules, words or mappings; or one rule in words, as in "
    '--rule "apart partition rack", --rule "count 4000", --rule "never topic=orders rack=r1". A name with blanks or commas is '
    "quoted: --rule \"pinned 't-0 [1,2]'\". Both may be repeated.",
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
        usual = next(str(p.default) for p in self.params if p.name == "problem")
        name = named_problem(ctx.meta.get("keyshift.line", [])) or usual
        if name in FORMULATIONS:
            show_problem_options(Terminal(markup=False, highlight=False), name)


def named_problem(line: list[str]) -> str:
    """The problem that a line names; empty where it names none."""
    for position, token in enumerate(line):
        if token in ("-p", "--problem") and position + 1 < len(line):
            return line[position + 1]
        for head in ("--problem=", "-p"):
            if token.startswith(head) and len(token) > len(head):
                return token.removeprefix(head)
    return ""


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
        for part in textwrap.wrap(words, max(40, console.width - 6)):
            console.print(f"      {part}")
    console.print()


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

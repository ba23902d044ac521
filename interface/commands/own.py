"""Options that depend on the problem or the family that a command line names.

They are read off the class or function that takes them - names and defaults from its signature, words from its docstring -
and given to typer, which parses, completes and documents them like a command's own.
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import typer
from rich.markup import escape
from typer.core import TyperCommand

from keyshift.catalogue import FORMULATIONS
from keyshift.catalogue.families import FAMILIES, GENERATORS, find_family, is_instance
from keyshift.catalogue.method import flag, no_rules, read_option, refuse_missing
from keyshift.commands.common import JsonCommand, LastOption, expect_problem, options_of
from keyshift.files.table import TABLES, is_table, table_options
from keyshift.models import InputError, Problem, Workload
from keyshift.models.base.disk import read_json, read_scenarios
from keyshift.models.base.guards import annotations_of
from keyshift.models.base.lazily import load
from keyshift.models.errors import naming
from keyshift.models.rules import Rule, read_rule
from keyshift.models.rules.ruled import read_rules as rules_of

RULES = {
    "rules": ("FILE", "What the cluster does not allow besides: a YAML or JSON list of rules, words or mappings."),
    "rule": (
        '"pinned 3"',
        'One rule in words, as in --rule "apart partition rack", --rule "count 4000", --rule "never topic=orders rack=r1". '
        "A name with blanks or commas is quoted: --rule \"pinned 't-0 [1,2]'\". Both may be repeated.",
    ),
}
"""The options that give a problem's rules, with what is written after them."""


class OwnOptions(JsonCommand):
    """A command that also takes the parameters of the problem, family or table on its line as options."""

    def owners(self, given: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
        """What takes the further options, by its title in messages and help."""
        raise NotImplementedError

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's own options, then those of what the line names."""
        return [*super().get_params(ctx), *ctx.meta.get("keyshift.own", ())]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Find out which problem, family or table the line names, then parse the line."""
        loose = {"ignore_unknown_options": True, "allow_extra_args": True}
        named = TyperCommand(None, params=self.params, context_settings=loose)
        try:
            owners = self.owners(named.make_context("", list(args), resilient_parsing=True).params)
        except InputError:
            if not ctx.resilient_parsing:  # a shell that asks how the line could go on
                raise
            owners = {}
        taken = {option for parameter in self.params for option in parameter.opts}
        ctx.meta["keyshift.own"] = list(_options(owners, taken))
        try:
            return super().parse_args(ctx, list(_with_values(args, owners)))
        except Exception as error:
            if type(error).__name__ != "NoSuchOption":  # Click's, of which versions of typer bring their own copy
                raise
            option: str = error.option_name  # type: ignore[attr-defined]
            known = [name for parameter in self.get_params(ctx) for name in parameter.opts]
            raise InputError(_unknown(option, owners, known)) from None

    def invoke(self, ctx: Any) -> Any:
        """Call the command; `obj` of its context has the further options, each with all the texts that the line gives it."""
        own = {parameter.name: ctx.params.pop(parameter.name) for parameter in ctx.meta["keyshift.own"]}
        ctx.obj = {name.removeprefix("own_"): texts for name, texts in own.items() if texts}
        if "request" in ctx.params:
            posed = {name: ctx.params.pop(name, None) for name in ("problem", "last")}
            ctx.params["request"] = Request(Path(ctx.params["request"]), own=ctx.obj, **posed)
        return super().invoke(ctx)


def _options(owners: Mapping[str, Callable[..., Any]], taken: set[str]) -> list[Any]:
    """Typer's options for the parameters of some owners, but for flags that the command has itself."""
    made: dict[str, inspect.Parameter] = {}
    for title, owner in owners.items():
        said = documented(owner)
        for name, parameter in parameters(owner).items():
            needed = parameter.default is inspect.Parameter.empty
            kind, words = said.get(name, ("needed" if needed else f"default {parameter.default}", ""))
            own = RULES if name == "rules" else {name: ("VALUE", f"{kind[:1].upper()}{kind[1:]}. {words}")}
            for option, (written, help_) in own.items():
                panel = f"Options of {title.split()[-1]}"
                hint = typer.Option(flag(option), metavar=written, help=escape(help_), rich_help_panel=panel)
                if flag(option) not in taken:
                    kept = inspect.Parameter(f"own_{option}", inspect.Parameter.KEYWORD_ONLY, default=None)
                    made[option] = kept.replace(annotation=Annotated[list[str] | None, hint])

    def function() -> None: ...

    function.__signature__ = inspect.Signature(list(made.values()))  # type: ignore[attr-defined]
    return options_of(function)


def parameters(owner: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function, or of a problem but for its data, which the path of the line names."""
    known = inspect.signature(owner).parameters
    return dict(list(known.items())[1:] if inspect.isclass(owner) else known)


def _with_values(args: Sequence[str], owners: Mapping[str, Callable[..., Any]]) -> Iterator[str]:
    """The line with `true` after a flag that stands alone, which typer cannot read as such; others need a value."""
    known = {flag(name): (owner, name) for owner in owners.values() for name in parameters(owner)}
    written = dict.fromkeys(known, "VALUE")
    if "--rules" in known:
        written |= {flag(name): kind for name, (kind, _) in RULES.items()}
    for token, following in itertools.zip_longest(args, args[1:], fillvalue="--"):
        if token in written and following.startswith("--"):
            owner, name = known.get(token, (None, ""))
            annotation = None if owner is None else annotations_of(owner)[name]
            if bool not in (annotation, *get_args(annotation)):
                raise InputError(f"{token}: write it as {token} {written[token]}")
            token += "=true"
        yield token


def _unknown(option: str, owners: Mapping[str, Callable[..., Any]], known: Sequence[str]) -> str:
    """The message for an unknown option: a similar one, those there are, and the problems that have it."""
    if option.removeprefix("--") in RULES and owners:
        return f"{option}: {'; '.join(no_rules(owner, title) for title, owner in owners.items())}"
    like = difflib.get_close_matches(option.strip("-"), [name.strip("-") for name in known], n=1, cutoff=0.75)
    said = [f"there is no such option{', perhaps --' * len(like)}{''.join(like)}"]
    said += [f"{of} has the options {', '.join(map(flag, parameters(o))) or '(none)'}" for of, o in owners.items()]
    has = [name for name, posed in FORMULATIONS.items() if option in map(flag, parameters(posed.problem_class))]
    if has and any(issubclass(owner, Problem) for owner in owners.values() if inspect.isclass(owner)):
        said.append(f"{' and '.join(has)} {'have' if has[1:] else 'has'} it (-p)")
    return f"{option:.60}: {'; '.join(said)}"


def documented(owner: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Kind and description of each parameter, read from a numpydoc docstring."""
    lines = (inspect.getdoc(owner) or "").splitlines()
    found: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in lines[lines.index("Parameters") + 2 :] if "Parameters" in lines else ():
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


# What the options say --------------------------------------------------------------------------------------------------


def read_own(owner: Callable[..., Any], own: Mapping[str, Sequence[str]], title: str) -> dict[str, Any]:
    """Parameters from the texts of a line, each read as the annotation of what takes it says."""
    made: dict[str, Any] = {"rules": read_rules(**own)} if own.keys() & RULES.keys() else {}
    for name, text in once({name: texts for name, texts in own.items() if name not in RULES}):
        made[name] = read_scenarios(Path(text)) if name == "scenarios" else read_option(owner, name, text)
    refuse_missing(parameters(owner), made, title)
    return made


def once(own: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Names and texts of options that may stand on a line only once."""
    for name, texts in own.items():
        if len(texts) > 1:
            raise InputError(f"{flag(name)} is given twice")
        yield name, texts[0]


def read_rules(rules: Sequence[str] = (), rule: Sequence[str] = (), **_: Any) -> list[Rule]:
    """The rules in files, in YAML or JSON - ``none`` names none -, then those in words."""
    from keyshift.models.base.yaml_text import read_yaml

    made: list[Rule] = []
    for file in (Path(text) for text in rules if text != "none"):
        held = read_json(file) if file.suffix == ".json" else read_yaml(file, texts=True)
        if not isinstance(held, list):
            raise InputError(f"{file}: there must be a list of rules, not {held!r:.60}")
        with naming(file):
            made += rules_of(held)
    return made + [read_rule(words, "--rule") for words in rule]


# A problem, as a line asks about it ------------------------------------------------------------------------------------


def _begins(incomplete: str) -> list[str]:
    return [name for name in FORMULATIONS if name.startswith(incomplete)]


ProblemOption = Annotated[
    str,
    typer.Option("--problem", "-p", help="Which problem to pose; see `keyshift methods`.", autocompletion=_begins),
]


@dataclass(frozen=True)
class Request:
    """The problem that a line asks about: PATH, --problem, --last, and the texts of the problem's own parameters."""

    path: Path
    problem: str
    last: int | None = None
    own: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def read(self, beside: bool = True) -> Problem:
        """The problem itself; with the priorities that lie beside the workload, or as it is printed."""
        expect_problem(self.problem)
        chosen = (self._priorities() if beside else {}) | self.options()
        cls = FORMULATIONS[self.problem].problem_class
        return cls(self.workload(), **chosen) if self.table else cls.from_path(self.path, last=self.last, **chosen)  # type: ignore[call-arg]

    @property
    def table(self) -> dict[str, Any]:
        """What the line says of the columns of a table."""
        known = parameters(table_options) if is_table(self.path) else {}
        return table_options(**dict(once({name: texts for name, texts in self.own.items() if name in known})))

    def workload(self) -> Workload:
        """The workload itself."""
        from keyshift.files.workload import read_workload

        return read_workload(self.path, last=self.last, **self.table)

    def options(self) -> dict[str, Any]:
        """The problem's parameters; with the rules that lie beside the workload, unless the line names others."""
        expect_problem(self.problem)
        cls = FORMULATIONS[self.problem].problem_class
        file = beside(self.path, "rules")
        lies = "rules" in parameters(cls) and "rules" not in self.own and file.is_file()
        own = {**self.own, "rules": [str(file)]} if lies else self.own
        own = {name: texts for name, texts in own.items() if name not in self.table}
        return read_own(cls, own, f"the problem {self.problem}")

    def _priorities(self) -> dict[str, Any]:
        """The priorities that lie beside the workload, for a problem that has such measures."""
        from keyshift.models.base.yaml_text import read_yaml

        file = beside(self.path, "priorities")
        known = getattr(FORMULATIONS[self.problem].problem_class, "measures", ())
        if not file.is_file():
            return {}
        held = read_yaml(file)
        if not isinstance(held, list) or not all(isinstance(measure, str) for measure in held):
            raise InputError(f"{file}: there must be a list of measures, not {held!r:.60}")
        return {"priorities": held} if set(held) <= set(known) else {}


def beside(workload: Path, what: str) -> Path:
    """The file for a workload's own `rules` or `priorities`, which an import writes; they apply unless the line names others."""
    return workload.with_suffix(f".{what}.yaml") if workload.suffix in (".json", *TABLES) else workload / f"{what}.yaml"


def path_of(words: str) -> Any:
    """The path of a line, with its words of help."""
    return Annotated[str, typer.Argument(metavar="PATH", help=words)]  # a text: versions of typer make paths of paths


if TYPE_CHECKING:
    RequestArgument: TypeAlias = Request
    PeriodsArgument: TypeAlias = Request
    CertifiedArgument: TypeAlias = Request
else:  # the path of a line, which `OwnOptions` completes to what is asked
    RequestArgument = path_of("A workload: a directory, a .json file, or a table as .csv or .parquet.")
    PeriodsArgument = path_of("Statistics of `keyshift stats`, a workload, or a folder of workloads.")
    CertifiedArgument = path_of("A workload, which is solved first; or a solution's file.")

USUAL = {"pareto": "mclb", "replay": "collocated-allocation"}
"""The problem of a command whose line names none, where it is not key-group allocation."""


def _posed(problem: ProblemOption = "key-group-allocation", last: LastOption = None) -> None:
    """The options of all commands about a problem."""


class ProblemCommand(OwnOptions):
    """A command about a problem, whose parameters are options of its line."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        problem, last = options_of(_posed)
        problem.default = USUAL.get(self.name or "", problem.default)
        needed = sum(parameter.required for parameter in self.params)
        self.params[needed:needed] = [problem] if self.name == "replay" else [problem, last]  # a replay takes periods
        self.help = (
            f"{self.help}\n\nThe problem's own parameters are options too, such as --max-migrations 13; -p PROBLEM --help "
            "lists them."
        )

    def owners(self, given: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
        """The problem that is named, or the usual one."""
        name = given["problem"]
        expect_problem(name)
        cls = FORMULATIONS[name].problem_class
        path = str(given.get("request"))
        table = self.name != "replay" and is_table(path) and "workload" in inspect.signature(cls).parameters
        return {f"the problem {name}": cls, **({f"the table {path}": table_options} if table else {})}


# Families of instances, as a line draws from them ----------------------------------------------------------------------


class FamilyCommand(OwnOptions):
    """A command about families of instances, whose generators' parameters are options of its line."""

    def owners(self, given: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
        """The generators that the line names, or may name: values of options are among the words."""
        if "kind" in given:
            return {f"the generator {given['kind']}": generator(given["kind"])} if given["kind"] else {}
        known = {f"the family {name}": FAMILIES[name].function for name in given["family"] or () if name in FAMILIES}
        if given["family"] and not known and not is_instance(given["family"][0]):
            find_family(given["family"][0])
        return known


def generator(kind: str) -> Callable[..., Any]:
    """The function that draws what `keyshift generate` writes."""
    if kind not in GENERATORS and kind not in FAMILIES:
        raise InputError(f"{kind:.60}: choose one of {', '.join([*GENERATORS, *FAMILIES])}")
    return load(GENERATORS[kind]) if kind in GENERATORS else FAMILIES[kind].function

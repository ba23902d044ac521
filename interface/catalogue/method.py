"""The catalogue's entries - a problem, a method, a statement, a trade - and how they are found."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Literal, get_args

from keyshift.models import Answer, InputError, Problem
from keyshift.models.base.compiling import COMPILING, off_clock
from keyshift.models.base.disk import shown
from keyshift.models.base.guards import annotations_of, check_option, check_value
from keyshift.models.base.lazily import NamesCode, load
from keyshift.models.stages import Stage

Kind = Literal["exact", "relaxation", "heuristic"]
USUAL: Mapping[Kind, str] = {
    "exact": "the optimum, proven; at a limit the best found and a bound",
    "relaxation": "a lower bound",
    "heuristic": "none",
}
"""The guarantee of a method that does not say another."""
_READY: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Method(NamesCode):
    """One way to answer a problem.

    Attributes
    ----------
    name : str
        The paper's name for it.
    kind : {"exact", "relaxation", "heuristic"}
        Proves optima; proves bounds; only finds assignments.
    source : str
        Where it is described: the names in brackets are those of docs/papers.md.
    code : str
        ``"module:function"``; a function that was imported `lazily` is stored in this form. Called as
        ``function(problem, budget=..., seed=..., **options)`` and, when it takes one, ``start=...``; returns an `Answer`.
    guarantee : str
        What is guaranteed about its answer; by default what is usual for its kind.
    limits : str
        The sizes that it is meant for, if they are small.
    warm_start : tuple of str
        Heuristics that `solve` tries, in this order, to find a start when the caller gives none.
    rescue : tuple of str
        Heuristics that it tries after these, as long as no start is feasible.
    rivals : tuple of str
        Heuristics that are tried in the last part of the time if the method has no proof; the best answer is returned.
    useful : str, optional
        ``"module:function"`` from a problem to whether this heuristic is worth trying as a start.
    warm_up : str, optional
        ``"module:function"`` that, called with the method's own function, compiles what that needs; see `compile_ahead`.
    lesson : str
        The page of the docs that shows it, if it is not the formulation's.
    ignores : tuple of str
        Limits of the problem that the published algorithm does not know: an answer that breaks them is refused and shown.
    rules : bool
        Whether it keeps the rules of a problem (`keyshift.rules`); if not, it is not among the methods of a problem
        with rules.
    later : str, optional
        ``"module:function"`` that answers a later stage of a problem with priorities, with a bound; by default local
        search does, without one.
    """

    CODE = ("code", "warm_up", "later", "useful")

    name: str
    kind: Kind
    source: str
    code: Any
    guarantee: str = ""
    limits: str = ""
    warm_start: tuple[str, ...] = ()
    rescue: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    useful: Any = None
    warm_up: Any = None
    lesson: str = ""
    rules: bool = False
    later: Any = None
    ignores: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "guarantee", self.guarantee or USUAL[self.kind])

    def compile_ahead(self) -> None:
        """Compile what the method may call, once per process; otherwise kernels are compiled when they are needed."""
        if self.warm_up is not None and (self.warm_up, self.code) not in _READY:
            with COMPILING.at_once():
                resolve_name(self.warm_up)(self.function)
            _READY.add((self.warm_up, self.code))

    @property
    def function(self) -> Callable[..., Answer]:
        """The code itself, imported on first use."""
        return resolve_name(self.code)

    @cached_property
    def takes_start(self) -> bool:
        """Whether the method can begin from a known assignment."""
        return "start" in inspect.signature(self.function).parameters

    @property
    def starts(self) -> tuple[str, ...]:
        """All heuristics that may compute its start."""
        return self.warm_start + self.rescue

    def may_help(self, problem: Problem) -> bool:
        """Whether it is worth trying as a start."""
        return self.useful is None or bool(resolve_name(self.useful)(problem))

    @property
    def options(self) -> dict[str, Any]:
        """The method's own options with their defaults: all but what `solve` gives every method."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.name not in ("problem", "budget", "seed", "start")}

    def checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, each checked against its annotation; `InputError` for an unknown or unfitting one."""
        if not options:
            return {}
        known = self.options
        for name in options:
            if name not in known:
                has = f"its options are {', '.join(known)}" if known else "it has none"
                raise InputError(f"method {self.name!r} has no option {name!r}; {has}")
        fits = annotations_of(self.function)
        return {name: check_value(fits[name], name, value) for name, value in options.items()}


def kinds(**usual: Any) -> tuple[Callable[..., Method], ...]:
    """Constructors of a formulation's exact methods, relaxations and heuristics, with the defaults of each kind."""

    def of(kind: Kind) -> Callable[..., Method]:
        def made(name: str, source: str, code: Any, guarantee: str = "", **own: Any) -> Method:
            return Method(name, kind, source, code, guarantee, **{**usual, **own})

        return made

    return of("exact"), of("relaxation"), of("heuristic")


@dataclass(frozen=True)
class Formulation(NamesCode):
    """A problem class, how to load it, and the methods that answer it (the default one first).

    Attributes
    ----------
    name : str
        The problem's name on the shell.
    summary : str
        One sentence: what is decided.
    code : str
        ``"module:class"`` of the problem.
    lesson : str
        The page of the docs that teaches it.
    methods : tuple of Method
    statements : tuple of Statement
        The declarative models that `keyshift.model` opens, the simplest first.
    trades : tuple of Trade
        Second objectives for `pareto`, the default one first.
    bounds : mapping of str to str
        ``"module:function"`` by measure; ``function(problem, budget, seed)`` returns a lower bound on the measure.
    """

    name: str
    summary: str
    code: Any
    lesson: str
    methods: tuple[Method, ...] = field(default=())
    statements: tuple[Statement, ...] = field(default=())
    trades: tuple[Trade, ...] = ()
    bounds: Mapping[str, Any] = field(default_factory=dict)

    @property
    def measure_bounds(self) -> dict[str, Callable[..., float]]:
        """Those of `bounds`, imported."""
        return {measure: load(code) for measure, code in self.bounds.items()}

    def stated(self, stage: Stage, language: str) -> Any:
        """The plain statement of a stage of a problem with priorities."""
        (statement,) = (s for s in self.statements if s.kind == language)
        with off_clock():
            made = resolve_name(statement.code)
        return made.of_stage(stage)

    @property
    def problem_class(self) -> type[Problem]:
        """The problem's class, imported on first use."""
        return resolve_name(self.code)


# Looking entries up; the package itself puts them in ------------------------------------------------------------------

BY_NAME: dict[str, Formulation] = {}
"""What `FORMULATIONS` shows; only the package itself writes to it."""
FORMULATIONS: Mapping[str, Formulation] = MappingProxyType(BY_NAME)
"""Every formulation, by the name of its problem."""


def formulation_of(problem: Problem | type[Problem] | str) -> Formulation:
    """The catalogue's entry for a problem, a class of problems or the name of one."""
    cls = problem if isinstance(problem, type) else type(problem)
    name = problem if isinstance(problem, str) else str(getattr(cls, "name", "")) if issubclass(cls, Problem) else ""
    if name not in FORMULATIONS:
        said = shown(name) if isinstance(problem, str) else cls.__name__
        raise InputError(f"{said} is not one of keyshift's problems: {', '.join(FORMULATIONS)}")
    return FORMULATIONS[name]


def methods(problem: Problem | type[Problem] | str) -> list[Method]:
    """List the methods that apply to a problem, the default one first.

    Parameters
    ----------
    problem : Problem, class or str
        A class, or a name such as ``"mixed-routing"``, means its problems without rules.

    Returns
    -------
    list of Method
        Each with its name, kind ("exact", "relaxation", "heuristic") and source.
    """
    ruled = bool(getattr(problem, "rules", ()))
    return [method for method in formulation_of(problem).methods if method.rules or not ruled]


def chosen_methods(problem: Problem, names: str | Sequence[str] | None) -> list[Method]:
    """The methods of these names, in their order; a name alone is that method, None every one that applies."""
    if names is None:
        return methods(problem)
    return [find_method(problem, name) for name in ([names] if isinstance(names, str) else names)]


_RETIRED = {("migration-sequence", "profile"): "oms", ("mixed-routing", "lp-pooled"): "lp"}
"""Methods that others answer as well."""


def find_method(problem: Problem, name: str | None) -> Method:
    """The method of that name, or the default one; `InputError` names the alternatives."""
    known = methods(problem)
    if name is None:
        return known[0]
    if isinstance(name, str) and (problem.name, name) in _RETIRED:
        said = f"the method {name!r} is retired and goes in 0.6: write {_RETIRED[problem.name, name]!r}"
        warnings.warn(said, DeprecationWarning, stacklevel=3)
        name = _RETIRED[problem.name, name]
    for method in known:
        if isinstance(name, str) and method.name == name:
            return method
    if isinstance(name, str) and any(method.name == name for method in formulation_of(problem).methods):
        raise InputError(f"method {shown(name)} keeps no rules; choose one of {', '.join(m.name for m in known)}")
    raise InputError(f"no method {shown(name)} for {problem.name}; choose one of {', '.join(m.name for m in known)}")


# The catalogue's entry of two objectives that pull against each other --------------------------------------------------


@dataclass(frozen=True)
class Trade(NamesCode):
    """A second objective of a problem, and the limit that restricts it.

    Attributes
    ----------
    name : str
        As `pareto` and the shell take it, such as ``"migrations"``.
    metric : str
        The metric that measures it.
    limit : str
        The problem's parameter that bounds it: the epsilon-constraint method tightens this one.
    label : str
        For axes and tables, with the unit.
    whole : bool
        Whether only whole numbers occur.
    offset : float
        The limit is the metric's value minus this offset: a largest load of 1.2 times the mean is a tolerance of 0.2.
    least : int, optional
        If every value of the parameter is tried because it does not bound a metric by itself: the least value.
    options : str, optional
        ``"module:function"`` from the problem to options that its method takes at every point.
    apart : bool
        Whether points are solved separately, several at a time if asked, and proven points again to find an equally
        good answer with less of the second objective.
    """

    CODE = ("options",)

    name: str
    metric: str
    limit: str
    label: str
    whole: bool = False
    offset: float = 0.0
    least: int | None = None
    options: Any = None
    apart: bool = False


# The catalogue's entry of a declarative statement ----------------------------------------------------------------------

Language = Literal["pyomo", "cp-sat", "mathopt"]


@dataclass(frozen=True)
class Statement(NamesCode):
    """One way to write a problem down as variables, constraints and an objective.

    The class that `code` names is made from the problem, by its classmethod ``of`` where it has one. If it takes
    ``strengthened``, this says whether it may exclude feasible answers as long as an optimum remains - interchangeable
    nodes in order, a limit from a known answer, variables fixed or limited from one side only -, which is wrong as soon
    where a rule is added. It has

    * ``model``: the ConcreteModel, CpModel or mathopt.Model itself;
    * ``set_start(assignment)`` (Pyomo, CP-SAT) or ``hint(assignment)`` (MathOpt, a `SolutionHint`), where it answers;
    * ``assignment(...)``: the answer from the variables' values - Pyomo's own, through a function from a variable to its
      value (CP-SAT), from a mapping of variables to values (MathOpt);
    * ``bound(proven)``: a proven bound on the model's objective as one on the problem's; None where it bounds nothing, or
      no such method;
    * ``forbid(assignment)``, if tolerances or rounding may admit what the check refuses;
    * in Pyomo ``letters`` ({component: one letter for each part of its index}), and ``label(component, index)`` where a
      letter does not do: they make the names in files (`keyshift.modelling.opened_pyomo`).

    Attributes
    ----------
    kind : str
        Its name for `keyshift.model`; the plain one is that of its language.
    language : {"pyomo", "cp-sat", "mathopt"}
    code : str
        ``"module:class"``.
    summary : str
        One sentence: what its variables are, or how it differs from the plain statement.
    source : str
        Where its numbers are explained: the problem's docstring, with the paper's name in brackets.
    integer : bool
        Whether it has whole variables; without, it is its own linear relaxation.
    exact : bool
        Whether its optimum is the problem's. If not, it bounds the problem's from below, and has no assignment.
    reader : str, optional
        ``"module:function"``, called as ``function(statement, budget)`` with the solved statement: makes the `Answer`
        if that takes more than reading variables.
    """

    CODE = ("code", "reader")

    kind: str
    language: Language
    code: Any
    summary: str
    source: str
    integer: bool = True
    exact: bool = True
    reader: Any = None

    def build(self, problem: Problem, strengthened: bool = True, **options: Any) -> Any:
        """The statement of a problem: an object of the class that `code` names, with options of its own."""
        cls = resolve_name(self.code)
        make: Callable[..., Any] = getattr(cls, "of", cls)
        known = inspect.signature(make).parameters
        for name in options:
            if name not in known:
                raise InputError(f"a model of kind {self.kind!r} of {problem.name} has no option {name!r:.40}")
        if "strengthened" in known:
            options["strengthened"] = strengthened
        return make(problem, **options)


def pyomo_and_cpsat(
    pyomo: Any,
    cpsat: Any,
    summary: str,
    source: str,
    whole: str = "The same in whole numbers, widened where they round.",
) -> tuple[Statement, Statement]:
    """The plain statements of most problems: one in Pyomo, and the same one in CP-SAT, of which `whole` is the summary."""
    return Statement("pyomo", "pyomo", pyomo, summary, source), Statement("cp-sat", "cp-sat", cpsat, whole, source)


# Options as a command line gives them: read from texts, and checked by their annotations -------------------------------


_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
"""What stands on most lines: it needs no reader of YAML, whose import takes longer."""


def read_option(owner: Callable[..., Any], name: str, text: str) -> Any:
    """A parameter given as a text: YAML, or the text itself where the parameter may be one.

    Raises
    ------
    InputError
        With the option as it stands on the line, or the parameter and its value.
    """
    if len(text) > 100_000:  # a value this long is no option: YAML takes its time over it
        raise InputError(f"{flag(name)}: the value has {len(text):,} characters, at most 100,000 are read")
    try:
        if _NUMBER.fullmatch(text):
            value: Any = float(text) if "." in text else int(text)
        else:
            from keyshift.models.base.yaml_text import parse_yaml

            value = parse_yaml(text, flag(name))
    except InputError:
        value = text if _takes_text(owner, name) else None
        if value is None:
            raise InputError(f"{flag(name)} {text:.60}: not a readable value") from None
    try:
        return check_option(owner, name, value)
    except InputError as error:
        if not isinstance(value, str) and _takes_text(owner, name):
            return check_option(owner, name, text)
        raise InputError(f"{error}{', such as {name: 1}' * str(error).endswith('an object')}") from None


def _takes_text(owner: Callable[..., Any], name: str) -> bool:
    annotation = annotations_of(owner)[name]
    return str in (annotation, *get_args(annotation))


def flag(name: str) -> str:
    """A parameter's name on the command line."""
    return "--" + name.replace("_", "-")


def no_rules(of: Any, title: str) -> str:
    """That something takes no rules, and why, for messages."""
    why = getattr(of, "ruleless", "")
    return f"{title} takes no rules{': ' * bool(why)}{why}"


def refuse_missing(parameters: Mapping[str, inspect.Parameter], given: Collection[str], of: str) -> None:
    """Refuse a command line that lacks a parameter without default; `of` says what they belong to."""
    missing = [p.name for p in parameters.values() if p.default is inspect.Parameter.empty and p.name not in given]
    if missing:
        verb, them = ("are", "them") if len(missing) > 1 else ("is", "it")
        raise InputError(f"{' and '.join(map(flag, missing))} {verb} missing: {of} needs {them}")

"""The base of all rules, and their scope: key groups and nodes as a workload names them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from inspect import isabstract
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args

import numpy as np

from keyshift.models.base.guards import LARGEST, annotations_of, fraction, frozen, whole
from keyshift.models.base.names import Label, Names, by_text, printed, shortened
from keyshift.models.errors import InputError
from keyshift.models.problem import Violation
from keyshift.models.rules.lowered import Form
from keyshift.models.workload import BoolArray, IntArray, Workload

Selection = Label | Sequence[Label] | Mapping[str, Label | Sequence[Label]] | None
"""Names, or labels of a column as in ``{"topic": "orders"}``; a number is the name that prints so; None is all."""


def plain(value: Any) -> Any:
    """A selection as a file holds it: tuples and mappings of Python's own numbers and texts."""
    if isinstance(value, Mapping):
        return dict(zip(by_text("a selection", value), map(plain, value.values()), strict=True))
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, set | frozenset):
        value = sorted(value, key=printed)
    return tuple(map(plain, value)) if isinstance(value, list | tuple | range) else value


class KeyGroupSets(NamedTuple):
    """Disjoint sets of key groups: the members, shape (m,), the number of the set of each, and the sets' names."""

    members: IntArray
    number: IntArray
    names: list[str]

    def __iter__(self) -> Iterator[tuple[str, IntArray]]:  # type: ignore[override]  # set by set, not field by field
        if not self.names:
            return iter(())
        order = np.argsort(self.number, kind="stable")
        ends = np.cumsum(np.bincount(self.number, minlength=len(self.names)))
        return iter(zip(self.names, np.split(self.members[order], ends[:-1]), strict=True))

    def of(self, place: int) -> IntArray:
        """The members of one set."""
        return self.members[self.number == place]

    def said(self, place: int) -> str:
        """The name of a set for the beginning of a sentence; nothing for the only one."""
        return f"{self.names[place]}: " if self.names[place] else ""

    def counts(self, at: IntArray, places: int) -> IntArray:
        """How many of each set are at each of some places, shape (sets, places)."""
        code = self.number * places + at
        return np.bincount(code, minlength=len(self.names) * places).reshape(len(self.names), places)


@dataclass(frozen=True, eq=False)
class Scope:
    """The key groups and nodes that rules of a problem are about.

    Parameters
    ----------
    workload : Workload
    places : int
        Nodes that the problem's answers may name: the workload's, and new ones after them.
    """

    workload: Workload
    places: int
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def names(self) -> Names:
        """The names of the nodes, new ones included."""
        return self.workload.names_of_nodes.grown(self.places)

    @property
    def kept(self) -> BoolArray:
        """Which nodes do not drain, shape (places,)."""
        return np.append(self.workload.kept, np.ones(self.places - self.workload.nodes, dtype=bool))

    def _once(self, what: str, chosen: Any, make: Callable[[], Any]) -> Any:
        """The resolved selection, computed once: searches ask for every candidate."""
        said = f"{what} {chosen!r}"
        if said not in self._known:
            self._known[said] = make()
        return self._known[said]

    def key_groups(self, rule: str, chosen: Selection) -> IntArray:
        """The numbers of the key groups chosen, in increasing order."""
        w = self.workload
        made = lambda: _chosen(rule, chosen, w.names_of_key_groups, w.groups)  # noqa: E731
        return frozen(self._once(f"{rule}: key group", chosen, made))

    def nodes(self, rule: str, chosen: Selection) -> BoolArray:
        """Which nodes are chosen, shape (places,)."""
        made = lambda: np.isin(  # noqa: E731
            np.arange(self.places), _chosen(rule, chosen, self.names, self.workload.domains)
        )
        return frozen(self._once(f"{rule}: node", chosen, made))

    def domain(self, rule: str, name: str) -> tuple[IntArray, list[Label]]:
        """The domain of each node, shape (places,), and the domains' names; "node" is each node by itself."""
        return self._once(f"{rule}: domain", name, lambda: self._domain(rule, printed(name)))

    def _domain(self, rule: str, name: str) -> tuple[IntArray, list[Label]]:
        w = self.workload
        if name == "node":
            return np.arange(self.places), list(self.names)
        if name not in w.domains:
            said = f"{rule}: the workload has no domain {name!r:.60}; it has {shortened(['node', *w.domains])}"
            raise InputError(said)
        if self.places > w.nodes:
            raise InputError(f"{rule}: new nodes have no {name}: add them to the workload, with one")
        labels = w.domains[name]
        names = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
        number = {label: d for d, label in enumerate(names)}
        return np.array([number[label] for label in labels], dtype=np.int64), names

    def sets(self, rule: str, chosen: Selection, by: str | None) -> KeyGroupSets:
        """The key groups chosen as one set, or a set for each label of a column."""
        return self._once(f"{rule}: by {by}", chosen, lambda: self._made(rule, chosen, by))

    def _made(self, rule: str, chosen: Selection, by: str | None) -> KeyGroupSets:
        members = self.key_groups(rule, chosen)
        if by is None:
            return KeyGroupSets(members, np.zeros(members.size, dtype=np.int64), [""])
        if printed(by) not in self.workload.groups:
            said = f"{rule}: no column {by!r:.60} of key groups; there is {shortened([*self.workload.groups])}"
            raise InputError(said)
        labels = np.array([printed(label) for label in self.workload.groups[printed(by)]])[members]
        names, number = np.unique(labels, return_inverse=True)
        return KeyGroupSets(members, number.ravel(), [f"{by} {name}" for name in names.tolist()])

    def said(self, key_groups: IntArray, most: int = 3) -> str:
        """Key groups by name, for messages."""
        names = ", ".join(str(self.workload.key(k)) for k in key_groups[:most])
        return names + (f" and {key_groups.size - most} more" if key_groups.size > most else "")


def _chosen(rule: str, chosen: Any, names: Names, columns: Mapping[str, Sequence[Label]]) -> IntArray:
    """Positions from names, or from labels of columns; each is compared as a text."""
    if chosen is None:
        return np.arange(len(names))
    if isinstance(chosen, Mapping):
        keep = np.ones(len(names), dtype=bool)
        for column, wanted in chosen.items():
            if column not in columns:
                has = f"they have {shortened([*columns])}"
                raise InputError(f"{rule}: {names.what}s have no column {column!r:.60}; {has}")
            texts = set(map(printed, wanted if isinstance(wanted, tuple) else [wanted]))
            labels = list(map(printed, columns[column]))
            if missing := sorted(texts - set(labels)):
                raise InputError(f"{rule}: {names.what}s have no {column} {missing[0]!r:.60}")
            keep &= np.array([label in texts for label in labels] + [False] * (len(names) - len(labels)), dtype=bool)
        return np.flatnonzero(keep)
    given = chosen if isinstance(chosen, tuple) else [chosen]
    return np.unique(np.array([names.position(rule, one) for one in given], dtype=np.int64))


AnyRule = TypeVar("AnyRule", bound="Rule")
_SAID = {"true": True, "false": False, "null": None}

RULES: dict[str, type[Rule]] = {}
"""Every rule that a file or a line may name, by its name (`register_rule`)."""


@dataclass(frozen=True)
class Rule(ABC):
    """One rule of a cluster: which assignments it forbids, and the forms below (`keyshift.models.rules.lowered`).

    A subclass is a frozen dataclass in a file of its own. Its check counts on assignments and does not use the forms.
    """

    name: ClassVar[str]
    """The rule's name in files, on the shell, and in `Violation.rule`."""

    words: ClassVar[tuple[str, ...]]
    """The fields that words on the shell stand for, in their order."""

    numbers: ClassVar[tuple[str, ...]] = ()
    """The fields that `remedies` may loosen: "at_least" downwards, all others upwards."""

    counts: ClassVar[bool] = True
    """Whether its numbers count key groups, and so are whole."""

    one_of: ClassVar[tuple[str, ...]] = ()
    """The fields of which one must be given: by default the numbers."""

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, plain(getattr(self, f.name)))
        if wanted := self.one_of or self.numbers:
            self.needs(*wanted)
        for name in self.numbers if self.counts else ():
            self.whole(name)

    @property
    def of_today(self) -> bool:
        """Whether it is about the load of the last window, and has no part in a problem about another."""
        return False

    @abstractmethod
    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        """The violations of an assignment: a sentence, the key group or node at fault, and by how much."""

    @abstractmethod
    def forms(self, scope: Scope) -> Iterator[Form]:
        """The rule in the four forms; `InputError` where the workload lacks what it names."""

    def violations(self, problem: Any, assignment: Any) -> list[Violation]:
        """The broken parts of the rule, for an assignment of a problem.

        Parameters
        ----------
        problem : Problem
        assignment : array_like of int, shape (p,)
        """
        return list(self.broken_in(problem.scope, problem.canonical(assignment)))

    def broken_in(self, scope: Scope, assignment: IntArray) -> Iterator[Violation]:
        """`violations` of a canonical assignment."""
        for said, where, amount in self.broken(scope, assignment):
            yield Violation(self.name, f"{self}: {said}", where, amount)

    def enough(self, scope: Scope) -> float:
        """A value of a number that limits nothing, where larger is looser."""
        return scope.workload.key_groups

    def needed(self, scope: Scope, name: str, assignment: IntArray) -> float:
        """The value of a number that an assignment needs, as far as it is looser than the rule's own."""
        alone = replace(self, **{other: None for other in self.numbers if other != name})
        over = max((amount for _, _, amount in alone.broken(scope, assignment)), default=0.0)
        value: float = getattr(self, name)
        return value - over if name == "at_least" else value + over

    def record(self) -> dict[str, Any]:
        """The rule as a file holds it: its name, and the fields that are not as by default."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        defaults = {f.name: f.default for f in fields(self)}
        return {"rule": self.name, **{name: value for name, value in own.items() if value != defaults[name]}}

    def __str__(self) -> str:
        given = [f"{name}={_short(value)}" for name, value in self.record().items() if name != "rule"]
        return f"{type(self).__name__}({', '.join(given)})"

    def needs(self, *names: str) -> None:
        """Refuse a rule without any of these fields."""
        if all(getattr(self, name) is None for name in names):
            raise InputError(f"{self.name} needs {' or '.join(names)}")

    def whole(self, name: str) -> None:
        """Refuse anything but a whole number of 0 or more, or None, in a field."""
        value = whole(f"{self.name}: {name}", getattr(self, name), most=LARGEST)
        object.__setattr__(self, name, value)

    @classmethod
    def of_words(cls, text: str) -> Rule:
        """The rule that words on the shell say, as in ``apart partition rack`` or ``never topic=orders rack=r1``.

        Each word stands for one field, in the order of `words` or by its name: ``count at_most=4000``.
        """
        said = f"rule {text!r:.80}"
        known, made = [f.name for f in fields(cls)], dict[str, Any]()
        for name, value in split_words(text[len(text.split()[0]) :], known, said):
            waiting = [other for other in (name, *cls.words) if other and other not in made]
            if not waiting or (name and name in made):
                raise InputError(f"{said}: nothing is left for {value!r:.40}; {cls.name} has {', '.join(known)}")
            made[waiting[0]] = value
        return cls.of(made, said)

    @classmethod
    def of(cls, given: Mapping[str, Any], said: str) -> Rule:
        """The rule with the fields given by name, or `InputError`."""
        known = {f.name: f for f in fields(cls)}
        if unknown := [name for name in given if name not in known]:
            raise InputError(f"{said}: {cls.name} has no {unknown[0]!r:.40}; it has {', '.join(known)}")
        if missing := [n for n, f in known.items() if f.default is MISSING and n not in given]:
            raise InputError(f"{said}: {cls.name} needs {' and '.join(missing)}")
        return cls(
            **{name: _as_number(v, f"{said}: {name}") if name in _untexted(cls) else v for name, v in given.items()}
        )


def register_rule(rule: type[AnyRule]) -> type[AnyRule]:
    """Let files, lines and the shell of this process name a rule: a decorator, above ``@dataclass(frozen=True)``.

    Raises
    ------
    InputError
        For a class that is no rule, a name that is taken, or one of `words`, `numbers` or `one_of` that is no field.
    """
    whole = isinstance(rule, type) and issubclass(rule, Rule) and is_dataclass(rule) and not isabstract(rule)
    said = getattr(rule, "__qualname__", rule)
    if not whole or not isinstance(name := getattr(rule, "name", None), str) or not name.isidentifier():
        raise InputError(f"{said} must be a frozen dataclass under Rule, with a name, `broken` and `forms`")
    known = {f.name for f in fields(rule)}
    if lost := [one for one in (*rule.words, *rule.numbers, *rule.one_of) if one not in known]:
        raise InputError(f"{said} has no field {lost[0]!r}, which it names")
    other = RULES.get(name, rule)
    if (other.__module__, other.__qualname__) != (rule.__module__, rule.__qualname__):
        raise InputError(f"{said}: there is a rule {name!r:.60} already, {other.__qualname__}")
    RULES[name] = rule
    return rule


@lru_cache(maxsize=64)
def _untexted(rule: type[Rule]) -> frozenset[str]:
    """The fields that take no text: one that is given for them, in words or in YAML, stands for a number."""
    takes = annotations_of(rule)
    return frozenset(name for name, of in takes.items() if of is not Any and str not in (of, *get_args(of)))


def _as_number(value: Any, said: str) -> Any:
    """The number that a text says, or true, false or null; of a mapping each value; anything else as it is."""
    if isinstance(value, Mapping):
        return {key: _as_number(one, f"{said}[{key!r:.60}]") for key, one in value.items()}
    if not isinstance(value, str):
        return value
    if value in _SAID:
        return _SAID[value]
    exact = fraction(said, value)
    return int(exact) if exact.denominator == 1 else float(exact)


def _short(value: Any) -> str:
    """A value for a message, without most of a long list."""
    if isinstance(value, tuple) and len(value) > 4:
        return f"({', '.join(map(repr, value[:3]))}, ... {len(value)} in all)"
    return f"{list(value)!r:.80}" if isinstance(value, tuple) else f"{value!r:.80}"


# The words of a rule: values between blanks, several with commas between them, or labels of columns behind equals signs.
# What stands there stays text. A value that begins with a quote, ' or ", ends with the same one and may hold anything, the quote
# itself doubled: pinned 't-0 [1,2]',"it's". Elsewhere a quote is a letter like others, and so is a bracket:
# never topic=orders [::1]:7001.

_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_PART = re.compile(rf"""(?:(?P<column>{_QUOTED}|[^\s,='"][^\s,=]*)=)?(?P<value>{_QUOTED}|[^\s,'"][^\s,]*|)""")
_FIELD = re.compile(r"(\w+)=")
_BLANKS = re.compile(r"\s*")


def split_words(text: str, fields: Collection[str], said: str) -> Iterator[tuple[str, Any]]:
    """The words of a text: the field that each names, "" for none; and its value.

    A value is a text, a tuple of texts, or a mapping of columns to labels.

    Raises
    ------
    InputError
        For a quote that does not end where a value ends.
    """
    at = _end(_BLANKS, text, 0)
    while at < len(text):
        named = _FIELD.match(text, at)
        field = named[1] if named and named[1] in fields else ""
        at += len(field) + bool(field)
        parts: list[tuple[str, str]] = []
        while True:
            found = _PART.match(text, at)
            assert found is not None  # a value may be empty
            if found[0]:
                parts.append((found["column"] or "", found["value"]))
            at = found.end()
            if text[at : at + 1] != ",":
                break
            at += 1
        if at < len(text) and not text[at].isspace():
            raise InputError(f"{said}: a quote begins or ends within a value at {text[at:]!r:.40}; double it there")
        yield field, _value(parts, len(parts) > 1 or text[at - 1] == ",")
        at = _end(_BLANKS, text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _value(parts: list[tuple[str, str]], several: bool) -> Any:
    """A text, several, or labels of columns: a part without a column is of the one before."""
    texts = [(_unquoted(column), _unquoted(value)) for column, value in parts]
    if not any(column for column, _ in parts):
        return tuple(value for _, value in texts) if several or not texts else texts[0][1]
    made: dict[str, list[str]] = {}
    last = ""
    for column, value in texts:
        last = column or last
        made.setdefault(last, []).append(value)
    return {column: found[0] if len(found) == 1 else tuple(found) for column, found in made.items()}


def _unquoted(text: str) -> str:
    quote = text[:1]
    return text[1:-1].replace(2 * quote, quote) if quote in ("'", '"') else text

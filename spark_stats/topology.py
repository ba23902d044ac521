"""The topology: the keyed operators of a log, the cost of a tuple at each, and the edges between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from keyshift.models.base import guards
from keyshift.models.base.disk import shown
from keyshift.models.base.yaml_text import read_yaml
from keyshift.models.errors import InputError
from keyshift.spark_stats.expressions import check_text

EXPRESSIONS = ("key", "filter", "cost", "state", "bytes")
"""The fields of an operator that hold Spark SQL."""

MAX_OPERATORS = 200
"""Spark plans and compiles a query whose length grows with the operators: beyond these that takes minutes."""


@dataclass(frozen=True)
class Operator:
    """One stateful operator, described in Spark SQL over the columns of the log.

    Parameters
    ----------
    name : str
        Its name, unique in the topology.
    key : str
        The key of a tuple. A tuple whose key is null is refused by this operator, and counted.
    filter : str, optional
        Only tuples for which this holds pass the operator; null does not hold.
    cost : str, default "1"
        Load that one tuple puts on the operator: a number >= 0.
    state : str, default "1"
        State that one tuple leaves behind, in tuples or bytes: a number >= 0.
    windows : int, default 1
        The operator keeps the state of this many windows: at the end of window t it holds t - windows + 1, ..., t.
    bytes : str, optional
        Size of the tuple that it sends downstream, in bytes: a number >= 0. Without it traffic is counted in tuples
        only.
    log : str, optional
        The log that it reads, where there are more: then every operator names one.

    Raises
    ------
    InputError
        Names the operator, the field and the value that are wrong.
    """

    name: str
    key: str
    filter: str | None = None
    cost: str = "1"
    state: str = "1"
    windows: int = 1
    bytes: str | None = None
    log: str | None = None

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("log", self.log if self.log is not None else "log")):
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"operator {what} {shown(text)}: give a text that is not empty")
        for part in EXPRESSIONS:
            value = getattr(self, part)
            if isinstance(value, int | float) and not isinstance(value, bool):
                value = repr(value)  # `cost: 2` in YAML means the literal 2
                object.__setattr__(self, part, value)
            if value is None and part in ("filter", "bytes"):
                continue
            if not isinstance(value, str) or not value.strip():
                raise InputError(f"operator {self.name!r}: {part} = {value!r} must be a Spark SQL expression")
        guards.whole(f"operator {self.name!r}: windows", self.windows, least=1, optional=False)


@dataclass(frozen=True)
class Topology:
    """Keyed operators over one log, and the edges between them. Edges may form a loop.

    Parameters
    ----------
    operators : sequence of Operator (or mappings of its fields)
        In the order that numbers the key groups: index = operator * key_groups + key_group.
    edges : sequence of (str, str) or (str, str, str)
        (source, destination), by operator name; a third part is the key under which the source had what it sends, in Spark SQL,
        where that is not its key of the same row: such as in a loop of an operator to itself. Null: nothing is sent.
    trust : bool, default False
        Accept any expression of Spark, which may then call Java and read files. Otherwise only the functions of
        `keyshift.spark_stats.expressions.FUNCTIONS` are taken. No file can set this.

    Raises
    ------
    InputError
        For no operator, a name or an edge that occurs twice, an edge to an unknown operator, an operator that sends to itself
        without saying under which key, or an expression that needs more than one row.
    """

    operators: Sequence[Operator]
    edges: Sequence[tuple[str, ...]] = field(default=())
    trust: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(map(_operator, self.operators)))
        object.__setattr__(self, "edges", tuple(map(_edge, self.edges)))
        if not 1 <= len(self.operators) <= MAX_OPERATORS:
            raise InputError(f"a topology has 1 to {MAX_OPERATORS} operators, this one has {len(self.operators)}")
        _refuse_duplicate("operator", self.names)
        _refuse_duplicate("edge", [edge[:2] for edge in self.edges])
        for source, destination, *sender in self.edges:
            for name in (source, destination):
                if name not in self.names:
                    known = ", ".join(self.names)
                    said = f"edge {source} -> {destination}: there is no operator {name!r}; there are {known}"
                    raise InputError(said)
            if source == destination and not sender:
                raise InputError(
                    f"edge {source} -> {source}: a tuple has one key there; give the key that sent it as the edge's third part"
                )
        self._refuse_logs()
        if not self.trust:
            self._refuse_unsafe()

    @property
    def names(self) -> tuple[str, ...]:
        """The operators' names, in order."""
        return tuple(operator.name for operator in self.operators)

    def number(self, name: str) -> int:
        """Return the number of the operator with this name."""
        if name not in self.names:
            raise InputError(f"there is no operator {name!r}; there are {', '.join(self.names)}")
        return self.names.index(name)

    @property
    def numbered_edges(self) -> tuple[tuple[int, int], ...]:
        """The edges as pairs of operator numbers."""
        return tuple((self.number(source), self.number(destination)) for source, destination, *_ in self.edges)

    @property
    def senders(self) -> tuple[tuple[int, str], ...]:
        """Of the edges that say under which key their source had a tuple: the edge's number, and that key."""
        return tuple((number, edge[2]) for number, edge in enumerate(self.edges) if len(edge) > 2)

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Whose keys lie at the ends of each edge: an operator's number, or, behind all operators, that of a sender's key."""
        behind = {edge: len(self.operators) + at for at, (edge, _) in enumerate(self.senders)}
        return tuple((behind.get(number, source), to) for number, (source, to) in enumerate(self.numbered_edges))

    @property
    def logs(self) -> tuple[str, ...]:
        """The logs that the operators name, in order; none where there is one log."""
        return tuple(dict.fromkeys(operator.log for operator in self.operators if operator.log is not None))

    def _refuse_logs(self) -> None:
        logs = {operator.name: operator.log for operator in self.operators}
        without = [name for name, log in logs.items() if log is None]
        if self.logs and without:
            raise InputError(f"operator {without[0]!r} names no log, and {next(n for n in logs if logs[n])!r} does")
        for source, destination, *_ in self.edges:
            if logs[source] != logs[destination]:
                raise InputError(
                    f"edge {source} -> {destination}: they read different logs, and what passes between them is counted "
                    f"from one: describe {source!r} by the key it has in the log {logs[destination]!r}, or join the logs"
                )

    def _refuse_unsafe(self) -> None:
        for operator in self.operators:
            for part in EXPRESSIONS:
                text = getattr(operator, part)
                if text is not None:
                    check_text(f"operator {operator.name!r}: {part}", text)
        for number, text in self.senders:
            check_text(self.sender_of(number), text)

    def sender_of(self, edge: int) -> str:
        """The name of an edge's sender key in messages."""
        return f"edge {' -> '.join(self.edges[edge][:2])}: the sender's key"

    @classmethod
    def from_dict(cls, description: Mapping[str, Any], *, trust: bool = False) -> Topology:
        """Make a topology from ``{"operators": [{...}], "edges": [[from, to], ...]}``; `trust` as for the class."""
        parts = described(description)
        return cls(parts.get("operators", ()), parts.get("edges", ()), trust)

    @classmethod
    def from_yaml(cls, path: str | Path, *, trust: bool = False) -> Topology:
        """Read a topology from a YAML file of the form that `from_dict` takes; `trust` as for the class.

        Examples
        --------
        All fields; only `operators`, and the `name` and `key` of each, are required::

            operators:
              - name: sessions
                key: event.user.id            # a nested field; struct(shop, user) for composite keys
                filter: event.bytes > 0       # else every tuple passes
                cost: 1 + event.bytes / 1000  # else 1: every tuple is as much work as another
                state: event.bytes            # else 1: tuples are counted
                windows: 24                   # keeps the state of so many windows, else of one
                bytes: 200                    # what it sends on for a tuple; else traffic is in tuples alone
                log: clicks                   # which of the logs; else there is one
              - name: revenue
                key: shop
                log: clicks
            edges:
              - [sessions, revenue]           # a third part, [a, a, sender]: the key under which a sent it
            keys: [sessions]                  # as `keyshift stats --keys sessions`
            transitions: 0.8                  # as `keyshift stats --transitions 0.8`
        """
        return cls.from_dict(read_yaml(path), trust=trust)

    def to_dict(self) -> dict[str, Any]:
        """Return the description that `from_dict` takes."""
        named = [
            {f.name: value for f in fields(Operator) if (value := getattr(o, f.name)) is not None or f.name != "log"}
            for o in self.operators
        ]
        return {"operators": named, "edges": [list(edge) for edge in self.edges]}


def _operator(description: Any) -> Operator:
    if isinstance(description, Operator):
        return description
    if not isinstance(description, Mapping):
        raise InputError(f"operator {shown(description)} must be a mapping of its fields")
    names = [f.name for f in fields(Operator)]
    for given in description:
        if given not in names:
            said = f"operator {description.get('name')!r} has no field {given!r}; there are {', '.join(names)}"
            raise InputError(said)
    for needed in ("name", "key"):
        if needed not in description:
            raise InputError(f"operator {description.get('name')!r} has no {needed}")
    return Operator(**description)


def _edge(description: Any) -> tuple[str, ...]:
    listed = isinstance(description, Iterable) and not isinstance(description, str)
    parts = tuple(map(str, description)) if listed else ()
    if len(parts) not in (2, 3):
        raise InputError(f"edge {shown(description)} must be a pair of operator names, or these and the sender's key")
    return parts


def _refuse_duplicate(what: str, values: Sequence[Any]) -> None:
    for position, value in enumerate(values):
        if value in values[:position]:
            raise InputError(f"{what} {value!r} is given twice")


PARTS = ("operators", "edges", "keys", "transitions")
"""The parts of a topology's file; the last two are options of `keyshift stats`."""


def described(description: Any) -> dict[str, Any]:
    """A description without its empty parts.

    Raises
    ------
    InputError
        With the part and what is wrong with it. What lies within operators and edges, `Topology` itself checks.
    """
    if not isinstance(description, Mapping):
        raise InputError(f"a topology is a mapping with operators and edges, not a {type(description).__name__}")
    for name in description:
        if name not in PARTS:
            raise InputError(f"a topology has operators and edges, not {name!r}")
    parts = {name: value for name, value in description.items() if value is not None}
    for name in PARTS[:3]:
        if not isinstance(parts.get(name, []), list | tuple):
            raise InputError(f"{name} must be a list")
    for place, name in enumerate(parts.get("keys", [])):
        if not isinstance(name, str):
            raise InputError(f"keys[{place}] = {shown(name)} must be the name of an operator")
    share = parts.get("transitions", 1.0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"transitions = {shown(share)} must be a target utilisation, above 0 and at most 1")
    return parts


def wanted(path: Path) -> tuple[list[str], float | None]:
    """Further requests of a topology's file to `keyshift stats`: operators whose keys are written, and node counts."""
    parts = described(read_yaml(path))
    return parts.get("keys", []), parts.get("transitions")

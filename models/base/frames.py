"""Any data frame with a row for each key group becomes the arguments of a workload."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from keyshift.models.base.guards import as_number
from keyshift.models.base.names import Names, unique_labels
from keyshift.models.errors import InputError, refusing

USUAL: Mapping[str, tuple[str, ...]] = {
    "load": (
        "load", "weight", "cpu", "rate", "throughput", "tuples", "messages", "msgs", "records", "events", "requests", "qps",
        "rps", "tps", "utilization", "utilisation", "usage", "demand",
    ),
    "state": ("state", "size", "bytes", "disk", "storage", "volume"),
    "node": (
        "node", "broker", "worker", "current", "host", "server", "machine", "instance", "executor", "leader", "bin",
        "taskmanager", "vm",
    ),
    "key": ("key", "keygroup", "partition", "shard", "slot", "bucket", "task", "subtask", "item", "id", "name"),
}  # fmt: skip
"""What columns are usually called: a column is known by its whole name, else by the last of its words that is one of these."""
_VAGUE = ("id", "name")
"""Words that say something only as a whole name, and only where no column says more."""


FROM_TEXT, DECIMAL_COMMA = "keyshift: lines of a file", "keyshift: decimal comma"
"""Attributes of a pandas frame that was read from a text: its index counts lines; its numbers may have decimal commas."""
_OF_A_ROW = re.compile(
    r"(?:load|state|keys|home|operator|resources|groups)\b[^\[]*(?:\['.*'\])?\[(?:[0-9]+, )?([0-9]+)\]"
)


class Table:
    """Any data frame that narwhals reads, in memory; a named pandas index becomes columns."""

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        self.index: list[Hashable] = []
        self.attributes: Mapping[str, bool] = getattr(frame, "attrs", {})
        self.marks: set[str] = set()
        levels = getattr(getattr(frame, "index", None), "names", None)
        self.lines: list[Any] | None = frame.index.tolist() if levels else None
        if levels and (list(levels) != [None] or frame.index.dtype.kind not in "iu"):
            self.index = [f"index_{place}" if name is None else name for place, name in enumerate(levels)]
            frame = frame.reset_index(names=self.index)
        said = f"the table must be a data frame (pandas, Polars, Arrow, DuckDB), not a {type(frame).__name__}"
        with refusing(said, TypeError):
            table = nw.from_native(frame)
        self.data = table.collect() if isinstance(table, nw.LazyFrame) else table

    def column(self, name: Hashable) -> Any:
        """A column without gaps."""
        if name not in self.data.columns:
            raise InputError(f"the table has no column {name!r}; it has {', '.join(map(repr, self.data.columns))}")
        values = self.data.get_column(str(name))
        if (missing := values.is_null()).any():
            raise InputError(f"column {name!r} has no value in {self.place(int(missing.arg_true()[0]))}")
        return values

    def place(self, row: int) -> str:
        """A row for a message: the line of a file, the label of pandas, or the position."""
        return f"{'line' if self.attributes.get(FROM_TEXT) else 'row'} {row if self.lines is None else self.lines[row]!r:.60}"

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Within the block, what is wrong with an entry of an array of key groups says the row that it came from."""
        try:
            yield
        except InputError as error:
            of = _OF_A_ROW.match(str(error))
            raise InputError(f"{error} ({self.place(int(of[1]))})") if of else error from None

    def number(self, text: str) -> float:
        """A number as this table writes it, or `InputError` with what is wrong with it."""
        given, said = text, "is not a number"
        if self.attributes.get(DECIMAL_COMMA):
            self.marks |= {",", "."}.intersection(text)
            if len(self.marks) > 1:
                raise InputError(f"{text!r:.60}: some numbers of this file have commas and some have points")
            given = text.replace(",", ".")
        elif "," in text:
            said = "has a comma: decimal commas are read where semicolons separate the cells"
        try:
            return as_number(given)
        except ValueError:
            raise InputError(f"{text!r:.60} {said}") from None

    def numbers(self, name: Hashable) -> np.ndarray:
        """A column of numbers; texts are read as numbers, as a CSV file has them."""
        values = self.column(name).to_list()
        for row, value in enumerate(values):
            if isinstance(value, str):
                try:
                    values[row] = self.number(value)
                except InputError as error:
                    raise InputError(f"column {name!r}, {self.place(row)}: {error}") from None
        return np.array(values, dtype=object)

    def found(self, role: str) -> Any:
        """The column whose name is usual for a role; of loads of several windows, and of topic and partition, more."""
        columns = self.data.columns
        words = {name: words_of(name) for name in columns}
        whole = {name: "".join(part) for name, part in words.items()}
        if exact := [name for name in columns if whole[name] == role and re.fullmatch(r"\D*", name)]:
            chosen = exact
        elif usual := [name for name in columns if whole[name] in USUAL[role] and whole[name] not in _VAGUE]:
            chosen = usual
        else:
            chosen = [name for name, part in words.items() if _role(part) == role]
            chosen = chosen or [name for name in columns if whole[name] in USUAL[role]]
        if len(chosen) == 1:
            topic = [name for name in columns if whole[name] == "topic"]
            return [*topic, *chosen] if topic and whole[chosen[0]] == "partition" else chosen[0]
        if chosen and role == "load" and len({whole[name] for name in chosen}) == 1:
            return sorted(chosen, key=lambda name: [int(number) for number in re.findall(r"[0-9]+", name)])
        if not chosen and role == "key":
            return None
        said = f"the columns {' and '.join(map(repr, chosen))} may both be the {role}" if chosen else ""
        said = said or f"no column has a usual name of {role}, such as {', '.join(USUAL[role][:4])}"
        same = " or a number, the same for each key group" if role == "state" and not chosen else ""
        of = ", ".join(map(repr, columns))
        raise InputError(f"{said}: name it by {role}=, one of {of}{same}")

    def roles(self, **given: Any) -> dict[str, Any]:
        """The column of each role: the given one, otherwise the one with a usual name."""
        return {
            role: self.found(role) if name is None and not (role == "key" and self.index) else name
            for role, name in given.items()
        }

    def labels(self, name: Hashable) -> list[str | int]:
        """A column as names: texts and whole numbers as they are, of anything else its text."""
        return [v if isinstance(v, str | int) else str(v) for v in self.column(name).to_list()]

    def keys(self, key: Any) -> list[str | int] | None:
        """The names of the key groups: of one column, of more joined by hyphens, or of the index."""
        names = self.index if key is None else list(key) if isinstance(key, list | tuple) else [key]
        if len(names) <= 1:
            return self.labels(names[0]) if names else None
        return ["-".join(map(str, row)) for row in zip(*map(self.labels, names), strict=True)]

    def numbered(self, name: Hashable, nodes: Names) -> np.ndarray:
        """A column of node names as node numbers."""
        labels = self.labels(name)
        found = {one: nodes.find(one) for one in set(labels)}
        for row in (k for k, one in enumerate(labels) if found[one] is None):
            nodes.position(f"column {name!r}, {self.place(row)}", labels[row])
        return np.array([found[one] for one in labels], dtype=np.int64)


def words_of(name: str) -> list[str]:
    """The words of a name, in lower case."""
    return re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())


def _role(words: Sequence[str]) -> str | None:
    """The role of the last word of a name that is a usual name."""
    roles = {usual: role for role, some in USUAL.items() for usual in some if usual not in _VAGUE}
    return next((roles[word] for word in reversed(words) if word in roles), None)


def arguments_from_table(
    table: Table,
    load: Hashable | Sequence[Hashable],
    state: Hashable,
    node: Hashable,
    key: Any,
    nodes: Any,
    columns: dict[str, Hashable | None],
    resources: Sequence[Hashable],
    groups: Sequence[Hashable] = (),
    domains: Mapping[str, Any] | Sequence[Hashable] = (),
) -> dict[str, Any]:
    """The arguments of `Workload`, read from the columns of a table.

    Raises
    ------
    InputError
        For a column that is not there, a node that is not listed, a value that is missing.
    """
    home = columns.get("home")
    load, state, node, key = table.roles(load=load, state=state, node=node, key=key).values()
    series = list(load) if isinstance(load, list | tuple) else [load]
    listed, capacities = _nodes_of(table, [node] if home is None else [node, home], nodes)
    names = list(unique_labels("nodes", listed, length=len(listed), of="nodes"))
    called = Names("node", names, len(names))
    made: dict[str, Any] = {
        "load": np.array([table.numbers(name) for name in series], dtype=object),
        "state": np.full(len(table.data), _amount(state))
        if state not in table.data.columns and _amount(state) is not None
        else table.numbers(state),
        "current": table.numbered(node, called),
        "nodes": capacities,
        "resources": {str(name): table.numbers(name) for name in resources},
        # A workload whose nodes are already numbered 0..n-1 needs no names.
        "node_names": None if names == list(range(len(names))) else names,
        "keys": table.keys(key),
        "groups": {_named(name, "group."): table.labels(name) for name in groups},
        "domains": _domains_of(table, domains, called, table.numbered(node, called)),
        "units": {"state": "bytes"} if "bytes" in words_of(str(state)) else None,
    }
    if home is not None:
        made["home"] = table.numbered(home, called)
    if (operator := columns.get("operator")) is not None:
        made["operator"] = np.unique(np.asarray(table.labels(operator)), return_inverse=True)[1]
    return made


def _amount(given: Any) -> float | None:
    """A number in place of a column."""
    try:
        return as_number(str(given))
    except ValueError:
        return None


def _named(column: Hashable, prefix: str) -> str:
    """The name of a column of labels, without what `to_frame` put before it."""
    return str(column).removeprefix(prefix)


def _domains_of(table: Table, domains: Any, names: Names, current: np.ndarray) -> dict[str, Any]:
    """The labels of the nodes: as they are given, by the names of nodes, or from columns with a label for each row's node."""
    if isinstance(domains, Mapping):
        return dict(domains)
    found: dict[str, Any] = {}
    for column in domains:
        labels: list[str | int | None] = [None] * len(names)
        for row, (i, label) in enumerate(zip(current.tolist(), table.labels(column), strict=True)):
            if labels[i] not in (None, label):
                said = f"node {names[i]} is {label!r} here and {labels[i]!r} before"
                raise InputError(f"column {column!r}, {table.place(row)}: {said}")
            labels[i] = label
        if None in labels:
            node = names[labels.index(None)]
            said = f"column {column!r}: node {node} has no row; give domains={{{str(column)!r}: ...}} by node"
            raise InputError(said)
        found[_named(column, "domain.")] = labels
    return found


def _nodes_of(table: Table, columns: Sequence[Hashable], nodes: Any) -> tuple[list[str | int], Any]:
    """The names of all nodes, in order, and their capacities."""
    if isinstance(nodes, Mapping):
        return list(nodes), list(nodes.values())
    counted = isinstance(nodes, int | np.integer) and not isinstance(nodes, bool)
    if nodes is None or counted:
        met = {name for column in columns for name in table.labels(column)}
        numbers = all(re.fullmatch("0|[1-9][0-9]{0,14}", str(name)) for name in met)
        found = sorted(met, key=int) if numbers else sorted(met, key=lambda name: (isinstance(name, str), name))
        if nodes is None or (numbers and len(met) == nodes):
            return found, len(found)
        if numbers:
            return list(range(int(nodes))), int(nodes)
        if len(met) != nodes:
            some, s = ", ".join(map(repr, found[:3])), "s" * (len(met) != 1)
            raise InputError(
                f"the table names {len(met)} node{s}, not {nodes}: give the names of all, as nodes=[{some}, ...]"
            )
        return found, len(found)
    return list(nodes), len(nodes)

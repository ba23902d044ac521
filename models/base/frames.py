"""Any data frame with a row for each key group becomes the arguments of a workload."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from keyshift.models.base.names import Names, unique_labels
from keyshift.models.errors import InputError


class Table:
    """Any data frame that narwhals reads, in memory; an index of pandas that says something is columns like the others."""

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        self.index: list[Hashable] = []
        levels = getattr(getattr(frame, "index", None), "names", None)
        if levels and (list(levels) != [None] or frame.index.dtype.kind not in "iu"):
            self.index = [f"index_{place}" if name is None else name for place, name in enumerate(levels)]
            frame = frame.reset_index(names=self.index)
        try:
            table = nw.from_native(frame)
        except TypeError:
            said = f"the table must be a data frame (pandas, Polars, Arrow, DuckDB), not a {type(frame).__name__}"
            raise InputError(said) from None
        self.data = table.collect() if isinstance(table, nw.LazyFrame) else table

    def column(self, name: Hashable) -> Any:
        """A column without gaps."""
        if name not in self.data.columns:
            raise InputError(f"the table has no column {name!r}; it has {', '.join(map(repr, self.data.columns))}")
        values = self.data.get_column(str(name))
        if (missing := values.is_null()).any():
            raise InputError(f"column {name!r} has no value in row {missing.arg_true()[0]}")
        return values

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
        given = enumerate(self.labels(name))
        return np.array([nodes.position(f"column {name!r}, row {row}", one) for row, one in given], dtype=np.int64)


def arguments_from_frame(
    frame: Any,
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
    table, home = Table(frame), columns.get("home")
    series = list(load) if isinstance(load, list | tuple) else [load]
    listed, capacities = _nodes_of(table, [node] if home is None else [node, home], nodes)
    names = list(unique_labels("nodes", listed, length=len(listed), of="nodes"))
    called = Names("node", names, len(names))
    made: dict[str, Any] = {
        "load": np.array([table.column(name).to_numpy() for name in series], dtype=object),
        "state": table.column(state).to_numpy(),
        "current": table.numbered(node, called),
        "nodes": capacities,
        "resources": {str(name): table.column(name).to_numpy() for name in resources},
        # A workload whose nodes are already numbered 0..n-1 needs no names.
        "node_names": None if names == list(range(len(names))) else names,
        "keys": table.keys(key),
        "groups": {_named(name, "group."): table.labels(name) for name in groups},
        "domains": _domains_of(table, domains, called, table.numbered(node, called)),
    }
    if home is not None:
        made["home"] = table.numbered(home, called)
    if (operator := columns.get("operator")) is not None:
        made["operator"] = np.unique(np.asarray(table.labels(operator)), return_inverse=True)[1]
    return made


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
                said = f"column {column!r}, row {row}: node {names[i]} is {label!r} here and {labels[i]!r} before"
                raise InputError(said)
            labels[i] = label
        if None in labels:
            node = names[labels.index(None)]
            said = f"column {column!r}: node {node} has no row; give domains={{{str(column)!r}: ...}} by node"
            raise InputError(said)
        found[_named(column, "domain.")] = labels
    return found


def _nodes_of(table: Table, columns: Sequence[Hashable], nodes: Any) -> tuple[list[str | int], Any]:
    """The names of all nodes, in order, and their capacities."""
    if nodes is None:
        met = {name for column in columns for name in table.labels(column)}
        found = sorted(met, key=lambda name: (isinstance(name, str), name))
        return found, len(found)
    if isinstance(nodes, Mapping):
        return list(nodes), list(nodes.values())
    if isinstance(nodes, int | np.integer) and not isinstance(nodes, bool):
        return list(range(int(nodes))), int(nodes)
    return list(nodes), len(nodes)

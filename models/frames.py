"""Workloads as tables: named nodes and keys in, one row for each key group; and back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from keyshift.models.workload import Workload


def arguments_from_frame(
    frame: pd.DataFrame,
    load: Hashable | Sequence[Hashable],
    state: Hashable,
    node: Hashable,
    key: Hashable | None,
    nodes: Any,
    columns: dict[str, Hashable | None],
    resources: Sequence[Hashable],
) -> dict[str, Any]:
    """What `Workload` is made from, read from the columns of a table.

    Raises
    ------
    InputError
        For a column that is not there, a node that is not listed, a value that is missing.
    """
    series = list(load) if isinstance(load, list | tuple) else [load]
    names, capacities = _nodes_of(frame, node, columns.get("home"), nodes)
    number = {name: i for i, name in enumerate(names)}
    made: dict[str, Any] = {
        "load": np.array([_column(frame, name) for name in series], dtype=object),
        "state": _column(frame, state),
        "current": _numbered(frame, node, number),
        "nodes": capacities,
        "resources": {str(name): _column(frame, name) for name in resources},
    }
    # A workload whose nodes are already numbered 0..n-1 needs no names.
    if names != list(range(len(names))):
        made["node_names"] = names
    if key is not None:
        made["keys"] = _labels(frame, key)
    if (home := columns.get("home")) is not None:
        made["home"] = _numbered(frame, home, number)
    if (operator := columns.get("operator")) is not None:
        made["operator"] = np.unique(np.asarray(_labels(frame, operator)), return_inverse=True)[1]
    return made


def _column(frame: pd.DataFrame, name: Hashable) -> np.ndarray:
    if name not in frame.columns:
        raise InputError(f"the table has no column {name!r}; it has {', '.join(map(repr, frame.columns))}")
    values = frame[name]
    if values.isna().any():
        raise InputError(f"column {name!r} has no value in row {int(np.argmax(values.isna().to_numpy()))}")
    return values.to_numpy()


def _labels(frame: pd.DataFrame, name: Hashable) -> list[str | int]:
    values = [v.item() if isinstance(v, np.generic) else v for v in _column(frame, name)]
    return [v if isinstance(v, str | int) else str(v) for v in values]


def _nodes_of(frame: pd.DataFrame, node: Hashable, home: Hashable | None, nodes: Any) -> tuple[list[str | int], Any]:
    """The names of all nodes, in order, and their capacities."""
    met = {*_labels(frame, node), *(_labels(frame, home) if home is not None else [])}
    if nodes is None:
        found = sorted(met, key=lambda name: (isinstance(name, str), name))
        return found, len(found)
    if isinstance(nodes, dict):
        return [n if isinstance(n, str | int) else str(n) for n in nodes], list(nodes.values())
    if isinstance(nodes, int | np.integer) and not isinstance(nodes, bool):
        return list(range(int(nodes))), int(nodes)
    listed = [n.item() if isinstance(n, np.generic) else n for n in nodes]
    return listed, len(listed)


def _numbered(frame: pd.DataFrame, name: Hashable, number: dict[str | int, int]) -> np.ndarray:
    found = _labels(frame, name)
    for row, label in enumerate(found):
        if label not in number:
            raise InputError(f"column {name!r}, row {row}: there is no node {label!r}")
    return np.array([number[label] for label in found], dtype=np.int64)


def to_frame(workload: Workload) -> pd.DataFrame:
    """One row for each key group: key, node, load (or one column for each window), state, and what else there is."""
    import pandas as pd

    w = workload
    names: Sequence[Any] = range(w.nodes) if w.node_names is None else w.node_names
    columns: dict[str, Any] = {"key": list(range(w.key_groups) if w.keys is None else w.keys)}
    columns["node"] = [names[i] for i in w.current]
    if w.windows == 1:
        columns["load"] = w.last_load
    else:
        columns |= {f"load_{t}": row for t, row in enumerate(w.load)}
    columns["state"] = w.state
    if w.home is not None:
        columns["home"] = [names[i] for i in w.home]
    if w.operator is not None:
        columns["operator"] = w.operator
    return pd.DataFrame({**columns, **dict(w.resources)})

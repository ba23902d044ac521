"""Labels of input data: labelled arguments are brought into one order, or refused with both orders named.

Labels are the index of a pandas Series, the index and the columns of a DataFrame, and the names of a mapping. A default index,
0 to n-1 in this order, says nothing unless another argument has the same numbers in another order. What has no labels - arrays,
lists, columns of Polars and Arrow - is in the order of the first argument that has some. A door that aligns nothing refuses
labels (`unlabelled`), so that none is read by position without a word.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyshift.models.base.names import Label, printed, shortened
from keyshift.models.errors import InputError


def numbered_rows(rows: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The different rows, sorted, and the number of each row among them, shape (rows,): as `numpy.unique`, but by hashes."""
    packed = np.packbits(rows, axis=1)
    marks = packed.view(f"V{packed.shape[1]}").ravel().tolist()
    number = {mark: k for k, mark in enumerate(sorted(set(marks)))}
    different = np.frombuffer(b"".join(number), dtype=np.uint8).reshape(len(number), -1)
    kind = np.fromiter(map(number.__getitem__, marks), np.int64, len(marks))
    return np.unpackbits(different, axis=1, count=rows.shape[1]).astype(bool), kind


class Labelled(NamedTuple):
    """An axis of an argument, and the labels along it."""

    name: str
    axis: int
    labels: Sequence[Label]

    @property
    def default(self) -> bool:
        """Whether the labels are 0 to n-1, in this order."""
        return isinstance(self.labels, range) or all(
            label == place and isinstance(label, int) for place, label in enumerate(self.labels)
        )

    @property
    def numbers(self) -> bool:
        """Whether the labels are 0 to n-1, in any order."""
        return all(isinstance(label, int) for label in self.labels) and set(self.labels) == set(range(len(self.labels)))

    def places(self, order: Sequence[Label], of: str) -> list[int]:
        """Where each label of an order is."""
        mine, wanted = _texts(self.labels), _texts(order)
        place = dict(zip(mine, range(len(mine)), strict=True))
        if len(place) < len(mine):
            first = {text: at for at, text in reversed(list(enumerate(mine)))}
            at = next(at for at, text in enumerate(mine) if first[text] != at)
            raise InputError(f"{self.name} is labelled {self.labels[at]!r:.60} twice, at {first[mine[at]]} and at {at}")
        for asked, found, missing, there in ((wanted, set(mine), self.name, of), (mine, set(wanted), of, self.name)):
            if (lacking := next((text for text in asked if text not in found), None)) is not None:
                raise InputError(
                    f"{missing} has no {lacking!r:.60}, which {there} has: {self.name} is labelled "
                    f"{shortened(self.labels)}, and {of} {shortened(order)}"
                )
        return [place[text] for text in wanted]


def _texts(labels: Iterable[Label]) -> list[str]:
    return [label if type(label) is str else printed(label) for label in labels]


def _alike(one: Iterable[Label], other: Iterable[Label]) -> bool:
    return one == other or set(_texts(one)) == set(_texts(other))


def labels_of(name: str, values: Any, axis: int = 0) -> Labelled | None:
    """The labels of an argument along an axis, -1 is the last; None where it has none."""
    if isinstance(values, Mapping):
        return Labelled(name, 0, [_label(name, at, label) for at, label in enumerate(values)])
    pd = sys.modules.get("pandas")  # what is not imported has made no object
    if pd is None or not isinstance(values, pd.Series | pd.DataFrame):
        _refuse_table(name, values)
        return None
    axis = values.ndim - 1 if axis < 0 else axis
    index = values.axes[axis]
    if isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1):
        return Labelled(name, axis, range(len(index)))
    if not isinstance(index, pd.MultiIndex) and index.inferred_type in ("string", "integer"):
        return Labelled(name, axis, index.tolist())
    return Labelled(name, axis, [_label(name, at, label) for at, label in enumerate(index)])


def _label(name: str, at: int, label: Any) -> Label:
    """A label as keys are read from tables: texts and whole numbers as they are, levels joined by hyphens."""
    if isinstance(label, tuple):
        return "-".join(str(_label(name, at, part)) for part in label)
    if label is None or label != label:
        raise InputError(f"{name} has no label at {at}")
    label = label.item() if isinstance(label, np.generic) and not isinstance(label, np.datetime64) else label
    return label if isinstance(label, str | int) and not isinstance(label, bool) else str(label)


def _refuse_table(name: str, values: Any) -> None:
    """Refuse a table without row labels: which of its columns are numbers, and which names, it does not say."""
    kind = type(values)
    columns = hasattr(kind, "columns") or hasattr(kind, "column_names")
    if columns and any(hasattr(kind, how) for how in ("__dataframe__", "__arrow_c_stream__", "collect")):
        said = f"{name} is a table ({kind.__name__}), not an array: give one of its columns, or the table to"
        raise InputError(f"{said} Workload.from_frame, which reads columns by name")


def unlabelled(name: str, values: Any) -> Any:
    """An argument without labels of its own; `InputError` if it is a table or has labels."""
    if _listed(values):
        return _mapped(name, values, unlabelled)
    for axis in range(getattr(values, "ndim", 0) if not isinstance(values, np.ndarray) else 0):
        found = labels_of(name, values, axis)
        if found is not None and not found.default:
            said = f"{name} is labelled {shortened(found.labels)}, and there is nothing to hold the labels against"
            raise InputError(f"{said}: bring it into order, and give it as an array ({name}.to_numpy())")
    _refuse_table(name, values)
    return values


def aligned(
    arguments: Mapping[str, Any],
    names: Any = None,
    what: str = "keys",
    axes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[dict[str, Any], Any]:
    """Arguments in one order, without their labels, and the names of what they are about.

    The order is that of `names` where they are what the labels say, else that of the first argument with labels. Where no names
    are given, the labels are the names.

    Parameters
    ----------
    arguments : mapping of str to object
        By the names that messages use.
    names : sequence of str or int, optional
        An argument as well: the labels of a Series of names are labels like others.
    what : str
        What messages call the names; where there are none to be taken from labels, nothing.
    axes : mapping of str to tuple of int
        The axes of an argument that are about the same; (0,) by default, -1 is the last.
    """
    given = {name: values for name, values in {**arguments, what: names}.items() if values is not None}
    if not any(hasattr(values, "axes") or isinstance(values, Mapping | set | frozenset) for values in given.values()):
        for name, values in given.items():
            _refuse_table(name, values)
        given.pop(what, None)
        return given, names
    for name, values in given.items():
        if isinstance(values, set | frozenset):
            raise InputError(f"{name} must be a list, in order, not a set")
    wide = [
        found
        for name, values in given.items()
        for axis in (axes or {}).get(name, (0,))
        if not (name == what and isinstance(values, Mapping)) and (found := labels_of(name, values, axis)) is not None
    ]
    said = [one for one in wide if not one.default]
    if said and all(one.numbers for one in said):
        said = [one._replace(labels=list(one.labels)) for one in wide]  # a default index is one order of these numbers
    made = {name: _plain(values) for name, values in given.items()}
    names = made.pop(what, None)
    others = [one for one in said if one.name != what]
    if others:
        order, of = others[0].labels, others[0].name
        if names is not None:
            order, of = _order_by(names, others[0], next((one for one in said if one.name == what), None), what)
        elif what and not _rows(others):
            others[0].places(order, of)  # which refuses labels that repeat
            names = None if others[0].default else order
        for one in others:
            if one.labels != order:
                made[one.name] = _taken(made[one.name], one.places(order, of), one.axis)
    return made, names


def _order_by(names: Any, first: Labelled, own: Labelled | None, what: str) -> tuple[Sequence[Label], str]:
    """The order that given names decide, or their own labels, or the numbers of rows in the first argument with labels."""
    plain = [_label(what, at, label) for at, label in enumerate(names)]
    if _alike(plain, first.labels):
        return plain, what
    if own is not None and _alike(own.labels, first.labels):
        return own.labels, what
    if all(isinstance(label, int) for label in first.labels) and not all(isinstance(label, int) for label in plain):
        return first.labels, first.name
    raise InputError(f"{first.name} is labelled {shortened(first.labels)}, but {what} are {shortened(plain)}")


def _rows(labelled: Sequence[Labelled]) -> bool:
    """Whether labels are numbers of rows that repeat, the same everywhere: frames that were put one under another."""
    labels = labelled[0].labels
    alike = all(one.labels == labels for one in labelled)
    return alike and len(set(labels)) < len(labels) and all(isinstance(label, int) for label in labels)


def of_key_groups(given: Mapping[str, Any], keys: Any) -> tuple[list[Any], Any]:
    """A workload's data by key group, in one order, as they are given: arrays, lists of these, named columns; and the keys."""
    parts, axes = dict[str, Any](), dict[str, tuple[int, ...]]()
    for name, values in given.items():
        own = _parts(name, values)
        parts |= own
        axes |= dict.fromkeys(own, {"load": (-1,), "traffic": (0, 1)}.get(name, (0,)))
    _check_windows(
        given["load"], {name: part for name, part in parts.items() if not name.startswith(("load", "traffic"))}
    )
    made, keys = aligned(parts, keys, "keys", axes)
    return [_mapped(name, values, made.get) for name, values in given.items()], keys


def of_nodes(nodes: Any, draining: Any, domains: Any, names: Any) -> tuple[Any, Any, Any, Any]:
    """A workload's data by node, in one order; mappings are read by the nodes' names."""
    mapped = isinstance(nodes, Mapping)
    given = {"nodes": None if mapped else nodes, "draining": draining if hasattr(draining, "axes") else None}
    parts = {**given, **_parts("domains", domains)}
    made, names = aligned(parts, list(nodes) if mapped and names is None else names, "node_names")
    return made.get("nodes", nodes), made.get("draining", draining), _mapped("domains", domains, made.get), names


def _listed(values: Any) -> bool:
    return isinstance(values, list | tuple) and any(hasattr(one, "axes") for one in values[:1])


def _mapped(name: str, values: Any, change: Callable[[str, Any], Any]) -> Any:
    """Each part of an argument changed, by what messages call it: of a list of objects with labels, of a mapping of columns.

    A column that is a mapping of names stays as it is, but for resources.
    """
    if _listed(values):
        return [change(f"{name}[{s}]", one) for s, one in enumerate(values)]
    if name not in ("resources", "groups", "domains") or not isinstance(values, Mapping):
        return change(name, values)
    return {
        column: part if isinstance(part, Mapping) and name != "resources" else change(f"{name}[{column!r:.60}]", part)
        for column, part in values.items()
    }


def _parts(name: str, values: Any) -> dict[str, Any]:
    """The parts of an argument, by what messages call them."""
    found = dict[str, Any]()
    _mapped(name, values, found.setdefault)
    return found


def _check_windows(load: Any, others: Mapping[str, Any]) -> None:
    """Refuse a frame of loads whose windows go back, or whose rows are what the others are labelled with, not its columns."""
    if isinstance(load, Mapping) or getattr(load, "ndim", 1) != 2 or (rows := labels_of("load", load)) is None:
        return
    columns = labels_of("load", load, 1)
    for name, values in others.items():
        one = None if rows.default else labels_of(name, values)
        if one is not None and _alike(one.labels, rows.labels) and not _alike(one.labels, columns.labels):  # type: ignore[union-attr]
            said = "load has in its rows the labels of"
            raise InputError(f"{said} {name}, but its rows are windows and its columns key groups: give load.T")
    in_time("load", load)


def ordered(name: str, values: Any, names: Sequence[Label] | None, count: int, what: str = "key groups") -> Any:
    """An argument in the order of what it is about: key groups or nodes, whose numbers are their names where they have none."""
    if _listed(values):
        return _mapped(name, values, lambda part, one: ordered(part, one, names, count, what))
    found = None if isinstance(values, Mapping) else labels_of(name, values, -1)
    if found is None or found.default:
        return values if found is None else _plain(values)
    order = list(range(count)) if names is None else [_label(name, at, label) for at, label in enumerate(names)]
    return _taken(_plain(values), found.places(order, f"the workload's {what}"), found.axis)


def by_label(name: str, values: Any) -> Any:
    """A mapping of labels to values, where an argument has labels; else the argument."""
    found = None if isinstance(values, Mapping) or getattr(values, "ndim", 1) != 1 else labels_of(name, values)
    if found is None or found.default:
        return values
    found.places(list(found.labels), name)  # which refuses labels that repeat
    return dict(zip(found.labels, _plain(values).tolist(), strict=True))


def in_time(name: str, values: Any) -> Any:
    """An argument along time, the oldest first, without its labels; `InputError` if they go back."""
    found = None if isinstance(values, Mapping) else labels_of(name, values)
    if found is None:
        return values
    index = values.axes[0]
    # Texts say nothing of time.
    if not found.default and index.dtype.kind in "iufM" and not index.is_monotonic_increasing:
        raise InputError(
            f"{name} goes from the oldest to the newest, but its labels do not rise: {shortened(found.labels)}"
        )
    return _plain(values)


def _plain(values: Any) -> Any:
    """Values without their labels."""
    if isinstance(values, Mapping):
        return list(values.values())
    return values.to_numpy() if hasattr(values, "to_numpy") and hasattr(values, "axes") else values


def _taken(values: Any, places: list[int], axis: int) -> Any:
    return [values[at] for at in places] if isinstance(values, list) else np.take(np.asarray(values), places, axis)

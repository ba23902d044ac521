"""The scope of rules: key groups and nodes as a workload names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.guards import frozen, shortened
from keyshift.models.workload import BoolArray, IntArray, Workload

Label = int | str
Selection = Label | Sequence[Label] | Mapping[str, Label | Sequence[Label]] | None
"""Numbers, names, or labels of a column as in ``{"topic": "orders"}``; None is all."""


def plain(value: Any) -> Any:
    """A selection as a file holds it: tuples and mappings of Python's own numbers and texts."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(plain, value)) if isinstance(value, list | tuple | set | frozenset | range) else value


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
        w, what = self.workload, f"{rule}: key group"
        return frozen(self._once(what, chosen, lambda: _chosen(what, chosen, w.key_groups, w.keys, w.groups)))

    def nodes(self, rule: str, chosen: Selection) -> BoolArray:
        """Which nodes are chosen, shape (places,)."""
        w, what = self.workload, f"{rule}: node"
        made = lambda: np.isin(  # noqa: E731
            np.arange(self.places), _chosen(what, chosen, self.places, w.node_names, w.domains)
        )
        return frozen(self._once(what, chosen, made))

    def domain(self, rule: str, name: str) -> tuple[IntArray, list[Label]]:
        """The domain of each node, shape (places,), and the domains' names; "node" is each node by itself."""
        return self._once(f"{rule}: domain", name, lambda: self._domain(rule, name))

    def _domain(self, rule: str, name: str) -> tuple[IntArray, list[Label]]:
        w = self.workload
        if name == "node":
            return np.arange(self.places), [w.node(i) for i in range(self.places)]
        if not isinstance(name, str) or name not in w.domains:
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
        if not isinstance(by, str) or by not in self.workload.groups:
            said = f"{rule}: no column {by!r:.60} of key groups; there is {shortened([*self.workload.groups])}"
            raise InputError(said)
        labels = np.array([str(label) for label in self.workload.groups[by]])[members]
        names, number = np.unique(labels, return_inverse=True)
        return KeyGroupSets(members, number.ravel(), [f"{by} {name}" for name in names.tolist()])

    def said(self, key_groups: IntArray, most: int = 3) -> str:
        """Key groups by name, for messages."""
        names = ", ".join(str(self.workload.key(k)) for k in key_groups[:most])
        return names + (f" and {key_groups.size - most} more" if key_groups.size > most else "")


def _chosen(
    what: str, chosen: Any, size: int, names: Sequence[Label] | None, columns: Mapping[str, Sequence[Label]]
) -> IntArray:
    """Numbers from numbers, names, or labels of columns."""
    if chosen is None:
        return np.arange(size)
    if isinstance(chosen, Mapping):
        keep = np.ones(size, dtype=bool)
        for column, wanted in chosen.items():
            if column not in columns:
                raise InputError(f"{what}s have no column {column!r:.60}; they have {shortened([*columns])}")
            texts = {str(label) for label in (wanted if isinstance(wanted, tuple | list | set) else [wanted])}
            labels = [str(label) for label in columns[column]]
            if missing := sorted(texts - set(labels)):
                raise InputError(f"{what}s have no {column} {missing[0]!r:.60}")
            keep &= np.array([label in texts for label in labels] + [False] * (size - len(labels)), dtype=bool)
        return np.flatnonzero(keep)
    known = {} if names is None else {str(name): number for number, name in enumerate(names)}
    made = []
    for one in chosen if isinstance(chosen, list | tuple | set | frozenset | range | np.ndarray) else [chosen]:
        number = known.get(one) if isinstance(one, str) else one
        if number is None and isinstance(one, str) and not known and one.isdecimal():
            number = int(one)
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < size:
            there = shortened(list(known)) if known else f"0 to {size - 1}"
            raise InputError(f"{what} {one!r:.60} is not known; there is {there}")
        made.append(int(number))
    return np.unique(np.array(made, dtype=np.int64))

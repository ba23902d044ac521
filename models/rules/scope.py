"""The scope of rules: key groups and nodes as a workload names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from keyshift.models.base.guards import frozen
from keyshift.models.base.names import Label, Names, by_text, printed, shortened
from keyshift.models.errors import InputError
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

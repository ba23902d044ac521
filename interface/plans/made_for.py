"""The workload that a plan was made for: enough of it to tell whether, and where, another one differs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from keyshift.models.base.figures import apart
from keyshift.models.base.guards import FrozenArrays
from keyshift.models.base.names import Names, printed
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class MadeFor(FrozenArrays):
    """The parts of a workload that a plan records.

    Attributes
    ----------
    rest : str
        SHA-256, in hexadecimal, over the fields of the workload that are not listed here.
    load, state : ndarray, shape (p,)
        Load of the last window, and state.
    current : ndarray of int, shape (p,)
    capacity : ndarray, shape (n,)
    draining : ndarray of bool, shape (n,)
    keys, node_names : tuple or None
        Names of key groups and of nodes, where the workload has them.
    units : mapping of str to str
        Units of load and state.
    """

    rest: str
    load: FloatArray
    state: FloatArray
    current: IntArray
    capacity: FloatArray
    draining: BoolArray
    keys: tuple[str | int, ...] | None = None
    node_names: tuple[str | int, ...] | None = None
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: Workload) -> MadeFor:
        """Remember a workload."""
        return cls(
            unlisted(workload), workload.last_load.copy(), workload.state.copy(), workload.current.copy(),
            workload.capacity.copy(), workload.draining.copy(), workload.keys, workload.node_names,
            dict(workload.units),
        )  # fmt: skip

    def once(self, assignment: IntArray, capacity: FloatArray) -> MadeFor:
        """The workload after an assignment has been carried out, on nodes of these capacities, new ones included."""
        new = np.zeros(capacity.size - self.capacity.size, dtype=bool)
        draining = np.concatenate([self.draining, new])
        return replace(self, current=assignment.copy(), capacity=capacity.copy(), draining=draining)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over every field of the workload, in hexadecimal: the same data, the same letters, on any machine."""
        digest = hashlib.sha256(self.rest.encode())
        for name in ("load", "state", "current", "capacity", "draining", "keys", "node_names"):
            _add(digest, name, getattr(self, name))
        return digest.hexdigest()

    @property
    def distance_unit(self) -> str:
        """The unit of load distances and of loads per unit of capacity: that of loads, where all capacities are 1."""
        return self.units.get("load", "") if (self.capacity == 1).all() else ""

    def key(self, k: int) -> str | int:
        """The name of a key group, its number where it has none."""
        return Names("key group", self.keys, self.load.size)[k]

    def node(self, i: int) -> str | int:
        """The name of a node, its number where it has none."""
        return Names("node", self.node_names, self.capacity.size)[i]

    def changes(self, workload: Workload) -> list[str]:
        """The differences between this and another workload, one sentence each; empty if there are none."""
        w = workload
        sizes = ("key groups", self.load.size, w.key_groups), ("nodes", self.capacity.size, w.nodes)
        if any(was != now for _, was, now in sizes):
            said = "the workload has {} {}, the plan was made for {}"
            return [said.format(now, what, was) for what, was, now in sizes if was != now]

        def elsewhere(k: int) -> str:
            now, was = self.node(int(w.current[k])), self.node(int(self.current[k]))
            return f"key group {self.key(k)} runs on node {now}, the plan expects it on node {was}"

        def capacity(i: int) -> str:
            now, was = apart(w.capacity[i], self.capacity[i])
            return f"node {self.node(i)} has capacity {now}, was {was}"

        def drains(i: int) -> str:
            return f"node {self.node(i)} {'now drains' if w.draining[i] else 'no longer drains'}"

        rest = "earlier windows, traffic, homes, operators or resources differ"
        return [
            *self._named_otherwise(w),
            *_told(np.flatnonzero(w.current != self.current), elsewhere, "key groups run elsewhere"),
            *self._other_numbers("load", self.load, w.last_load),
            *self._other_numbers("state", self.state, w.state),
            *_told(np.flatnonzero(w.capacity != self.capacity), capacity, "capacities differ"),
            *_told(np.flatnonzero(w.draining != self.draining), drains, "other nodes drain"),
            *([rest] if unlisted(w) != self.rest else []),
        ]

    def _named_otherwise(self, workload: Workload) -> list[str]:
        found = []
        for what in ("keys", "node_names"):
            was, now = getattr(self, what), getattr(workload, what)
            if was is None is now:
                continue
            if was is None or now is None:
                found.append(f"{what}: the plan was made {'without' if was is None else 'with'} them")
                continue
            other = (i for i, pair in enumerate(zip(was, now, strict=True)) if printed(pair[0]) != printed(pair[1]))
            found += [f"{what}[{at}] is {now[at]!r}, was {was[at]!r}" for at in [*other][:1]]
        return found

    def _other_numbers(self, what: str, was: FloatArray, now: FloatArray) -> list[str]:
        def said(k: int) -> str:
            here, there = apart(now[k], was[k])
            return f"the {what} of key group {self.key(k)} is {here}, was {there} ({now[k] - was[k]:+g})"

        differs = np.flatnonzero(was != now)
        differs = differs[np.argsort(-np.abs(now - was)[differs], kind="stable")]  # the largest change first
        return _told(differs, said, f"{what}s differ")


def _told(which: IntArray, said: Callable[[int], str], what: str) -> list[str]:
    """A sentence for each of the first few, and how many there are."""
    # Differences of one kind that are spelt out; the rest are counted.
    found = [said(int(i)) for i in which[:3]]
    return found if which.size <= 3 else [*found, f"and more: {which.size} {what}"]


def unlisted(workload: Workload) -> str:
    """SHA-256 over the fields that a plan does not list: earlier windows, operators, homes, resources, labels, traffic."""
    w = workload
    digest = hashlib.sha256()
    _add(digest, "windows", w.load[:-1])
    _add(digest, "operator", w.operator)
    _add(digest, "home", w.home)
    for name in sorted(w.resources):
        _add(digest, f"resources.{name}", w.resources[name])
    for kind, columns in (("groups", w.groups), ("domains", w.domains)):
        for name in sorted(columns):
            _add(digest, f"{kind}.{name}", columns[name])
    if w.traffic is not None:
        pairs = w.traffic.tocoo()
        for name, part in (("src", pairs.row), ("dst", pairs.col), ("tuples", pairs.data)):
            _add(digest, f"traffic.{name}", part)
    for earlier in w.earlier_traffic:
        for part in (earlier.indptr, earlier.indices, earlier.data):
            _add(digest, "earlier_traffic", part)
    return digest.hexdigest()


def _add(digest: Any, name: str, values: object) -> None:
    digest.update(f"{name}\0".encode())
    if isinstance(values, tuple):
        digest.update(repr(values).encode())
    elif values is not None:
        array = np.asarray(values)
        digest.update(repr(array.shape).encode())
        # One byte order and one zero (adding 0 makes -0.0 and 0.0 the same), whatever the machine.
        digest.update(np.ascontiguousarray(array.astype("<f8" if array.dtype.kind == "f" else "<i8") + 0).tobytes())

r"""Key groups and nodes by name: where some run, and never run; how many may move, and which stay where they are.

.. math::

    (1) \quad & x_{ki} = 0 && \text{for every k chosen and i not chosen: } Only \\
    (2) \quad & x_{ki} = 0 && \text{for every k chosen and i chosen: } Never \\
    (3) \quad & \sum_{k \in S} \sum_{i \in N} x_{ki} \ge at\_least && \text{for every set S: } Near \\
    (4) \quad & \sum_{k:\, q_k \in O} \; \sum_{i \in T,\, i \ne q_k} x_{ki} \le at\_most && Moves \\
    (5) \quad & x_{k q_k} = 1 && \text{for every k chosen: } Pinned
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Closed, Form, MoveBudget, Rooms
from keyshift.models.rules.rule import Rule, Scope, Selection, register_rule
from keyshift.models.workload import BoolArray, IntArray


@dataclass(frozen=True)
class _OnNodes(Rule):
    """(1) and (2): key groups that may not run on some nodes."""

    words: ClassVar[tuple[str, ...]] = ("key_groups", "nodes")
    key_groups: Selection
    nodes: Selection

    def closed(self, scope: Scope) -> BoolArray:
        """The nodes that are forbidden, shape (places,)."""
        return scope.nodes(self.name, self.nodes)

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        w, chosen = scope.workload, scope.key_groups(self.name, self.key_groups)
        for k in chosen[self.closed(scope)[assignment[chosen]]]:
            yield f"key group {w.key(k)} runs on node {w.node(assignment[k])}", int(k), 1.0

    def forms(self, scope: Scope) -> Iterator[Form]:
        yield Closed(scope.key_groups(self.name, self.key_groups), self.closed(scope))


@register_rule
@dataclass(frozen=True)
class Only(_OnNodes):
    """(1): key groups run on some nodes and on no others.

    Parameters
    ----------
    key_groups, nodes : selection
        Names, or labels of a column as in ``{"topic": "orders"}`` and ``{"rack": "r1"}``.
    """

    name: ClassVar[str] = "only"

    def closed(self, scope: Scope) -> BoolArray:
        return ~super().closed(scope)


@register_rule
@dataclass(frozen=True)
class Never(_OnNodes):
    """(2): key groups run on none of some nodes.

    Parameters
    ----------
    key_groups, nodes : selection
        Names, or labels of a column as in ``{"topic": "orders"}`` and ``{"rack": "r1"}``.
    """

    name: ClassVar[str] = "never"


@register_rule
@dataclass(frozen=True)
class Near(Rule):
    """(3): of each set of key groups, at least so many run on some nodes, such as a replica in the zone that reads it.

    Parameters
    ----------
    nodes : selection
    by : str, optional
        A column of the workload's `groups`: one set for each label. None: one set.
    at_least : int, default 1
    key_groups : selection, optional
        All by default.
    """

    name: ClassVar[str] = "near"
    words: ClassVar[tuple[str, ...]] = ("nodes", "by", "at_least")
    numbers: ClassVar[tuple[str, ...]] = ("at_least",)
    nodes: Selection
    by: str | None = None
    at_least: int = 1
    key_groups: Selection = None

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        near, least = scope.nodes(self.name, self.nodes), self.at_least or 0
        sets = scope.sets(self.name, self.key_groups, self.by)
        held = sets.counts(near[assignment[sets.members]].astype(np.int64), 2)[:, 1]
        for place in np.flatnonzero(held < least).tolist():
            said = f"{sets.said(place)}{held[place]} there, at least {least}"
            members = sets.of(place)
            yield said, int(members[0]) if members.size else None, float(least - held[place])

    def forms(self, scope: Scope) -> Iterator[Form]:
        domain = np.where(scope.nodes(self.name, self.nodes), 0, -1)
        for _, members in scope.sets(self.name, self.key_groups, self.by):
            least, most = np.array([float(self.at_least or 0)]), np.array([float(members.size)])
            yield Rooms(members, np.ones(members.size), domain, least, most)


# How many key groups may move - of a topic, out of a node, into a rack - and which stay where they are ----------------


@register_rule
@dataclass(frozen=True)
class Moves(Rule):
    """(4): at most so many key groups change node: of a topic, out of a node, into a rack.

    Parameters
    ----------
    at_most : int
    key_groups : selection, optional
        Only these count. All by default.
    out_of, into : selection, optional
        Only moves from, and to, these nodes count. All by default.
    """

    name: ClassVar[str] = "moves"
    words: ClassVar[tuple[str, ...]] = ("at_most", "key_groups", "out_of", "into")
    numbers: ClassVar[tuple[str, ...]] = ("at_most",)
    at_most: int
    key_groups: Selection = None
    out_of: Selection = None
    into: Selection = None

    def counted(self, scope: Scope) -> tuple[IntArray, BoolArray]:
        """The key groups whose moves count, and the nodes into which."""
        chosen = scope.key_groups(self.name, self.key_groups)
        leaving = scope.nodes(self.name, self.out_of)[scope.workload.current[chosen]]
        return chosen[leaving], scope.nodes(self.name, self.into)

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        chosen, into = self.counted(scope)
        to = assignment[chosen]
        moved = int(((to != scope.workload.current[chosen]) & into[to]).sum())
        if moved > self.at_most:
            yield f"{moved} move", None, float(moved - self.at_most)

    def forms(self, scope: Scope) -> Iterator[Form]:
        chosen, into = self.counted(scope)
        yield MoveBudget(chosen, np.ones(chosen.size), into, float(self.at_most))


@register_rule
@dataclass(frozen=True)
class Pinned(Rule):
    """(5): key groups stay on the node that runs them now.

    Parameters
    ----------
    key_groups : selection
        Names, or labels of a column as in ``{"topic": "orders"}``.
    """

    name: ClassVar[str] = "pinned"
    words: ClassVar[tuple[str, ...]] = ("key_groups",)
    key_groups: Selection

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        w = scope.workload
        chosen = scope.key_groups(self.name, self.key_groups)
        for k in chosen[assignment[chosen] != w.current[chosen]]:
            yield f"key group {w.key(k)} leaves node {w.node(w.current[k])}", int(k), 1.0

    def forms(self, scope: Scope) -> Iterator[Form]:
        chosen = scope.key_groups(self.name, self.key_groups)
        yield Closed(chosen, np.arange(scope.places) != scope.workload.current[chosen][:, None])

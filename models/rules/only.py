r"""Key groups and nodes by name: some run on these nodes only, or never, also where they are now; or some of them do.

.. math::

    (1) \quad & x_{ki} = 0 && \text{for every k chosen and i not chosen: } Only \\
    (2) \quad & x_{ki} = 0 && \text{for every k chosen and i chosen: } Never \\
    (3) \quad & \sum_{k \in S} \sum_{i \in N} x_{ki} \ge at\_least && \text{for every set S: } Near
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Closed, Form, Rooms
from keyshift.models.rules.rule import Rule, Scope, Selection, register_rule
from keyshift.models.workload import BoolArray, IntArray


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
    key_groups: Selection
    nodes: Selection

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
    key_groups: Selection
    nodes: Selection


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

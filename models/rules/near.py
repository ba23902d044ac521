r"""Key groups of which some run on nodes that are named: a replica of each partition in the zone that reads it, say.

.. math:: (1) \quad \sum_{k \in S} \sum_{i \in N} x_{ki} \ge at\_least \qquad \text{for every set S}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Form, Rooms
from keyshift.models.rules.rule import Rule, register_rule
from keyshift.models.rules.scope import Scope, Selection
from keyshift.models.workload import IntArray


@register_rule
@dataclass(frozen=True)
class Near(Rule):
    """Of each set of key groups, at least so many run on some nodes.

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

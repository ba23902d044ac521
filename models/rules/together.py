r"""Key groups that share a node: [Madsen2016]'s own collocation constraint.

.. math:: (1) \quad x_{ki} = x_{li} \qquad \text{for all k, l of a set and every i}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Form, Merged
from keyshift.models.rules.rule import Rule, register_rule
from keyshift.models.rules.scope import Scope, Selection
from keyshift.models.workload import IntArray


@register_rule
@dataclass(frozen=True)
class Together(Rule):
    """The key groups of each set run on one node, whichever.

    Parameters
    ----------
    key_groups : selection, optional
        All by default.
    by : str, optional
        A column of the workload's `groups`: one set for each label. None: one set.
    """

    name: ClassVar[str] = "together"
    words: ClassVar[tuple[str, ...]] = ("key_groups",)
    one_of: ClassVar[tuple[str, ...]] = ("key_groups", "by")
    key_groups: Selection = None
    by: str | None = None

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        sets = scope.sets(self.name, self.key_groups, self.by)
        first = np.zeros(len(sets.names), dtype=np.int64)
        first[sets.number[::-1]] = assignment[sets.members][::-1]
        for place in np.unique(sets.number[assignment[sets.members] != first[sets.number]]).tolist():
            members = sets.of(place)
            used, count = np.unique(assignment[members], return_counts=True)
            of = sets.names[place] or f"key groups {scope.said(members)}"
            yield f"{of} run on {used.size} nodes", int(members[0]), float(count.sum() - count.max())

    def forms(self, scope: Scope) -> Iterator[Form]:
        for _, members in scope.sets(self.name, self.key_groups, self.by):
            yield Merged(members)

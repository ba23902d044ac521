r"""Key groups no two of which share a node, or a rack: replicas, say.

.. math:: (1) \quad \sum_{k \in S} \sum_{i \in I_d} x_{ki} \le 1 \qquad \text{for every set S and domain } I_d
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
class Apart(Rule):
    """No two key groups of a set run in the same domain.

    Parameters
    ----------
    key_groups : selection, optional
        All by default.
    domain : str, default "node"
        "node", or one of the workload's `domains`, such as "rack".
    by : str, optional
        A column of the workload's `groups`: one set for each label. None: one set.
    """

    name: ClassVar[str] = "apart"
    words: ClassVar[tuple[str, ...]] = ("by", "domain")
    one_of: ClassVar[tuple[str, ...]] = ("key_groups", "by")
    key_groups: Selection = None
    domain: str = "node"
    by: str | None = None

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        domain, names = scope.domain(self.name, self.domain)
        sets = scope.sets(self.name, self.key_groups, self.by)
        at = domain[assignment[sets.members]]
        codes = np.sort(sets.number * len(names) + at)
        again = codes[1:][codes[1:] == codes[:-1]]
        if not again.size:
            return
        code, count = np.unique(again, return_counts=True)
        for crowded, held in zip(code.tolist(), (count + 1).tolist(), strict=True):
            place, d = divmod(crowded, len(names))
            inside = sets.members[(sets.number == place) & (at == d)]
            said = f"{sets.said(place)}{held} on {self.domain} {names[d]}: {scope.said(inside)}"
            yield said, int(inside[0]), float(held - 1)

    def forms(self, scope: Scope) -> Iterator[Form]:
        domain, names = scope.domain(self.name, self.domain)
        none, one = np.zeros(len(names)), np.ones(len(names))
        for _, members in scope.sets(self.name, self.key_groups, self.by):
            if members.size > 1:
                yield Rooms(members, np.ones(members.size), domain, none, one)

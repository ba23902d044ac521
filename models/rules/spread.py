r"""Key groups spread over racks or zones: in each at least so many, and at most so many.

.. math:: (1) \quad at\_least \le \sum_{k \in S} \sum_{i \in I_d} x_{ki} \le at\_most \qquad
          \text{for every set S and domain } I_d
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Form, Rooms
from keyshift.models.rules.rule import Rule
from keyshift.models.rules.scope import Scope, Selection
from keyshift.models.workload import IntArray


@dataclass(frozen=True)
class Spread(Rule):
    """Each domain runs at least, and at most, so many key groups of a set.

    Parameters
    ----------
    key_groups : selection, optional
        All by default.
    domain : str
        "node", or one of the workload's `domains`, such as "rack".
    at_least : int, optional
        In every domain that has a node which is not draining.
    at_most : int, optional
        In every domain.
    by : str, optional
        A column of the workload's `groups`: one set for each label. None: one set.
    """

    name: ClassVar[str] = "spread"
    words: ClassVar[tuple[str, ...]] = ("key_groups", "domain")
    numbers: ClassVar[tuple[str, ...]] = ("at_most", "at_least")
    key_groups: Selection = None
    domain: str = "node"
    at_least: int | None = None
    at_most: int | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.needs("at_least", "at_most")
        self.whole("at_least")
        self.whole("at_most")

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        domain, names = scope.domain(self.name, self.domain)
        sets = scope.sets(self.name, self.key_groups, self.by)
        held = sets.counts(domain[assignment[sets.members]], len(names))
        alive = np.isin(np.arange(len(names)), domain[scope.kept])
        for most, wrong in (
            (True, held > (held.max(initial=0) if self.at_most is None else self.at_most)),
            (False, (held < (self.at_least or 0)) & alive),
        ):
            for place, d in np.argwhere(wrong).tolist():
                limit = self.at_most if most else self.at_least
                said = f"{sets.said(place)}{held[place, d]} on {self.domain} {names[d]}"
                yield f"{said}, at {'most' if most else 'least'} {limit}", d, abs(float(held[place, d] - (limit or 0)))

    def forms(self, scope: Scope) -> Iterator[Form]:
        domain, names = scope.domain(self.name, self.domain)
        least = np.where(np.bincount(domain, scope.kept, len(names)) > 0, float(self.at_least or 0), 0.0)
        for _, members in scope.sets(self.name, self.key_groups, self.by):
            most = np.full(len(names), float(members.size if self.at_most is None else self.at_most))
            yield Rooms(members, np.ones(members.size), domain, least, most)

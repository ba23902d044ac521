r"""The most of a resource that a rack, a zone or a node may use in all.

.. math:: (1) \quad \sum_k r_k \sum_{i \in I_d} x_{ki} \le at\_most_d \qquad \text{for every domain } I_d
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.base.names import Names, printed
from keyshift.models.errors import InputError
from keyshift.models.problem import SLACK
from keyshift.models.rules.lowered import Form, Rooms
from keyshift.models.rules.rule import Rule, register_rule
from keyshift.models.rules.scope import Scope
from keyshift.models.workload import FloatArray, IntArray


@register_rule
@dataclass(frozen=True)
class Use(Rule):
    """The nodes of a domain together use at most so much of a resource.

    Parameters
    ----------
    resource : str
        One of the workload's resources, "load" (of the last window) or "state".
    at_most : float, or mapping of domains to float
        The same for every domain; or for some of them, by name.
    domain : str, default "node"
        "node", or one of the workload's `domains`, such as "rack".
    """

    name: ClassVar[str] = "use"
    words: ClassVar[tuple[str, ...]] = ("resource", "at_most", "domain")
    numbers: ClassVar[tuple[str, ...]] = ("at_most",)
    counts: ClassVar[bool] = False
    resource: str
    at_most: float | Mapping[str, float]
    domain: str = "node"

    def __post_init__(self) -> None:
        super().__post_init__()
        limits = self.at_most if isinstance(self.at_most, Mapping) else {"": self.at_most}
        for name, value in limits.items():
            guards.real(f"use: at_most{f'[{name!r}]' * bool(name)}", value, optional=False)

    @property
    def of_today(self) -> bool:
        return self.resource == "load"

    def used(self, scope: Scope) -> FloatArray:
        """Use of the resource by each key group, shape (p,)."""
        w = scope.workload
        known = {**w.resources, "load": w.last_load, "state": w.state}
        if printed(self.resource) not in known:
            raise InputError(f"use: the workload has no {self.resource!r:.60}; it has {', '.join(sorted(known))}")
        return known[printed(self.resource)]

    def enough(self, scope: Scope) -> float:
        return float(self.used(scope).sum())

    def most(self, names: list[int | str]) -> FloatArray:
        """The limit of each domain, infinite where there is none."""
        if not isinstance(self.at_most, Mapping):
            return np.full(len(names), float(self.at_most))
        return Names(self.domain, names, len(names)).values("use", self.at_most, np.inf).astype(float)

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        domain, names = scope.domain(self.name, self.domain)
        held = np.bincount(domain[assignment], self.used(scope), len(names))
        most = self.most(names)
        for d in np.flatnonzero(held > most * (1 + SLACK)).tolist():
            used, allowed = apart(held[d], most[d])
            yield f"{self.domain} {names[d]} uses {used}, at most {allowed}", d, float(held[d] - most[d])

    def forms(self, scope: Scope) -> Iterator[Form]:
        domain, names = scope.domain(self.name, self.domain)
        used = self.used(scope)
        members = np.flatnonzero(used > 0)
        most = np.minimum(self.most(names), 2.0 * float(used.sum()) + 1.0)
        yield Rooms(members, used[members], domain, np.zeros(len(names)), most)

r"""How much a node runs: key groups, such as partitions a broker; or of a resource, also a rack or a zone in all.

.. math::

    (1) \quad & at\_least \le \sum_{k} x_{ki} \le at\_most && \text{for every node i chosen: } Count \\
    (2) \quad & \sum_k r_k \sum_{i \in I_d} x_{ki} \le at\_most_d && \text{for every domain } I_d \text{: } Use
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
from keyshift.models.rules.rule import Rule, Scope, Selection, register_rule
from keyshift.models.workload import FloatArray, IntArray


@register_rule
@dataclass(frozen=True)
class Count(Rule):
    """(1): each node runs at least, and at most, so many key groups.

    Parameters
    ----------
    at_most, at_least : int, optional
    nodes : selection, optional
        All by default: then `at_least` spares those that drain.
    """

    name: ClassVar[str] = "count"
    words: ClassVar[tuple[str, ...]] = ("at_most", "at_least", "nodes")
    numbers: ClassVar[tuple[str, ...]] = ("at_most", "at_least")
    at_most: int | None = None
    at_least: int | None = None
    nodes: Selection = None

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        w, chosen = scope.workload, scope.nodes(self.name, self.nodes)
        held = np.bincount(assignment, minlength=scope.places).tolist()
        for i in np.flatnonzero(chosen).tolist():
            spared = self.nodes is None and i < w.nodes and w.draining[i]
            if self.at_most is not None and held[i] > self.at_most:
                yield f"node {w.node(i)} runs {held[i]}", i, float(held[i] - self.at_most)
            if self.at_least is not None and held[i] < self.at_least and not spared:
                yield f"node {w.node(i)} runs {held[i]}", i, float(self.at_least - held[i])

    def forms(self, scope: Scope) -> Iterator[Form]:
        w = scope.workload
        nodes = np.flatnonzero(scope.nodes(self.name, self.nodes))
        domain = np.full(scope.places, -1)
        domain[nodes] = np.arange(nodes.size)
        least = np.full(nodes.size, float(self.at_least or 0))
        if self.nodes is None:
            least[: w.nodes][w.draining] = 0.0
        most = np.full(nodes.size, float(w.key_groups if self.at_most is None else self.at_most))
        yield Rooms(np.arange(w.key_groups), np.ones(w.key_groups), domain, least, most)


@register_rule
@dataclass(frozen=True)
class Use(Rule):
    """(2): the nodes of a domain together use at most so much of a resource.

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

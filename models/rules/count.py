r"""How many key groups a node may run: partitions a broker, say.

.. math:: (1) \quad at\_least \le \sum_{k} x_{ki} \le at\_most \qquad \text{for every node i chosen}
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
class Count(Rule):
    """Each node runs at least, and at most, so many key groups.

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

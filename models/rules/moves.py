r"""How many key groups may move - of a topic, out of a node, into a rack - and which stay where they are.

.. math:: (1) \quad \sum_{k:\, q_k \in O} \; \sum_{i \in T,\, i \ne q_k} x_{ki} \le at\_most

.. math:: (2) \quad x_{k q_k} = 1 \qquad \text{for every k chosen}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Closed, Form, MoveBudget
from keyshift.models.rules.rule import Rule, Scope, Selection, register_rule
from keyshift.models.workload import BoolArray, IntArray


@register_rule
@dataclass(frozen=True)
class Moves(Rule):
    """At most so many key groups change node.

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
    """Key groups stay on the node that runs them now.

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

r"""Key groups that run on some nodes only, or never on some: also where they are now, if that is not allowed.

.. math::

    (1) \quad & x_{ki} = 0 && \text{for every k chosen and i not chosen: } Only \\
    (2) \quad & x_{ki} = 0 && \text{for every k chosen and i chosen: } Never
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from keyshift.models.rules.lowered import Closed, Form
from keyshift.models.rules.rule import Rule, register_rule
from keyshift.models.rules.scope import Scope, Selection
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

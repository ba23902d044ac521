r"""Key groups that stay where they are.

.. math:: (1) \quad x_{k q_k} = 1 \qquad \text{for every k chosen}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Closed, Form
from keyshift.models.rules.rule import Rule
from keyshift.models.rules.scope import Scope, Selection
from keyshift.models.workload import IntArray


@dataclass(frozen=True)
class Pinned(Rule):
    """Key groups stay on the node that runs them now.

    Parameters
    ----------
    key_groups : selection
        Numbers, names, or labels of a column as in ``{"topic": "orders"}``.
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

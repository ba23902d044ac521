r"""Key groups spread evenly over nodes or racks: of each set, every domain runs its share, give or take some.

.. math::

    (1) \quad \lfloor share_{Sd} \rfloor - slack \le \sum_{k \in S} \sum_{i \in I_d} x_{ki} \le \lceil share_{Sd} \rceil + slack,
    \qquad share_{Sd} = |S| \, n_d / n \qquad \text{for every set S and domain } I_d \text{ with } n_d > 0

where :math:`n_d` of the n nodes that do not drain are in :math:`I_d`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyshift.models.rules.rule import register_rule
from keyshift.models.rules.scope import Scope, Selection
from keyshift.models.rules.spread import CountedInDomains
from keyshift.models.workload import IntArray


@register_rule
@dataclass(frozen=True)
class Even(CountedInDomains):
    """Each domain runs its even share of every set of key groups.

    The share of a node is the same for all that do not drain, and that of a rack grows with its nodes; where it is no whole
    number, the next lower and the next higher are as good.

    Parameters
    ----------
    by : str, optional
        A column of the workload's `groups`: one set for each label. None: one set.
    domain : str, default "node"
        "node", or one of the workload's `domains`, such as "rack". A domain that drains as a whole has no limit.
    slack : int, default 0
        So many key groups more or less are even enough.
    key_groups : selection, optional
        All by default.
    """

    name: ClassVar[str] = "even"
    words: ClassVar[tuple[str, ...]] = ("by", "domain", "slack")
    numbers: ClassVar[tuple[str, ...]] = ("slack",)
    by: str | None = None
    domain: str = "node"
    slack: int = 0
    key_groups: Selection = None

    def ends(self, scope: Scope, size: IntArray) -> tuple[IntArray, IntArray]:
        domain, names = scope.domain(self.name, self.domain)
        nodes = np.bincount(domain[scope.kept], minlength=len(names))
        slack = min(self.slack, scope.workload.key_groups)
        share = size[:, None] * nodes  # n times as many
        least, most = share // nodes.sum() - slack, -(-share // nodes.sum()) + slack
        return np.where(nodes > 0, np.maximum(least, 0), 0), np.where(nodes > 0, most, size[:, None])

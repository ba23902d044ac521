r"""How the key groups of a set lie over nodes, racks or zones: apart, together, spread, evenly.

For every set S of key groups and every domain :math:`I_d`:

.. math::

    (1) \quad & \sum_{k \in S} \sum_{i \in I_d} x_{ki} \le 1 && Apart \\
    (2) \quad & x_{ki} = x_{li} \qquad \text{for all k, l of S and every i} && Together \\
    (3) \quad & at\_least \le \sum_{k \in S} \sum_{i \in I_d} x_{ki} \le at\_most && Spread \\
    (4) \quad & \lfloor s_{Sd} \rfloor - slack \le \sum_{k \in S} \sum_{i \in I_d} x_{ki} \le \lceil s_{Sd} \rceil + slack,
    \qquad s_{Sd} = |S| \, n_d / n && Even

where :math:`n_d > 0` of the n nodes that do not drain are in :math:`I_d`. (2) is [Madsen2016]'s own collocation constraint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Form, Merged, Rooms
from keyshift.models.rules.rule import Rule, Scope, Selection, register_rule
from keyshift.models.workload import IntArray


@register_rule
@dataclass(frozen=True)
class Apart(Rule):
    """(1): no two key groups of a set run in the same domain: replicas, say.

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


@register_rule
@dataclass(frozen=True)
class Together(Rule):
    """(2): the key groups of each set run on one node.

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


class CountedInDomains(Rule):
    """A rule about how many key groups of each set a domain runs: a least and a most."""

    key_groups: Selection
    domain: str
    by: str | None

    @abstractmethod
    def ends(self, scope: Scope, size: IntArray) -> tuple[IntArray, IntArray]:
        """The least and the most of sets of some sizes in each domain, shape (sets, domains) each."""

    def broken(self, scope: Scope, assignment: IntArray) -> Iterator[tuple[str, int | None, float]]:
        domain, names = scope.domain(self.name, self.domain)
        sets = scope.sets(self.name, self.key_groups, self.by)
        held = sets.counts(domain[assignment[sets.members]], len(names))
        least, most = self.ends(scope, held.sum(axis=1))
        for place, d in np.argwhere((held < least) | (held > most)).tolist():
            here, low, high = int(held[place, d]), int(least[place, d]), int(most[place, d])
            said = f"{sets.said(place)}{here} on {self.domain} {names[d]}, at {'most' if here > high else 'least'}"
            yield f"{said} {high if here > high else low}", d, float(max(here - high, low - here))

    def forms(self, scope: Scope) -> Iterator[Form]:
        domain, _ = scope.domain(self.name, self.domain)
        for _, members in scope.sets(self.name, self.key_groups, self.by):
            least, most = self.ends(scope, np.array([members.size]))
            yield Rooms(members, np.ones(members.size), domain, least[0].astype(float), most[0].astype(float))


@register_rule
@dataclass(frozen=True)
class Spread(CountedInDomains):
    """(3): each domain runs at least, and at most, so many key groups of a set.

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

    def ends(self, scope: Scope, size: IntArray) -> tuple[IntArray, IntArray]:
        domain, names = scope.domain(self.name, self.domain)
        alive = np.isin(np.arange(len(names)), domain[scope.kept])
        least, most = np.where(alive, self.at_least or 0, 0), size[:, None] if self.at_most is None else self.at_most
        return np.broadcast_to(least, (size.size, alive.size)), np.broadcast_to(most, (size.size, alive.size))

    @classmethod
    def of_words(cls, text: str) -> Rule:
        """As of every rule; beside ``by``, a bare word is the domain: sets of a single key group have nothing to spread."""
        made = super().of_words(text)
        assert isinstance(made, Spread)
        if made.by is None or not isinstance(made.key_groups, str) or made.domain != "node":
            return made
        return replace(made, key_groups=None, domain=made.key_groups)


@register_rule
@dataclass(frozen=True)
class Even(CountedInDomains):
    """(4): each domain runs its even share of every set of key groups.

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

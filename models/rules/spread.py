r"""Key groups spread over racks or zones: in each at least so many, and at most so many.

.. math:: (1) \quad at\_least \le \sum_{k \in S} \sum_{i \in I_d} x_{ki} \le at\_most \qquad
          \text{for every set S and domain } I_d
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from keyshift.models.rules.lowered import Form, Rooms
from keyshift.models.rules.rule import Rule, register_rule
from keyshift.models.rules.scope import Scope, Selection
from keyshift.models.workload import IntArray


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

"""A problem with rules, as each formulation that takes them inherits it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.problem import Problem, Violation
from keyshift.models.rules import read_rules
from keyshift.models.rules.lowered import Lowered
from keyshift.models.rules.rule import Rule
from keyshift.models.rules.scope import Scope


class Ruled(Problem):
    """A problem whose field `rules` says what the cluster does not allow besides."""

    rules: Sequence[Rule]

    def _read_rules(self) -> None:
        """Read the field `rules`, or raise `InputError`; a rule that names what is not there is refused here."""
        self._put("rules", read_rules(self.rules))
        if self.rules:
            assert self.lowered is not None

    @property
    def places(self) -> int:
        """Nodes that an answer may name."""
        return int(self.workload.nodes)  # type: ignore[attr-defined]  # a field of the subclass

    @property
    def scope(self) -> Scope:
        """Key groups and nodes by number, name and label."""
        return Scope(self.workload, self.places)  # type: ignore[attr-defined]

    @cached_property
    def lowered(self) -> Lowered:
        """All rules as the four forms."""
        scope = self.scope
        forms = [form for rule in self.rules for form in rule.forms(scope)]
        return Lowered.of(forms, scope.workload.current, scope.places)

    def arguments(self) -> dict[str, Any]:
        """Rules as files hold them, and none where there are none: then a problem is what it was before there were any."""
        given = super().arguments()
        rules = given.pop("rules", ())
        return {**given, "rules": [rule.record() for rule in rules]} if rules else given

    def broken_rules(self, assignment: np.ndarray) -> list[Violation]:
        """The rules that a canonical assignment breaks, by their own words."""
        scope = self.scope
        return [found for rule in self.rules for found in rule.broken_in(scope, assignment)]

    def refuse_rules(self, who: str) -> None:
        """Refuse where rules are not known yet."""
        if self.rules:
            raise InputError(f"{who} cannot hold rules yet, and this problem has {self.rules[0]}")

    def rule_conflicts(self) -> list[str]:
        """Rules that no assignment can keep, by arithmetic alone."""
        w, low = self.scope.workload, self.lowered
        found = []
        if low.closed is not None:
            found += [
                f"rules leave key group {w.key(k)} no node to run on"
                for k in np.flatnonzero(low.closed.all(axis=1))[:3]
            ]
        for room in low.rooms:
            inside = bool((room.domain >= 0).all())
            if inside and room.weights.sum() > room.most.sum() * (1 + 1e-9):
                said = self.scope.said(room.key_groups)
                found.append(f"rules have room for {room.most.sum():g} of {room.weights.sum():g} of key groups {said}")
            if room.least.sum() > room.weights.sum():
                said = self.scope.said(room.key_groups)
                found.append(f"rules need {room.least.sum():g} of key groups {said}, which are {room.weights.sum():g}")
        return found

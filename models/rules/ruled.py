"""A problem with rules, as each formulation that takes them inherits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.problem import Limit, Number, Problem, Violation
from keyshift.models.rules import read_rules
from keyshift.models.rules.lowered import Lowered
from keyshift.models.rules.rule import Rule
from keyshift.models.rules.scope import Scope

MOST_RULES = 20
"""Rules that `remedies` and `explain` look at one by one."""


class Ruled(Problem):
    """A problem whose field `rules` says what the cluster does not allow besides."""

    rules: Sequence[Rule]

    def _read_rules(self) -> None:
        """Read the field `rules`, or raise `InputError`; a rule that names what is not there is refused here."""
        self._put("rules", read_rules(self.rules))
        _ = self.lowered  # which refuses what is not there

    @property
    def places(self) -> int:
        """Nodes that an answer may name."""
        return int(self.workload.nodes)  # type: ignore[attr-defined]  # a field of the subclass

    @cached_property
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

    @property
    def rule_limits(self) -> list[Limit]:
        """Limits among the rules that may give: numbers, and each as a whole; of many, those after `MOST_RULES` together."""
        found = [
            self._number(place, rule, name)
            for place, rule in enumerate(self.rules[:MOST_RULES])
            for name in rule.numbers
            if isinstance(getattr(rule, name), int | float)
        ]
        parts = [(str(rule), {place}) for place, rule in enumerate(self.rules[:MOST_RULES])]
        if rest := set(range(MOST_RULES, len(self.rules))):
            parts.append((f"the other {len(rest)} rules", rest))
        return found + [self._whole(name, dropped) for name, dropped in parts]

    def _number(self, place: int, rule: Rule, name: str) -> Limit:
        """One number of a rule."""

        def at(value: Number) -> Problem:
            looser = replace(rule, **{name: type(getattr(rule, name))(value)})
            return replace(self, rules=[*self.rules[:place], looser, *self.rules[place + 1 :]])  # type: ignore[type-var]

        whole, value = rule.name != "use", getattr(rule, name)
        ends = 0 if name == "at_least" else max(rule.enough(self.scope), value)
        return Limit(
            f"{name} of {rule}", value if whole else float(value), at, partial(rule.needed, self.scope, name),
            int(ends) if whole else ends, whole, 1.0 if whole else 0.1 * value or 1.0, down=name == "at_least",
        )  # fmt: skip

    def _whole(self, name: str, dropped: set[int]) -> Limit:
        """Some rules as a whole: 1 with them, 0 without."""

        def at(value: Number) -> Problem:
            kept = [rule for place, rule in enumerate(self.rules) if value or place not in dropped]
            return replace(self, rules=kept)  # type: ignore[type-var]

        return Limit(name, 1, at, ends=0, whole=True, down=True, drops=True)

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

"""Rules: what a cluster does not allow, one rule a file, and the four forms below them all.

Begin with rule.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyshift.models.errors import InputError
from keyshift.models.rules.count import Count, Use
from keyshift.models.rules.only import Moves, Near, Never, Only, Pinned
from keyshift.models.rules.rule import RULES, Rule, register_rule
from keyshift.models.rules.spread import Apart, Even, Spread, Together

__all__ = [
    "RULES", "Apart", "Count", "Even", "Moves", "Near", "Never", "Only", "Pinned", "Rule", "Spread", "Together", "Use",
    "read_rule", "register_rule",
]  # fmt: skip


def read_rule(given: Any, said: str = "rule") -> Rule:
    """A rule from what stands for one: a `Rule`; words, as in ``"apart partition rack"``; or a mapping.

    Mappings are what `Rule.record` makes, ``{"rule": "apart", "by": "partition"}``, or ``{"apart": {"by": "partition"}}``.
    """
    if isinstance(given, Rule):
        return given
    if isinstance(given, str) and given.split():
        return _named(given.split()[0], said).of_words(given)
    if isinstance(given, Mapping) and "rule" in given:
        return _named(given["rule"], said).of({name: v for name, v in given.items() if name != "rule"}, said)
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, fields),) = given.items()
        if isinstance(fields, Mapping):
            return _named(name, said).of(fields, said)
    raise InputError(f"{said} = {given!r:.80} must be a rule, such as Pinned([3]) or 'apart partition rack'")


def _named(name: Any, said: str) -> type[Rule]:
    if not isinstance(name, str) or name.lower() not in RULES:
        raise InputError(
            f"{said}: no rule {name!r:.60}; there are {', '.join(sorted(RULES))}, and those whose module is imported"
        )
    return RULES[name.lower()]

"""Rules: what a cluster does not allow, for the parameter `rules` of a problem.

>>> from keyshift.rules import Apart, Count, Pinned
>>> rules = [Pinned([3, 4]), Apart(by="partition", domain="rack"), Count(at_most=4000)]
"""

from __future__ import annotations

from keyshift.models.rules import (  # fmt: skip
    Apart,
    Count,
    Even,
    Moves,
    Near,
    Never,
    Only,
    Pinned,
    Rule,
    Spread,
    Together,
    Use,
    read_rule,
    register_rule,
)

__all__ = [
    "Apart", "Count", "Even", "Moves", "Near", "Never", "Only", "Pinned", "Rule", "Spread", "Together", "Use",
    "read_rule", "register_rule",
]  # fmt: skip

"""The rows of rules alone, as arrays: a search has them beside those of the problem's own limits."""

from __future__ import annotations

from keyshift.models.rules.lowered import Lowered
from keyshift.solvers.rows import RuleRows, families, rows_of, sharing


def rule_rows(lowered: Lowered, nodes: int) -> RuleRows:
    made = [one.in_units(unit) for parts, unit in sharing(families(lowered, nodes)) for one in parts]
    return rows_of(made, lowered.current, nodes)

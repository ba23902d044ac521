"""Steps and sequences as certificates state them: modes, and decisions on nodes numbered from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyshift.models import records
from keyshift.models.workload import IntArray

Table = list[list[list[int]]]


def record_of(problem: Any, modes: list[Any], discount: int | str = 1) -> records.Record:
    """Each mode has its number of nodes, and the modes that may follow with their chances; the first is now."""
    rows = [records.row(records.amounts(problem.workload.last_load))]
    placed = records.placed(problem.workload, rows)
    return {**placed, "tau": records.text(problem.tau), "modes": modes, "discount": discount}


def record_of_chain(problem: Any, counts: Sequence[int]) -> records.Record:
    """One number of nodes after another."""
    numbers = [int(problem.workload.kept.sum()), *counts]
    return record_of(problem, [[n, [[t + 1, 1]] if t < len(counts) else []] for t, n in enumerate(numbers)])


def table_of_chain(decisions: IntArray) -> Table:
    """Each decision with the nodes before it numbered from left to right; after the last nothing is decided."""
    rows: Table = []
    before: dict[int, int] | None = None
    for decided in decisions.tolist():
        known = before
        if known is not None:
            for i in decided:
                known.setdefault(i, len(known))
        rows.append([decided if known is None else [known[i] for i in decided]])
        before = {i: at for at, i in enumerate(dict.fromkeys(decided))}
    return [*rows, []]

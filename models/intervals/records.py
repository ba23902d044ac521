"""Steps, sequences and policies as certificates state them: modes, and decisions on nodes numbered from left to right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from keyshift.models import records
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import IntArray

if TYPE_CHECKING:
    from keyshift.models.intervals.policy.problem import MigrationPolicy

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


def record_of_policy(problem: MigrationPolicy) -> records.Record:
    """A mode for each number of nodes that may come."""
    rows, first = _exact_rows(problem.transitions), _first_row(problem)
    mode: dict[int, int] = {}
    waiting = list(first)
    while waiting:
        if (n := waiting.pop(0)) not in mode:
            mode[n] = 1 + len(mode)
            waiting += rows[n]
    stated = [(problem.nodes_now, first), *((n, rows[n]) for n in mode)]
    modes = [[n, [[mode[after], records.text(p)] for after, p in row.items()]] for n, row in stated]
    return record_of(problem, modes, records.text(Fraction(repr(problem.discount))))


def _first_row(problem: MigrationPolicy) -> dict[int, Fraction]:
    if problem.nodes_after is not None:
        return {problem.nodes_after: Fraction(1)}
    return _exact_rows(problem.transitions)[problem.nodes_now]


def _exact_rows(transitions: Mapping[int, Mapping[int, float]]) -> dict[int, dict[int, Fraction]]:
    """The transition matrix in fractions, each row rescaled so that it sums to 1: floats need not."""
    made = {}
    for n, row in transitions.items():
        chances = {after: Fraction(repr(float(p))) for after, p in row.items()}
        total = sum(chances.values())
        made[n] = {after: p / total for after, p in chances.items()}
    return made


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


def table_of_policy(problem: MigrationPolicy, assignment: IntArray) -> Table:
    """The decisions of each state for the numbers of nodes that may follow."""
    rows = _exact_rows(problem.transitions)
    made, states, seen = [], [list(_first_row(problem))], set()
    for decisions, followed in zip(assignment, states, strict=False):
        chosen = [decisions[problem.counts.index(n)] for n in followed]
        made.append([decided.tolist() for decided in chosen])
        for n, decided in zip(followed, chosen, strict=True):
            state = n, tuple(cuts_of(decided).tolist())
            if state not in seen:
                seen.add(state)
                states.append(list(rows[n]))
    return made

"""Proofs for contiguous intervals: values of all partitions that no step improves on, or a price for each interval."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from keyshift.certificates import verify
from keyshift.certificates.found import Proven
from keyshift.certificates.instances import text
from keyshift.models import Budget, Solution
from keyshift.models.intervals import IntervalMigration, MigrationPolicy
from keyshift.models.workload import FloatArray
from keyshift.solvers.intervals.step.lagrangian import lagrangian

BITS = 44
"""Values of policies are rounded to so many bits: their error is less than 1e-13 of all the state."""
ROUNDS = 100_000


def prove_intervals(problem: Any, case: Any, solution: Solution, value: Fraction | None, deadline: float) -> Proven:
    """A value vector over all partitions and one sweep; where they are too many, prices for direct steps from now."""
    if value is None:
        return Proven(None, {"kind": "filled"})
    price = prices_of(problem, case)
    by_price = {"kind": "prices", "prices": [[m, x] for m, x in price.items()]}
    least = {m: max(0, case.least_moved(case.modes[m][0], x)) for m, x in price.items()}
    bound = max(least.values()) if case.chain else sum(p * least[m] for m, p in case.modes[0][1])
    found = Proven(min(value, bound * case.unit), by_price)
    if found.bound == value:
        return found
    try:
        partitions = case.reached(value / case.unit)
        verify.need(sum(len(partitions[m]) * len(partitions[to]) for m, to in case.arcs()) <= verify.MOST_CELLS, "")
    except verify.Refused:
        return found
    values = _exact(case, partitions, value / case.unit) if case.chain else _optimal(case, partitions)
    bound = case.swept(partitions, values, value / case.unit) * case.unit
    if case.chain and bound < value:  # less is proven only of paths within reach
        return found
    return Proven(min(value, bound), {"kind": "values", "values": values}) if bound > (found.bound or 0) else found


def prices_of(problem: Any, case: Any) -> dict[int, int]:
    """For each mode that a direct step may lead to, the price of an interval that says most about it."""
    if isinstance(problem, IntervalMigration):
        return {1: interval_price(case, problem)}
    modes = range(1, len(case.modes)) if case.chain else [m for m, _ in case.modes[0][1]]
    first = {case.modes[m][0]: m for m in reversed(modes)}
    return {m: interval_price(case, problem.first_step(n)) for n, m in first.items()}


def interval_price(case: Any, problem: IntervalMigration) -> int:
    """The price of an interval that says most about a single step, in whole units of state."""
    found = lagrangian(problem, budget=Budget(60.0))
    return round(Fraction(found.details.get("price", 0)) / case.unit)


def _exact(case: Any, partitions: list[list[Any]], reach: Fraction) -> list[list[int | str]]:
    """What still moves in a chain, from its end to its beginning; where nothing is within reach, as much as that."""
    values: list[list[Any]] = [[0] * len(found) for found in partitions]
    for mode in reversed(range(len(partitions))):
        for to, _ in case.modes[mode][1]:
            ahead = list(zip(partitions[to], values[to], strict=True))
            keep = case.sums_of_state if mode else case.keep
            values[mode] = values[to] if (mode, to) not in case.arcs() else [
                min((case.sums_of_state[-1] - verify.kept_together(old, new, keep) + v for new, v in ahead), default=reach)
                for old in partitions[mode]
            ]  # fmt: skip
    return [[text(v) for v in row] for row in values]


def _optimal(case: Any, partitions: list[list[Any]]) -> list[list[int | str]]:
    """The optimal values of all partitions by value iteration, a little lowered."""
    between = {(m, to): _costs(case, partitions[m], partitions[to], m) for m, to in case.arcs()}
    values = [np.zeros(len(found)) for found in partitions]
    gamma, most = float(case.discount), float(max(1, case.sums_of_state[-1]))
    for _ in range(ROUNDS):
        after = [
            sum(
                (float(p) * (between[m, to] + gamma * values[to]).min(axis=1) for to, p in row),
                np.zeros(len(values[m])),
            )
            for m, (_, row) in enumerate(case.modes)
        ]
        change = max(float(np.abs(a - v).max()) for a, v in zip(after, values, strict=True))
        values = after
        if change <= 1e-10 * most * (1 - gamma):
            break
    grid = _grid(case)
    doubt = 4 * grid / (1 - case.discount)
    return [[text(max(Fraction(0), (Fraction(float(v)) - doubt) // grid * grid)) for v in row] for row in values]


def _costs(case: Any, old: list[Any], new: list[Any], mode: int) -> FloatArray:
    """The state that moves between partitions, in the checker's whole units."""
    keep = case.sums_of_state if mode else case.keep
    return np.array([[float(case.sums_of_state[-1] - verify.kept_together(a, b, keep)) for b in new] for a in old])


def _grid(case: Any) -> Fraction:
    """The step of rounded values, in whole units of state."""
    return Fraction(2 ** max(1, case.sums_of_state[-1]).bit_length(), 2**BITS)


def values_of(problem: Any, case: Any, solution: Solution, rows: list[Any]) -> list[int | str]:
    """Values of the states of an answer: of a policy a little above the true ones, so that none is below one step."""
    if not isinstance(problem, MigrationPolicy) or solution.assignment is None:
        return _values_of_chain(case, rows)
    table = problem.table(solution.assignment)
    known = table.chance > 0
    at, _ = np.nonzero(known)
    size = table.expected.size
    step = sp.csc_array((table.chance[known], (at, table.target[known])), shape=(size, size))
    exact = splu(sp.eye_array(size, format="csc") - problem.discount * step).solve(table.expected)
    grid = _grid(case) * case.unit
    doubt = 4 * grid / (1 - case.discount)
    return [text(-((-Fraction(float(v)) - doubt) // grid) * grid) for v in exact[: len(rows)]]


def _values_of_chain(case: Any, rows: list[list[list[int]]]) -> list[int | str]:
    """What still moves from each decision on, exactly."""
    before, moved = case.current, []
    for (decided,) in rows[:-1]:
        moved.append(sum(s for s, q, i in zip(case.state, before, decided, strict=True) if q != i))
        number = {i: at for at, i in enumerate(dict.fromkeys(decided))}
        before = [number[i] for i in decided]
    return [text(sum(moved[t:]) * case.unit) for t in range(len(rows))]

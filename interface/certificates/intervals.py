"""Proofs for contiguous intervals: values of all partitions that no step improves on, or a price for each interval."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from keyshift.certificates import Proven, verify
from keyshift.models import Budget, Solution
from keyshift.models.answer import LimitReached
from keyshift.models.records import text
from keyshift.models.workload import FloatArray
from keyshift.solvers.intervals.step.ssm import lagrangian

BITS = 44
"""Values of policies are rounded to so many bits: their error is less than 1e-13 of all the state."""
ROUNDS = 100_000


def prove_intervals(
    problem: Any, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """A value vector over all partitions and one sweep; where they are too many, prices for direct steps from now."""
    if value is None:
        return Proven(None, {"kind": "filled"})
    price = prices_of(problem, case, budget)
    by_price = {"kind": "prices", "prices": [[m, x] for m, x in price.items()]}
    least = {m: max(0, case.least_moved(case.modes[m][0], x)) for m, x in price.items()}
    bound = max(least.values()) if case.chain else sum(p * least[m] for m, p in case.modes[0][1])
    found = Proven(min(value, bound * case.unit), by_price)
    if found.bound == value:
        return found
    try:
        partitions = case.reached(value / case.unit)
        verify.need(sum(len(partitions[m]) * len(partitions[to]) for m, to in case.arcs()) <= verify.MOST_CELLS, "")
        left = budget.part(1.0, seconds)
        values = _exact(case, partitions, value / case.unit, left) if case.chain else _optimal(case, partitions, left)
    except (verify.Refused, LimitReached):
        return found
    bound = case.after_a_sweep(partitions, values, value / case.unit) * case.unit
    if case.chain and bound < value:  # less is proven only of paths within reach
        return found
    return Proven(min(value, bound), {"kind": "values", "values": values}) if bound > (found.bound or 0) else found


def prices_of(problem: Any, case: Any, budget: Budget) -> dict[int, int]:
    """For each mode that a direct step may lead to, the price of an interval that says most about it."""
    modes = range(1, len(case.modes)) if case.chain else [m for m, _ in case.modes[0][1]]
    first = {case.modes[m][0]: m for m in reversed(modes)}
    found = {m: lagrangian(problem.first_step(n), budget=budget.part(1.0, 60.0)) for n, m in first.items()}
    return {m: round(Fraction(each.details.get("price", 0)) / case.unit) for m, each in found.items()}


def _exact(case: Any, partitions: list[list[Any]], reach: Fraction, budget: Budget) -> list[list[int | str]]:
    """State that still moves in a chain, from its end to its beginning; where nothing is within reach, as much as that."""
    values: list[list[Any]] = [[0] * len(found) for found in partitions]
    for mode in reversed(range(len(partitions))):
        for to, _ in case.modes[mode][1]:
            ahead = list(zip(partitions[to], values[to], strict=True))
            if (mode, to) not in case.arcs():
                values[mode] = values[to]
                continue
            for at, old in enumerate(partitions[mode]):
                budget.tick()
                values[mode][at] = min((_cost(case, old, new, mode) + v for new, v in ahead), default=reach)
    return [[text(v) for v in row] for row in values]


def _optimal(case: Any, partitions: list[list[Any]], budget: Budget) -> list[list[int | str]]:
    """The optimal values of all partitions by value iteration, a little lowered."""
    between = {(m, to): _costs(case, partitions[m], partitions[to], m, budget) for m, to in case.arcs()}
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
        if change <= 1e-10 * most * (1 - gamma) or budget.expired:  # from below, they are a bound at any time
            break
    grid = _grid(case)
    doubt = 4 * grid / (1 - case.discount)
    return [[text(max(Fraction(0), (Fraction(float(v)) - doubt) // grid * grid)) for v in row] for row in values]


def _cost(case: Any, old: Any, new: Any, mode: int) -> int:
    """The state that moves from one partition to another, in the checker's whole units."""
    return case.sums_of_state[-1] - verify.kept_together(old, new, case.sums_of_state if mode else case.keep)


def _costs(case: Any, old: list[Any], new: list[Any], mode: int, budget: Budget) -> FloatArray:
    costs = np.empty((len(old), len(new)))
    for at, before in enumerate(old):
        budget.tick()
        costs[at] = [float(_cost(case, before, after, mode)) for after in new]
    return costs


def _grid(case: Any) -> Fraction:
    """The step of rounded values, in whole units of state."""
    return Fraction(2 ** max(1, case.sums_of_state[-1]).bit_length(), 2**BITS)


def values_of(problem: Any, case: Any, solution: Solution, rows: list[Any]) -> list[int | str]:
    """Values of the states of an answer: of a policy a little above the true ones, so that none is below one step."""
    if case.discount == 1:
        return _values_of_chain(case, rows)
    table = problem.table(solution.assignment)
    known = table.chance > 0
    at, _ = np.nonzero(known)
    size = table.expected.size
    step = sp.csc_array((table.chance[known], (at, table.target[known])), shape=(size, size))
    exact = splu(sp.eye_array(size, format="csc") - problem.discount * step).solve(table.expected)
    grid = _grid(case) * case.unit
    doubt = 4 * grid / (1 - case.discount)
    costly, before = table.expected > 0, np.zeros(size, dtype=bool)
    while (costly != before).any():  # where nothing ever moves, the value is 0 and no more
        costly, before = costly | (step @ costly > 0), costly
    paid = zip(exact[: len(rows)], costly[: len(rows)], strict=True)
    return [text(-((-Fraction(float(v)) - doubt) // grid) * grid) if some else 0 for v, some in paid]


def _values_of_chain(case: Any, rows: list[list[list[int]]]) -> list[int | str]:
    """State that still moves from each decision on, exactly."""
    before, moved = case.current, []
    for (decided,) in rows[:-1]:
        moved.append(sum(s for s, q, i in zip(case.state, before, decided, strict=True) if q != i))
        number = {i: at for at, i in enumerate(dict.fromkeys(decided))}
        before = [number[i] for i in decided]
    return [text(sum(moved[t:]) * case.unit) for t in range(len(rows))]

"""Proofs for migration policies: values of all partitions that no step improves on, and values of the policy's own states."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from keyshift.certificates import verify
from keyshift.certificates.found import Proven
from keyshift.certificates.intervals import costs_between, interval_price
from keyshift.models import Solution
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.workload import FloatArray

BITS = 30
"""Values are rounded to so many bits: their error is a billionth of all the state."""


def prove_policy(problem: Any, case: Any, solution: Solution, value: Fraction | None, deadline: float) -> Proven:
    """A value vector over all partitions and one sweep; where they are too many, what the first step moves at least."""
    if value is None:
        return Proven(None, {"kind": "filled"})
    counts = case.reachable()
    try:
        partitions = {n: case.partitions(n) for n in counts}
        pairs = sum(len(partitions[n]) * len(partitions[after]) for n in counts for after in case.rows[n])
        verify.need(pairs <= verify.MOST_LISTED, "too many")
    except verify.Refused:
        prices = [[n, interval_price(case, problem.first_step(n))] for n in case.first]
        least = {n: case.least_moved(n, price) for n, price in prices}
        bound = sum(chance * max(0, least[n]) for n, chance in case.first.items()) * case.unit
        return Proven(min(value, bound), {"kind": "prices", "prices": prices})
    values = [_lowered(case, row) for row in _optimal(case, partitions)]
    bound = case.swept(partitions, values) * case.unit
    return Proven(min(value, bound), {"kind": "values", "values": values})


def _optimal(case: Any, partitions: dict[int, list[Any]]) -> list[FloatArray]:
    """The optimal values of all partitions, in the checker's whole units, by value iteration."""
    gamma = float(case.discount)
    between = {
        (n, after): costs_between(case, partitions[n], partitions[after], case.sums_of_state)
        for n in partitions
        for after in case.rows[n]
    }
    values = {n: np.zeros(len(found)) for n, found in partitions.items()}
    close = 1e-10 * max(1.0, float(case.sums_of_state[-1])) * (1 - gamma)
    for _ in range(100_000):
        after = {
            n: sum(float(p) * (between[n, to] + gamma * values[to]).min(axis=1) for to, p in case.rows[n].items())
            for n in partitions
        }
        change = max(float(np.abs(after[n] - values[n]).max()) for n in values)
        values = after
        if change <= close:
            break
    return list(values.values())


def _grid(case: Any) -> Fraction:
    """The step of rounded values, in whole units of state: finer where later steps weigh more."""
    return Fraction(
        max(1, case.sums_of_state[-1]).bit_length() and 2 ** max(1, case.sums_of_state[-1]).bit_length(), 2**BITS
    )


def _lowered(case: Any, values: FloatArray) -> list[int | str]:
    """Values a little below the optimal ones, so that rounding leaves no step that is cheaper than it may be."""
    grid = _grid(case)
    doubt = 4 * grid / (1 - case.discount)
    return [_text(max(Fraction(0), (Fraction(float(v)) - doubt) // grid * grid)) for v in values]


def _text(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 else str(value)


def values_of(problem: MigrationPolicy, case: Any, assignment: np.ndarray) -> list[int | str]:
    """Values of a policy's states, a little above the true ones, so that none is below one step of the policy."""
    table = problem.table(assignment)
    known = table.chance > 0
    rows, _ = np.nonzero(known)
    size = table.expected.size
    step = sp.csc_array((table.chance[known], (rows, table.target[known])), shape=(size, size))
    exact = splu(sp.eye_array(size, format="csc") - problem.discount * step).solve(table.expected)
    grid = _grid(case) * case.unit
    doubt = 4 * grid / (1 - case.discount)
    return [_text(-((-Fraction(float(v)) - doubt) // grid) * grid) for v in exact]

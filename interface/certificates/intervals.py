"""Proofs for contiguous intervals: a price for each interval, or all partitions; what cannot be filled in order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.certificates import verify
from keyshift.certificates.found import Proven
from keyshift.models import Budget, Solution
from keyshift.models.intervals import IntervalMigration
from keyshift.solvers.intervals.step.lagrangian import lagrangian


def prove_intervals(problem: Any, case: Any, solution: Solution, value: Fraction | None, deadline: float) -> Proven:
    """One price proves a single step; a sequence is proven by its partitions where they are few, else by its dearest step."""
    if value is None:
        return Proven(None, {"kind": "filled"})
    if isinstance(problem, IntervalMigration):
        return _by_price(case, 0, problem, value)
    try:
        case.refute_by_partitions(value)
        return Proven(value, {"kind": "partitions"})
    except verify.Refused:
        single = {t: problem.first_step(n) for t, n in enumerate(problem.counts) if n not in problem.counts[:t]}
        return max((_by_price(case, t, step, value) for t, step in single.items()), key=lambda found: found.bound or 0)


def _by_price(case: Any, step: int, problem: IntervalMigration, value: Fraction) -> Proven:
    price = interval_price(case, problem)
    least = Fraction(case.least_moved(case.steps[step], price)) * case.unit
    return Proven(min(value, max(Fraction(0), least)), {"kind": "price", "step": step, "price": price})


def interval_price(case: Any, problem: IntervalMigration) -> int:
    """The price of an interval that says most about a single step, in whole units of state."""
    found = lagrangian(problem, budget=Budget(60.0))
    return round(Fraction(found.details.get("price", 0)) / case.unit)


def costs_between(case: Any, old: list[Any], new: list[Any], keep: list[int]) -> np.ndarray:
    """The state that moves between partitions, in the checker's whole units, as floats."""
    total = case.sums_of_state[-1]
    return np.array([[float(total - verify.kept_together(a, b, keep)) for b in new] for a in old])

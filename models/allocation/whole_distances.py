"""Load distances in whole numbers: (3) and (4) of `KeyGroupAllocation` for solvers that only know integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyshift.models.allocation.problem import KeyGroupAllocation
from keyshift.models.integers import BITS, scaled
from keyshift.models.workload import FloatArray

PRECISION = 1e-7
"""Where rounding cannot be avoided, it changes no load distance by more than this share of the mean, if bits allow."""
MOST_BITS = 50
"""All loads on the smallest node stay below 2**MOST_BITS; with more, presolves err."""


@dataclass(frozen=True)
class WholeDistances:
    """Deviations of nodes in whole units of a load distance, rounded so that no true distance is exceeded.

    Where nothing is rounded, `high` and `low` are the same. Otherwise an assignment of load distance d meets the
    rows (3), which take `high` and `mean_high`, and (4), which take the others, for the largest whole number of
    units in d: a statement of them is a relaxation, and exceeds no distance.

    Attributes
    ----------
    unit : Fraction
        Units in one load per unit of capacity.
    high, low : list of list of int
        By node, each key group's load on it, rounded down and up.
    mean_high, mean_low : int
        The mean, rounded up and down.
    doubt : float
        By how much a load distance computed in floats may be below one computed from these numbers, in load per
        unit of capacity.
    """

    unit: Fraction
    high: list[list[int]]
    low: list[list[int]]
    mean_high: int
    mean_low: int
    doubt: float

    @classmethod
    def of(cls, problem: KeyGroupAllocation) -> list[WholeDistances]:
        """Whole numbers for each window, all in one unit: exact, or nearly so for decimals, where nodes and mean allow it."""
        w, it = problem.workload, problem.planned
        if problem.mean == "exact" and bool((w.capacity == w.capacity[0]).all()):
            # In units of a load's unit over the number of kept nodes, so that a mean is a window's total load.
            kept, capacity = int(w.kept.sum()), float(w.capacity[0])
            made = scaled(it.load.ravel(), BITS + (it.count - 1).bit_length())
            doubt = 2 * made.error * w.key_groups / capacity + problem.rounding
            rows = [
                ([[kept * y for y in row]] * w.nodes, sum(row)) for row in made.values.reshape(it.load.shape).tolist()
            ]
            return [cls(made.scale * kept * Fraction(capacity), row, row, total, total, doubt) for row, total in rows]
        most = float((it.load.sum(axis=1) / w.capacity.min() + problem.means).max())
        wanted = (w.key_groups + 2) / (PRECISION * (problem.mean_load or 1.0))
        unit = Fraction(2) ** min(math.ceil(math.log2(wanted)), MOST_BITS - math.ceil(math.log2(most or 1.0)))
        return [cls._in_unit(problem, unit, y, float(mean)) for y, mean in zip(it.load, problem.means, strict=True)]

    @classmethod
    def _in_unit(
        cls, problem: KeyGroupAllocation, unit: Fraction, load: FloatArray, mean_load: float
    ) -> WholeDistances:
        """One window in a small unit, loads rounded down in (3) and up in (4)."""
        w = problem.workload
        by_capacity: dict[float, tuple[list[int], list[int]]] = {}
        loads = [Fraction(y) for y in load.tolist()]
        for c in np.unique(w.capacity).tolist():
            factor = unit / Fraction(c)
            exact = [y * factor for y in loads]
            by_capacity[c] = [math.floor(y) for y in exact], [math.ceil(y) for y in exact]
        mean = Fraction(mean_load) * unit
        high, low = zip(*(by_capacity[c] for c in w.capacity.tolist()), strict=True)
        return cls(unit, list(high), list(low), math.ceil(mean), math.floor(mean), problem.rounding)

    @property
    def most(self) -> int:
        """No distance is larger."""
        return max(max(map(sum, self.low)), self.mean_high) + 1

    def units(self, distance: float) -> int:
        """The most that a distance, as floats give it, can be in whole units."""
        return math.floor((Fraction(distance) + Fraction(self.doubt)) * self.unit)

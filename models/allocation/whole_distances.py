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
EPSILON = 2.0**-52


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
    def of(cls, problem: KeyGroupAllocation) -> WholeDistances:
        """Whole numbers for a problem: exact, or nearly so for decimals, where nodes and mean allow it."""
        capacity = problem.workload.capacity
        if problem.mean == "exact" and bool((capacity == capacity[0]).all()):
            return cls._of_equal_nodes(problem)
        return cls._rounded(problem)

    @classmethod
    def _of_equal_nodes(cls, problem: KeyGroupAllocation) -> WholeDistances:
        """In units of a load's unit over the number of kept nodes, so that the mean is the total load."""
        w = problem.workload
        kept, made = int(w.kept.sum()), scaled(w.last_load)
        loads = [kept * int(y) for y in made.values]
        total = int(made.values.sum())
        unit = made.scale * kept * Fraction(float(w.capacity[0]))
        rounding = 2 * made.error * w.key_groups / float(w.capacity[0])
        return cls(unit, [loads] * w.nodes, [loads] * w.nodes, total, total, rounding + problem.rounding)

    @classmethod
    def _rounded(cls, problem: KeyGroupAllocation) -> WholeDistances:
        """In a small unit, loads rounded down in (3) and up in (4)."""
        w = problem.workload
        most = float(w.last_load.sum() / w.capacity.min()) + problem.mean_load
        return cls._in_unit(problem, cls._small_unit(problem, most), w.last_load, problem.mean_load)

    @staticmethod
    def _small_unit(problem: KeyGroupAllocation, most: float) -> Fraction:
        """Units in one load per unit of capacity, of which there are `most` at most."""
        wanted = (problem.workload.key_groups + 2) / (PRECISION * problem.scale)
        return Fraction(2) ** min(math.ceil(math.log2(wanted)), MOST_BITS - math.ceil(math.log2(most or 1.0)))

    @classmethod
    def _in_unit(
        cls, problem: KeyGroupAllocation, unit: Fraction, load: FloatArray, mean_load: float
    ) -> WholeDistances:
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

    @classmethod
    def of_windows(cls, problem: KeyGroupAllocation) -> list[WholeDistances]:
        """Whole numbers for each window of a problem, all in the same unit."""
        w, it = problem.workload, problem.planned
        capacity = w.capacity
        if problem.mean == "exact" and bool((capacity == capacity[0]).all()):
            kept = int(w.kept.sum())
            made = scaled(it.load.ravel(), BITS + it.count.bit_length())
            unit = made.scale * kept * Fraction(float(capacity[0]))
            doubt = 2 * made.error * w.key_groups / float(capacity[0]) + problem.rounding
            found = []
            for row in made.values.reshape(it.load.shape).tolist():
                loads, total = [kept * y for y in row], sum(row)
                found.append(cls(unit, [loads] * w.nodes, [loads] * w.nodes, total, total, doubt))
            return found
        most = float((it.load.sum(axis=1) / capacity.min() + problem.means).max())
        unit = cls._small_unit(problem, most)
        return [cls._in_unit(problem, unit, y, float(mean)) for y, mean in zip(it.load, problem.means, strict=True)]

    @property
    def most(self) -> int:
        """No distance is larger."""
        return max(max(map(sum, self.low)), self.mean_high) + 1

    def units(self, distance: float) -> int:
        """The most that a distance, as floats give it, can be in whole units."""
        return math.floor((Fraction(distance) + Fraction(self.doubt)) * self.unit)

    def distance(self, whole: int) -> float:
        """A float not above any distance of this many whole units, as floats give it."""
        return max(0.0, float(Fraction(max(whole, 0)) / self.unit) * (1 - EPSILON) - self.doubt)

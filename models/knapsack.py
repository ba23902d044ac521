"""A limit on a sum of chosen weights, as solvers need it: never tighter than the check, in numbers that they can hold.

The check adds floats and allows a rounding of its own. A statement must admit whatever the check admits, or it proves
falsehoods; what it admits beyond that is cut off by covers, once it is met. Weights above the limit are left out:
what they weigh would only crowd out the digits of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keyshift.models.integers import BITS, scaled
from keyshift.models.workload import BoolArray, FloatArray, IntArray

ROUNDING = 2.0**-50
"""Relative rounding of one float addition, with room to spare."""


@dataclass(frozen=True, eq=False)
class Knapsack:
    """Chosen weights must not exceed a limit in sum.

    Parameters
    ----------
    weights : ndarray, shape (items,)
        Not negative.
    limit : float
        What the check compares with, its slack included.
    """

    weights: FloatArray
    limit: float

    @cached_property
    def most(self) -> float:
        """The largest true sum that the check can have taken for one within the limit."""
        return self.limit * (1 + ROUNDING * (self.weights.size + 2))

    @cached_property
    def fits(self) -> BoolArray:
        """Whether an item may be chosen at all, shape (items,)."""
        return self.weights <= self.most

    @cached_property
    def binds(self) -> bool:
        """Whether any choice of items that fit exceeds the limit."""
        return math.fsum(self.weights[self.fits]) > self.most

    def whole(self, bits: int = BITS) -> tuple[IntArray, int]:
        """Whole weights, 0 for items that do not fit, and a whole limit: every choice the check admits keeps it."""
        made = scaled(np.where(self.fits, self.weights, 0.0), bits)
        return made.values, made.most(self.most)

    def shares(self) -> FloatArray:
        """Weights as shares of the limit, 0 for items that do not fit: the limit is 1 then."""
        if self.most <= 0:
            return np.zeros(self.weights.size)
        return np.where(self.fits, self.weights, 0.0) / self.most

    def cover(self, chosen: IntArray) -> IntArray:
        """Few of the chosen items that exceed the limit between them, heaviest first; all where no few do."""
        heaviest = chosen[np.argsort(-self.weights[chosen], kind="stable")]
        total = np.cumsum(self.weights[heaviest])
        for size in range(1, heaviest.size):
            if total[size - 1] > self.most * (1 - 2.0**-40) and math.fsum(self.weights[heaviest[:size]]) > self.most:
                return heaviest[:size]
        return heaviest

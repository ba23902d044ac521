"""State sizes as 64-bit whole numbers, so that dynamic programs add and compare without rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keyshift.models.intervals.exact_arithmetic import whole_numbers
from keyshift.models.workload import FloatArray, IntArray

BITS = 52
"""All the state together stays below 2**BITS whole units: exact as a float, with room for sums in an int64."""


@dataclass(frozen=True)
class Weights:
    """Whole weights standing for floats: ``whole * unit`` is within `error` of each of them.

    Attributes
    ----------
    whole : ndarray of int64, shape (m,)
    unit : float
        A power of two.
    error : float
        0 where nothing was rounded.
    """

    whole: IntArray
    unit: float
    error: float

    @property
    def total(self) -> int:
        """All weights together, in whole units."""
        return int(self.whole.sum())

    @property
    def prefix(self) -> IntArray:
        """Prefix sums, shape (m + 1,)."""
        return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(self.whole)))

    def lower(self, whole: int | float, sums: int = 1) -> float:
        """A float that is not above what so many whole units stand for, when `sums` sums of weights make them up."""
        value = float(whole) * self.unit
        return value if self.error == 0.0 else max(0.0, value - sums * self.whole.size * self.error)


def weights(values: FloatArray, bits: int = BITS) -> Weights:
    """Turn state sizes into whole numbers, without rounding where `bits` bits suffice."""
    whole, shift = whole_numbers(values)
    total = float(values.sum())
    room = bits - 1 - (math.frexp(total)[1] if total > 0 else 0)  # total < 2**(bits - 1 - room)
    if not isinstance(whole, list) and shift <= room:
        return Weights(whole, 2.0**-shift, 0.0)
    return Weights(np.rint(np.ldexp(values, room)).astype(np.int64), 2.0**-room, 2.0 ** (-room - 1))

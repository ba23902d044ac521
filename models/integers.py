"""Whole numbers for solvers that know no others: how floats become integers, and what that can cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyshift.models.workload import FloatArray, IntArray

BITS = 36
"""Scaled totals stay below 2**BITS, so that products with node counts fit 64 bits."""


@dataclass(frozen=True)
class Scaled:
    """Integers standing for floats: ``values[k] / scale`` is within `error` of the k-th float."""

    values: IntArray
    scale: Fraction
    error: float

    @property
    def exact(self) -> bool:
        """Whether nothing was rounded."""
        return self.error == 0.0

    def finer(self, bits: int = BITS) -> Scaled:
        """The same numbers in the smallest unit that the bits allow, for models that divide by them."""
        spare = max(0, bits - int(self.values.sum()).bit_length())
        return Scaled(self.values << spare, self.scale * 2**spare, self.error)


def scaled(numbers: FloatArray, bits: int = BITS) -> Scaled:
    """Scale non-negative floats to integers whose sum stays below ``2**bits``, without rounding where possible.

    Floats are fractions with a power of two below: where one such power serves them all within the bits, the
    integers are exact. Decimals such as 0.7 are not, but a power of ten brings them within a rounding error of a
    float. Anything else is rounded to the nearest unit that the bits allow.
    """
    total = math.fsum(numbers)
    if total == 0.0:
        return Scaled(np.zeros(numbers.size, dtype=np.int64), Fraction(1), 0.0)
    room = min(900, bits - math.ceil(math.log2(total)) - 1)  # 2**900 is still a float
    finest = max(Fraction(float(y)).denominator for y in np.unique(numbers))
    if finest.bit_length() - 1 <= room:
        return Scaled((numbers * finest).astype(np.int64), Fraction(finest), 0.0)
    for ten in (10**digits for digits in range(1, 10)):
        if math.log2(ten) > room:
            break
        whole = np.rint(numbers * ten)
        if (error := np.abs(whole / ten - numbers)).max() <= 1e-15 * total:
            return Scaled(whole.astype(np.int64), Fraction(ten), float(error.max()) + 1e-16 * total)
    unit = Fraction(2) ** room
    return Scaled(np.rint(numbers * float(unit)).astype(np.int64), unit, 0.5 / float(unit))

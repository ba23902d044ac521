"""The one place where floats become whole numbers, for solvers and kernels that take integers only, and what it costs.

A float is a fraction with a power of two below. Where one such power serves all numbers within the bits that a
solver has, nothing is rounded; else decimals may keep their digits; else every number is rounded, to the nearest unit
or in a stated direction, and `Scaled.error` says by how much at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.workload import BoolArray, FloatArray, IntArray

BITS = 36
"""Scaled totals stay below 2**BITS, so that products with node counts fit 64 bits."""
WHOLE_BITS = 50
"""Totals of whole numbers in CP-SAT's rows and objectives stay below 2**WHOLE_BITS: with more, presolves err."""
WORD_BITS = 61
"""Sums below 2**WORD_BITS are kept in 64-bit integers; above, in Python's."""

Rounding = Literal["nearest", "down", "up"]
_ROUND = {"nearest": np.rint, "down": np.floor, "up": np.ceil}


@dataclass(frozen=True)
class Scaled:
    """Integers standing for floats: ``values[k] / scale`` is within `error` of the k-th float.

    Attributes
    ----------
    values : ndarray of int64
    scale : Fraction
        Whole units in one of the floats' own.
    error : float
        0 where nothing was rounded.
    below : bool
        Whether what was rounded was rounded down: no sum of the integers stands for more than the floats' own.
    """

    values: IntArray
    scale: Fraction
    error: float
    below: bool = False

    @property
    def exact(self) -> bool:
        """Whether nothing was rounded."""
        return self.error == 0.0

    @property
    def unit(self) -> float:
        """The size of one whole unit: a power of two, unless decimals kept their digits."""
        return float(1 / self.scale)

    @property
    def total(self) -> int:
        """All of them together, in whole units."""
        return int(self.values.sum())

    @property
    def prefix(self) -> IntArray:
        """Prefix sums, shape (m + 1,)."""
        return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(self.values)))

    def finer(self, bits: int = BITS) -> Scaled:
        """The same numbers in the smallest unit that the bits allow, for models that divide by them."""
        spare = max(0, bits - self.total.bit_length())
        return replace(self, values=self.values << spare, scale=self.scale * 2**spare)

    def coarsest(self) -> Scaled:
        """The same numbers in the largest unit that divides them all: the smallest integers there are."""
        divisor = int(np.gcd.reduce(self.values)) or 1
        return replace(self, values=self.values // divisor, scale=self.scale / divisor)

    def lower(self, whole: int | float, terms: int | None = None) -> float:
        """A float not above what `whole` units stand for when at most this many of the numbers make them up.

        By default each of them once. Never negative, as the numbers are not.
        """
        value = float(Fraction(whole) / self.scale)
        if self.exact or self.below:
            return value
        return max(0.0, value - (self.values.size if terms is None else terms) * self.error)

    def upper(self, whole: int | float, terms: int | None = None) -> float:
        """A float not below what `whole` units stand for when at most this many of the numbers make them up."""
        value = float(Fraction(whole) / self.scale)
        return value if self.exact else value + (self.values.size if terms is None else terms) * self.error

    def most(self, limit: float, terms: int | None = None) -> int:
        """A whole limit that no choice of at most this many numbers exceeds if its true sum is within `limit`.

        Exact where nothing was rounded; otherwise as many units more as rounding can have added.
        """
        allowed = Fraction(limit) + (0 if self.exact else Fraction(self.error) * (terms or self.values.size))
        return math.floor(allowed * self.scale)


def scaled(
    numbers: FloatArray, bits: int = BITS, *, rounding: Rounding = "nearest", decimals: bool = True, whole: int = 0
) -> Scaled:
    """Scale non-negative floats to integers whose sum stays below ``2**bits``, without rounding where possible.

    Parameters
    ----------
    numbers : ndarray
        Finite, >= 0.
    bits : int
        Up to 62.
    rounding : {"nearest", "down", "up"}
        Where rounding cannot be avoided. "down" never exceeds a true sum, "up" never falls below one.
    decimals : bool
        Whether decimals such as 0.7, which no power of two makes whole, may be read as the decimals they print as:
        the unit is a power of ten then, and what that rounds is less than a float's own rounding.
    whole : int
        So many bits are taken where the numbers are whole and need them.

    Raises
    ------
    InputError
        Where numbers are too large for a float's sum.
    """
    numbers = np.asarray(numbers, dtype=np.float64)
    total = _sum(numbers)
    if total == 0.0:
        return Scaled(np.zeros(numbers.size, dtype=np.int64), Fraction(1), 0.0)
    # 2**900 is still a float.
    room = min(900, bits - 1 - math.frexp(total)[1])  # total < 2**(bits - 1 - room)
    if room >= 0 and total < 2.0**53 and bool((numbers == np.floor(numbers)).all()):
        return Scaled(numbers.astype(np.int64), Fraction(1), 0.0)
    needed = exact_shift(numbers)
    room = max(room, min(whole - 1 - math.frexp(total)[1], 0)) if needed <= 0 else room
    if needed <= room:
        shift = max(needed, min(0, room))  # units above 1 only where units of 1 do not fit
        return Scaled(np.ldexp(numbers, shift).astype(np.int64), Fraction(2) ** shift, 0.0)
    if decimals and rounding == "nearest" and (made := _decimal(numbers, total, room)) is not None:
        return made
    made_whole = _ROUND[rounding](np.ldexp(numbers, room))
    if rounding == "up":
        # Shifting may make nothing of the least floats.
        made_whole = np.where(numbers > 0, np.maximum(made_whole, 1.0), 0.0)
    most = math.ldexp(0.5 if rounding == "nearest" else 1.0, -room)
    return Scaled(made_whole.astype(np.int64), Fraction(2) ** room, most, rounding == "down")


def _decimal(numbers: FloatArray, total: float, room: int) -> Scaled | None:
    # Decimals of this many digits after the point are tried.
    for ten in (10**digits for digits in range(1, 16)):
        if math.log2(ten) > room:
            return None
        whole = np.rint(numbers * ten)
        if (error := np.abs(whole / ten - numbers)).max() <= 1e-15 * total:
            # The quotient itself is rounded, by up to 2**-53 of it.
            return Scaled(whole.astype(np.int64), Fraction(ten), float(error.max()) + 2.0**-52 * total)
    return None


def capped(numbers: FloatArray, most: float) -> FloatArray:
    """The numbers, with those above `most` lowered to just above it, so that the others keep more bits.

    Where a sum of the numbers is to be least and one of value `most` is known, no better sum holds a number above it:
    the same sums are least afterwards, and those up to `most` keep their values.
    """
    above = most * (1 + 2.0**-10)  # few bits: a cap must not be the reason for rounding
    digits, exponent = math.frexp(above)
    above = math.ldexp(math.ceil(digits * 2.0**16), exponent - 16)
    return np.minimum(numbers, above)


def exact_shift(values: FloatArray) -> int:
    """The least shift, possibly negative, for which ``values * 2**shift`` are all whole; 0 where all are 0."""
    mantissa, exponent = np.frexp(values[values > 0])
    if mantissa.size == 0:
        return 0
    digits = (mantissa * 2.0**53).astype(np.int64)
    trailing = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    return 53 - int((exponent + trailing).min())


def whole_numbers(values: FloatArray) -> tuple[IntArray | list[int], int]:
    """Floats as whole numbers, never rounded: ``values[k] == whole[k] / 2**shift``, for the least shift >= 0.

    Returns
    -------
    whole : ndarray of int64, or list of int where their sum needs more than `WORD_BITS` bits
    shift : int
    """
    total = _sum(values)
    if total < 2.0**53 and bool((values == np.floor(values)).all()):
        return values.astype(np.int64), 0
    shift = max(0, exact_shift(values))
    if math.log2(total) + shift < WORD_BITS - 1:
        return np.ldexp(values, shift).astype(np.int64), shift
    mantissa, exponent = np.frexp(values)
    digits, places = (mantissa * 2.0**53).astype(np.int64).tolist(), (exponent - 53 + shift).tolist()
    return [d << s if s >= 0 else d >> -s for d, s in zip(digits, places, strict=True)], shift


def _sum(values: FloatArray) -> float:
    with np.errstate(over="ignore"):
        total = float(values.sum())
    if not math.isfinite(total):
        raise InputError(f"the numbers sum to more than a float can hold (the largest is {values.max():g})")
    return total


# A limit on a sum of chosen weights, as solvers need it ----------------------------------------------------------------

ROUNDING = 2.0**-50
"""Relative rounding of one float addition, with room to spare."""


@dataclass(frozen=True, eq=False)
class Knapsack:
    """Chosen weights must not exceed a limit in sum: never tighter than the check, in numbers that solvers can hold.

    The check adds floats and allows a rounding of its own. A statement must admit all that the check admits, or it proves
    falsehoods; what it admits beyond that is cut off by covers, once it is met. Weights above the limit are left out:
    what they weigh would only crowd out the digits of the others.

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

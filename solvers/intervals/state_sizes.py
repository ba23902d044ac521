"""State sizes as 64-bit whole numbers, so that dynamic programs add and compare without rounding."""

from __future__ import annotations

from keyshift.models.integers import Scaled, scaled
from keyshift.models.workload import FloatArray

BITS = 52
"""All the state together stays below 2**BITS whole units: exact as a float, with room for sums in an int64."""


def weights(values: FloatArray, bits: int = BITS) -> Scaled:
    """Turn state sizes into whole numbers; a unit is a power of two.

    Nothing is rounded where `bits` bits suffice. Otherwise everything is rounded down, so that the least whole state
    moved is a lower bound as it stands.
    """
    return scaled(values, bits, rounding="down", decimals=False)

"""The loop of the discretisation, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from keyshift.models.routing import hlhe_step

_representative = njit(cache=True)(hlhe_step.representative)


@njit(cache=True)
def discretise(values, degree):
    """Representatives of values >= 1 given in descending order."""
    top = max(np.floor(values[0] / degree), 1.0) * degree
    made = np.empty(values.size)
    deviation = 0.0
    for i in range(values.size):
        made[i] = _representative(values[i], deviation, float(degree), top)
        deviation += values[i] - made[i]
    return made


@njit(cache=True)
def discretise_counts(values, counts, degree):
    """As `discretise` on a distribution: `counts[i]` keys of `values[i]`, values >= 1 in descending order.

    Returns the smaller and the larger representative of each value's keys, and how many take the larger one: what
    `discretise` chooses for the keys one after the other. O(keys).
    """
    top = max(np.floor(values[0] / degree), 1.0) * degree
    lows, highs = np.empty(values.size), np.empty(values.size)
    upper = np.zeros(values.size, dtype=np.int64)
    deviation = 0.0
    for i in range(values.size):
        x = values[i]
        low = high = _representative(x, deviation, float(degree), top)
        above = 0  # keys whose representative is the larger of two
        for taken in range(counts[i]):
            chosen = _representative(x, deviation, float(degree), top)
            if chosen > high:
                high, above = chosen, 0
            elif chosen < low:
                low, above = chosen, taken
            if chosen == x:
                if low < high:
                    above += (counts[i] - taken) * (chosen == high)
                break  # the deviation stays, and so all others of this value choose the same
            above += low < high and chosen == high
            deviation += x - chosen
        lows[i], highs[i], upper[i] = low, high, above
    return lows, highs, upper

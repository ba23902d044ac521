"""The loops of the HLHE discretisation, compiled."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit


@njit(cache=True)
def representative(x, deviation, degree, top):
    """The value that stands for x, in units of the smallest positive value, when values come in descending order.

    Representatives are top = s*R, ..., 2R, R, R/2, ..., 2, 1. Of the one below (or at) x and the one above it, take the
    one that leaves the smaller accumulated deviation; ties go below. Zero stays zero; nothing goes above `top`.
    """
    if x >= top:
        return top
    if x == 0.0:
        return 0.0
    if x >= degree:
        low = x // degree * degree
        high = low + degree
    else:
        low = 1.0
        while 2.0 * low <= x:
            low *= 2.0
        high = 2.0 * low
    return high if abs(deviation + x - high) < abs(deviation + x - low) else low


@njit(cache=True)
def discretise(values, degree):
    """Representatives of values >= 1 given in descending order."""
    top = max(np.floor(values[0] / degree), 1.0) * degree
    made = np.empty(values.size)
    deviation = 0.0
    for i in range(values.size):
        made[i] = representative(values[i], deviation, float(degree), top)
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
        low = high = representative(x, deviation, float(degree), top)
        above = 0  # keys whose representative is the larger of two
        for taken in range(counts[i]):
            chosen = representative(x, deviation, float(degree), top)
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

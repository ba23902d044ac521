"""The loop of the discretisation, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def discretise(values, degree):
    """Representatives of values >= 1 given in descending order."""
    top = max(np.floor(values[0] / degree), 1.0) * degree
    made = np.empty(values.size)
    deviation = 0.0
    for i in range(values.size):
        x = values[i]
        if x >= top:
            chosen = top
        else:
            if x >= degree:
                low = np.floor(x / degree) * degree
                high = low + degree
            else:
                low = 1.0
                while 2 * low <= x:
                    low *= 2
                high = 2 * low
            chosen = high if abs(deviation + x - high) < abs(deviation + x - low) else low
        deviation += x - chosen
        made[i] = chosen
    return made


@njit(cache=True)
def discretise_counts(values, counts, degree):
    """As `discretise` on a distribution: `counts[i]` keys of `values[i]`, values >= 1 in descending order.

    Returns the two neighbours of each value, and how many of its keys take the upper one: what `discretise` chooses for
    the keys one after the other. O(keys).
    """
    top = max(np.floor(values[0] / degree), 1.0) * degree
    lows, highs = np.empty(values.size), np.empty(values.size)
    upper = np.zeros(values.size, dtype=np.int64)
    deviation = 0.0
    for i in range(values.size):
        x = values[i]
        if x >= top:
            low = high = top
        elif x >= degree:
            low = np.floor(x / degree) * degree
            high = low + degree
        else:
            low = 1.0
            while 2 * low <= x:
                low *= 2
            high = 2 * low
        lows[i], highs[i] = low, high
        if low == high:
            deviation += (x - low) * counts[i]
            continue
        for _ in range(counts[i]):
            above = abs(deviation + x - high) < abs(deviation + x - low)
            if not above and low == x:
                break  # and so will all others of this value
            deviation += x - (high if above else low)
            upper[i] += above
    return lows, highs, upper

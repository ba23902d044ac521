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

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

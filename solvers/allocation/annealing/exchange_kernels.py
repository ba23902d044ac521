"""The Numba kernel that joins two halves of an exchange: see `keyshift.solvers.allocation.annealing.exchanges`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import njit
from keyshift.models.workload import BoolArray, FloatArray


class Ways(NamedTuple):
    """Ways to share out some key groups: the load that the first node and the second get, and what all cost more."""

    first: FloatArray
    second: FloatArray
    cost: FloatArray


class ThreeNodes(NamedTuple):
    """Three nodes: their deviations, weights, and which are draining, shape (3,) each."""

    dev: FloatArray
    weight: FloatArray
    draining: BoolArray


@njit(cache=True, error_model="numpy")
def nearest(some, others, three, value, spare):
    """The way of `some` and that of `others`, ascending by `first`, that together leave the least largest value.

    Nothing with a value of at least `value` or a cost above `spare` counts; returns the value and the two places, -1 for none.
    """
    one, two = -1, -1
    dev, weight = three.dev, three.weight
    for a in range(some.first.size):
        base = dev[0] + some.first[a] * weight[0]
        most = (value - base) / weight[0]
        least = -np.inf if three.draining[0] else (-value - base) / weight[0]
        b = int(np.searchsorted(others.first, least))
        while b < others.first.size and others.first[b] <= most:
            first, second = some.first[a] + others.first[b], some.second[a] + others.second[b]
            worst = 0.0
            for i in range(3):
                load = first if i == 0 else second if i == 1 else -first - second
                v = dev[i] + load * weight[i]
                worst = max(worst, v if three.draining[i] else abs(v))
            if worst < value and some.cost[a] + others.cost[b] <= spare:
                value, one, two = worst, a, b
            b += 1
    return value, one, two

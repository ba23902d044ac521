"""The values that the state moved can have."""

from __future__ import annotations

import math

import numpy as np

from keyshift.models.integers import scaled
from keyshift.models.routing import MixedRouting


def on_grid(problem: MixedRouting, bound: float) -> float:
    """Round a bound up to the next value the objective can have: states that are multiples of a unit sum to one."""
    whole = scaled(problem.workload.state)
    if not whole.exact or bound <= 0:
        return max(bound, 0.0)
    unit = math.gcd(*np.unique(whole.values).tolist())
    if unit == 0:
        return 0.0
    from fractions import Fraction

    step = Fraction(unit) / whole.scale
    return float(math.ceil(Fraction(bound) / step) * step)

"""Half-linear, half-exponential discretisation of loads and states ([Fang2016], section IV-B)."""

from __future__ import annotations

import numpy as np

from keyshift.models.base.compiling import njit
from keyshift.models.errors import InputError
from keyshift.models.routing.compact import CompactKeys, compact, with_means
from keyshift.models.workload import FloatArray, Workload


def hlhe(values: FloatArray, degree: int, *, printed: bool = False) -> FloatArray:
    r"""Replace each value by a representative, so that the sum over all of them hardly changes.

    Representatives are :math:`sR, \dots, 2R, R, R/2, \dots, 2, 1` with :math:`s = \lfloor \max / R \rfloor`, in units
    of the smallest positive value. In descending order, each value takes one of its two neighbours (the largest
    representative <= it, and the next larger one), whichever leaves the smaller accumulated deviation; ties go to the
    smaller one. A value above the largest representative takes that one. O(p log p).

    Departures from the print: zeros (keys without load in the last window) stay zeros; and when the largest value is
    below R, so that s = 0, R itself is the first representative - as printed, everything above R/2 would become R/2.

    Parameters
    ----------
    values : ndarray, shape (p,)
    degree : int
        R, a power of two; R = 1 keeps whole numbers (in units of the smallest) as they are.
    printed : bool, default False
        The rule as printed: the larger neighbour where the accumulated deviation is positive, else the smaller one. On the
        paper's own ten values it ends at -1, where the text has 0.
    """
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"the degree of discretisation R = {degree} must be a power of two")
    made = np.zeros(values.size)
    order = np.argsort(-values, kind="stable")
    order = order[: int(np.count_nonzero(values))]
    if order.size:
        unit = values[order[-1]]
        made[order] = discretise(values[order] / unit, degree, printed) * unit
    return made


def discretised(workload: Workload, degree: int, *, printed: bool = False) -> CompactKeys:
    """Records of keys alike after discretising load and state; see `hlhe`.

    Parameters
    ----------
    degree : int
        R, a power of two.
    printed : bool, default False
        Whether a record carries the representatives, chosen by the printed rule, as in the paper. HLHE keeps the sum
        over all keys right, not the sum over those that a plan moves: these are picked by their values. So by default
        (our departure) a record carries the mean of its keys' true values; node loads are then exact before the plan,
        and nearly so after it.
    """
    load, state = (hlhe(values, degree, printed=printed) for values in (workload.last_load, workload.state))
    keys = compact(workload, load, state)
    return keys if printed else with_means(keys, workload)


# The loops of the HLHE discretisation, compiled ------------------------------------------------------------------------


@njit(cache=True)
def representative(x, deviation, degree, top, printed=False):
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
    if printed:
        return high if deviation > 0.0 else low
    return high if abs(deviation + x - high) < abs(deviation + x - low) else low


@njit(cache=True)
def discretise(values, degree, printed=False):
    """Representatives of values >= 1 given in descending order."""
    top = max(np.floor(values[0] / degree), 1.0) * degree
    made = np.empty(values.size)
    deviation = 0.0
    for i in range(values.size):
        made[i] = representative(values[i], deviation, float(degree), top, printed)
        deviation += values[i] - made[i]
    return made

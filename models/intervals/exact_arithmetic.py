"""Exact arithmetic for load tests: floats as whole numbers, prefix sums, limits, and what they allow.

Positions 0..m lie between the m tasks; an interval of tasks is [a, b) with 0 <= a <= b <= m.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from keyshift.models.base.guards import fraction, whole
from keyshift.models.base.integers import whole_numbers
from keyshift.models.base.names import Names
from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray, IntArray


def exact_number(name: str, value: Any) -> Fraction:
    """Read a finite number >= 0 exactly: a float means the decimal it prints as, so 0.3 is 3/10.

    The float nearest to 0.3 lies below it, and a node that is filled exactly to 1.3 times the mean would fail by it.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction | np.number):
        raise InputError(f"{name} = {value!r} must be a number")
    if isinstance(value, str):
        value = fraction(name, value)
    try:
        number = Fraction(value) if isinstance(value, int | Fraction) else Fraction(repr(float(value)))
    except ValueError:
        raise InputError(f"{name} = {value!r} must be a finite number") from None
    if number < 0:
        raise InputError(f"{name} = {value} must be at least 0")
    return number


def read_count(name: str, value: Any) -> int:
    """Read a number of nodes, >= 1, also as the text that JSON, headers of CSV and the shell make of it."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, str) and number.strip().isdecimal() and len(number) < 20:
        number = int(number)
    return whole(name, number, least=1, optional=False)


class Prefix:
    """Prefix sums of the tasks' loads, exactly, and the questions about them that a load limit raises.

    Parameters
    ----------
    load : ndarray, shape (m,)
        Loads >= 0. Whole units are ``load * 2**shift``.
    """

    def __init__(self, load: FloatArray) -> None:
        numbers, self.shift = whole_numbers(load)
        self.tasks = load.size
        self.heaviest = int(max(numbers))
        self.sums: IntArray | list[int]
        if isinstance(numbers, list):
            self.sums = list(accumulate(numbers, initial=0))
        else:
            self.sums = np.concatenate(([0], np.cumsum(numbers)))

    @property
    def total(self) -> int:
        """Load of all tasks, in whole units."""
        return int(self.sums[-1])

    @cached_property
    def _search(self) -> Sequence[int]:
        return self.sums if isinstance(self.sums, list) else self.sums.tolist()

    def limit(self, tau: Fraction, nodes: int) -> int:
        """The largest whole load that does not exceed (1 + tau) * total / nodes."""
        return math.floor((1 + tau) * self.total / nodes)

    def in_units(self, whole: int) -> float:
        """Whole units back in the load's own."""
        return float(Fraction(whole, 2**self.shift))

    def starts(self, limit: int) -> IntArray:
        """For every position x the leftmost start of an interval [start, x) within the limit, shape (m + 1,).

        It is x itself where already task x - 1 alone exceeds the limit.
        """
        if isinstance(self.sums, list):
            return np.array([bisect_left(self.sums, s - limit) for s in self.sums], dtype=np.int64)
        return np.searchsorted(self.sums, self.sums - min(limit, self.total), side="left").astype(np.int64)

    def reach(self, position: int, limit: int) -> int:
        """The rightmost end of an interval [position, end) within the limit; position itself if there is none."""
        return bisect_right(self._search, self._search[position] + limit) - 1

    def least_intervals(self, limit: int, most: int) -> tuple[int, int]:
        """Cut greedily from the left, at most this many times: (intervals used, position reached)."""
        position = used = 0
        while position < self.tasks and used < most:
            further = self.reach(position, limit)
            if further == position:
                break
            position, used = further, used + 1
        return used, position

    def least_limit(self, intervals: int) -> int:
        """The smallest limit under which this many intervals cover all tasks (bisection over whole numbers)."""
        low, high = max(self.heaviest, -(-self.total // intervals)), self.total
        while low < high:
            middle = (low + high) // 2
            if self.least_intervals(middle, intervals)[1] == self.tasks:
                high = middle
            else:
                low = middle + 1
        return low

    def smallest_tau(self, nodes: int) -> Fraction:
        """The smallest tau >= 0 for which this many nodes can carry all tasks in intervals."""
        if self.total == 0:
            return Fraction(0)
        return max(Fraction(0), Fraction(self.least_limit(nodes) * nodes, self.total) - 1)

    def conflict(self, tau: Fraction, nodes: int, names: Names) -> str | None:
        """Why this many nodes cannot carry all tasks: the task or the prefix that blocks; None when they can."""
        limit = self.limit(tau, nodes)
        _, position = self.least_intervals(limit, nodes)
        if position == self.tasks:
            return None
        allowed = f"a node may carry {float((1 + tau) * self.total / nodes / 2**self.shift):g}"
        if self.heaviest > limit:
            k = next(k for k in range(self.tasks) if self.sums[k + 1] - self.sums[k] > limit)
            blocked = f"task {names[k]} alone has load {self.in_units(int(self.sums[k + 1] - self.sums[k])):g}"
        else:
            s = "s" * (nodes != 1)
            carried = f"tasks {names[0]} to {names[position - 1]} of {self.tasks}"
            blocked = f"{nodes} node{s} filled in order carry {carried} and no more"
        needed = decimal_above(self.smallest_tau(nodes))
        return f"{allowed} at tau = {float(tau):g}, but {blocked}; the smallest feasible tau is {needed}"


def decimal_above(number: Fraction) -> str:
    """A short decimal that is not below the fraction, with the fraction where it is not the same."""
    above = Fraction(math.ceil(number * 10**6), 10**6)
    shown = f"{float(above):.6f}".rstrip("0").rstrip(".")
    exactly = f" (exactly {number})" if above != number and number.denominator < 10**6 else ""
    return f"{shown}{exactly}"

"""Aggregation over the windows in CP-SAT: the rules of `keyshift.models.objectives` in whole numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ortools.sat.python import cp_model

from keyshift.models.objectives import PlannedWindows

MOST_PARTS, WEIGHT_BITS, MOST_BITS = 1000, 30, 60
"""Weights of windows that are fractions of at most MOST_PARTS parts become whole exactly; the others are rounded down to
2**WEIGHT_BITS parts, or fewer, so that with values the objective stays below 2**MOST_BITS."""


def combine(model: cp_model.CpModel, it: PlannedWindows, values: Sequence[Any], largest: int) -> tuple[Any, int]:
    """Add the rows; the combined value in whole units of value times whole units of weight, and the latter's number.

    Weights are rounded down: the sum exceeds no combined value. Of one window it is its own.

    Parameters
    ----------
    model : CpModel
    it : PlannedWindows
    values : sequence of expressions, one for each window
    largest : int
        What no value exceeds.
    """
    if len(values) == 1:
        return values[0], 1
    t = model.new_int_var(0, largest, "worst" if it.over == "max" else "t")
    if it.over == "max":
        for s, value in enumerate(values):
            model.add(value <= t).with_name(f"worst[s{s}]")
        return t, 1
    whole, one = whole_weights(it, largest)
    cvar = model.new_int_var(0, one * largest, "cvar")
    if it.over == "mean":
        return sum(weight * value for weight, value in zip(whole, values, strict=True)), one
    # Up to so many windows CVaR is the largest of all weighted sums that it may be: CP-SAT is slow to find its t.
    if it.count <= 8:
        for number, row in enumerate(extreme_weights(whole, one)):
            together = sum(weight * value for weight, value in zip(row, values, strict=True))
            model.add(together <= cvar).with_name(f"cvar[{number}]")
        return cvar, one
    above = [model.new_int_var(0, largest, f"excess[s{s}]") for s in range(it.count)]
    for s, value in enumerate(values):
        model.add(value <= t + above[s]).with_name(f"above[s{s}]")
    return one * t + sum(weight * excess for weight, excess in zip(whole, above, strict=True)), one


def whole_weights(it: PlannedWindows, largest: int) -> tuple[list[int], int]:
    """The weights of the rule in whole numbers, none above its own, and what 1 is among them."""
    bits = max(1, min(WEIGHT_BITS, MOST_BITS - largest.bit_length() - it.count.bit_length()))
    most = it.most.tolist()
    simple = [Fraction(share).limit_denominator(MOST_PARTS) for share in most]
    one = math.lcm(*(share.denominator for share in simple))
    if one.bit_length() <= bits and all(abs(float(a) - b) <= 2.0**-50 * b for a, b in zip(simple, most, strict=True)):
        return [int(share * one) for share in simple], one
    return [math.floor(share * 2**bits) for share in most], 2**bits


def extreme_weights(most: list[int], one: int) -> list[list[int]]:
    """The corners of the weights w with 0 <= w <= most that sum to one, in whole numbers: all full but one of them."""
    found = []
    for size in range(len(most) + 1):
        for full in itertools.combinations(range(len(most)), size):
            rest = one - sum(most[s] for s in full)
            row = [share if s in full else 0 for s, share in enumerate(most)]
            if rest == 0 or (rest > 0 and size == len(most)):
                found.append(row)
            elif rest > 0:
                others = [s for s in range(len(most)) if s not in full and most[s] > rest]
                found += [[*row[:s], rest, *row[s + 1 :]] for s in others]
    return found

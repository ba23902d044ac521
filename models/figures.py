"""Numbers as people read them: one way everywhere on the shell, in messages and in reports."""

from __future__ import annotations

import math
from typing import Any

NOTHING = 1e-9
"""Less than this share of a natural unit is shown as 0: it is rounding error."""
LEAST = 1e-12
"""Less than this is shown as 0 where no natural unit is known."""


def figure(value: Any, scale: float = 0.0, digits: int = 6) -> str:
    """A number for people: a dash where there is none, 0 for what is only rounding error.

    Parameters
    ----------
    value : real number or None
    scale : float
        A natural unit, such as the mean load of a node; 0 where there is none.
    digits : int
        Significant digits of what is not a whole number.

    >>> figure(1.9999999999999996), figure(9.98e-13), figure(None), figure(1234567.8), figure(3e-9)
    ('2', '0', '-', '1,234,568', '3e-09')
    """
    if value is None:
        return "-"
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    if abs(number) <= (NOTHING * scale or LEAST):
        return "0"
    if abs(number) < 1e15 and (number.is_integer() or abs(number) >= 10**digits):
        return f"{number:,.0f}"
    return f"{number:,.{digits}g}"


def signed(value: float, scale: float = 0.0, digits: int = 4) -> str:
    """A gain or a loss: with its sign, 0 without."""
    said = figure(value, scale, digits)
    return said if said.startswith("-") or said == "0" else f"+{said}"


def percent(share: float | None) -> str:
    """A relative gap for people; a dash where it is undefined.

    >>> percent(2.2e-16), percent(0.031), percent(0.25)
    ('0 %', '3.1 %', '25.0 %')
    """
    if share is None:
        return "-"
    if abs(share) <= NOTHING:
        return "0 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.1f} %"

"""Numbers as people read them: one way everywhere on the shell, in messages and in reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Literal

NOTHING = 1e-9
"""Less than this share of a natural unit is shown as 0: it is rounding error."""


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
    # Less than this is shown as 0 where no natural unit is known.
    if abs(number) <= (NOTHING * scale or 1e-12):
        return "0"
    if abs(number) < 1e15 and (number.is_integer() or abs(number) >= 10**digits):
        return f"{number:,.0f}"
    return f"{number:,.{digits}g}"


BYTES = ("bytes", "KB", "MB", "GB", "TB", "PB")


def quantity(value: Any, unit: str = "", scale: float = 0.0, digits: int = 6) -> str:
    """A number with its unit; bytes as KB, MB, GB and so on, powers of 1000; also of units such as KB/s.

    >>> quantity(117_200_032_384, "bytes", digits=4), quantity(0, "bytes"), quantity(12.5, "messages/s"), quantity(3)
    ('117.2 GB', '0 bytes', '12.5 messages/s', '3')
    """
    of, per, time = unit.partition("/")
    if value is not None and of in BYTES and math.isfinite(value) and abs(value) >= 1000:
        value = float(f"{value:.4g}")  # 999,999.9 bytes are 1 MB
        power = min(int(math.log10(abs(value)) / 3 + 1e-12), len(BYTES) - 1 - BYTES.index(of))
        value, digits, unit = value / 1000**power, min(digits, 4), BYTES[BYTES.index(of) + power] + per + time
    said = figure(value, scale, digits)
    return f"{said} {unit}" if unit and value is not None else said


def compact(unit: str) -> str:
    """The unit if every number needs its own, as bytes do (MB, GB); otherwise nothing, since the heading names it once."""
    return unit if unit.partition("/")[0] in BYTES else ""


def enough(value: float | Fraction, side: Literal["up", "down"], digits: int = 6) -> str:
    """A number to type in, rounded in the direction in which it still suffices.

    >>> enough(Fraction(1, 17), "up"), enough(Fraction(100, 3), "down"), enough(12345678.5, "up"), enough(0.2, "up")
    ('0.0588236', '33.3333', '12345679', '0.2')
    """
    if not math.isfinite(value):
        return str(value)
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)  # a float is what it prints as
    if exact.denominator == 1 and abs(exact) < 10**15:
        return str(exact)
    rounded = ROUND_CEILING if side == "up" else ROUND_FLOOR
    places = max(digits, len(str(abs(exact.numerator) // exact.denominator)))
    shown = Context(prec=places, rounding=rounded).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return f"{shown.normalize():f}" if 1e-4 <= abs(exact) < 1e15 else f"{shown.normalize():e}"


def float_above(value: float | Fraction) -> float:
    """The least float that prints as no less than a number."""
    found = float(value)
    return (
        math.nextafter(found, math.inf) if math.isfinite(found) and Fraction(repr(found)) < Fraction(value) else found
    )


def plain(value: Any, digits: int = 6) -> str:
    """A number in a message, in as few digits as possible, six at most."""
    return f"{value:.{digits}g}"


def apart(*values: Any, shown: Callable[..., str] = plain) -> list[str]:
    """Numbers of one message, with enough digits to tell different ones apart.

    >>> apart(2.0000004, 2), apart(1234567.0, 1234568.0), apart(0.25, 3)
    (['2.0000004', '2'], ['1234567', '1234568'], ['0.25', '3'])
    """
    different = len(set(values))
    for digits in range(6, 18):
        told = [shown(value, digits=digits) for value in values]
        if len(set(told)) >= different:
            break
    return told


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

"""Sums that do not depend on the order in which Spark adds.

A double is rounded to a multiple of 2**-44 (6e-14) and split in two whole numbers, ``x = high / 2**10 + low / 2**44``
with ``|low| <= 2**33``. Whole numbers add up exactly in any order, so the same log gives the same bytes on any number
of executors, in one batch or in many. Whole costs need one number and are not rounded at all.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from keyshift.spark_stats.statistics_files import HIGH, LOW

LARGEST = 2.0**43
"""Largest cost or state of one tuple: with it 1,024 tuples still fit a 64-bit sum; an overflow stops the job."""


def split(value: Column, *, whole: bool) -> list[Column]:
    """Return the whole numbers that stand for a value: one if it is whole, else the high and the low one."""
    if whole:
        return [value.cast("long")]
    high = F.rint(value * HIGH)
    return [high.cast("long"), F.rint((value - high / HIGH) * LOW).cast("long")]


def joined(sums: list[Column]) -> Column:
    """Return the sum as a double, from the sums of the whole numbers."""
    if len(sums) == 1:
        return sums[0].cast("double")
    return sums[0].cast("double") / HIGH + sums[1].cast("double") / LOW


def three(sums: list[Column]) -> tuple[Column, Column, Column]:
    """Return (whole, high, low), so that whole and fractional sums fit one table."""
    nothing = F.lit(0).cast("long")
    return (sums[0], nothing, nothing) if len(sums) == 1 else (nothing, sums[0], sums[1])


def joined_three(whole: Column, high: Column, low: Column) -> Column:
    """Return the value of (whole, high, low) as a double."""
    return whole.cast("double") + (high.cast("double") / HIGH + low.cast("double") / LOW)

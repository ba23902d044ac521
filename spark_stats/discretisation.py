"""HLHE discretisation ([Fang2016], section IV-B) of the values of millions of keys, in Spark.

The paper takes the keys one after the other, in descending order of their values. Which neighbour a key takes depends
on the keys before it only through the accumulated deviation, and keys of the same value are alike: so the distribution
- the different values, and how many keys have each - is enough. Spark counts it; the keys never leave Spark.

Which of the keys of one value take the upper neighbour is free. Here every node's keys do so in the same proportion,
so that the deviation is spread over the nodes as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.models.routing.hlhe import discretise_counts
from keyshift.spark_stats.facts import rows_of

if TYPE_CHECKING:
    import pandas as pd

TOO_MANY_VALUES = (
    "load and state have more than {most} different values, too many for the driver: round the expressions (round(x, 2)), or "
    "count in larger units"
)


def check_degree(degree: int) -> None:
    """Refuse an R that is no power of two."""
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"the degree of discretisation R = {degree} must be a power of two")


def compacted(keys: DataFrame, degree: int, max_rows: int) -> pd.DataFrame:
    """Return the compact records of keys with a home; see `Keys.compact`."""
    check_degree(degree)
    made = discretised(discretised(distribution(keys), "load", degree), "state", degree)
    if len(made) > max_rows:
        raise InputError(f"{len(made)} records are more than max_rows = {max_rows}: take a larger degree")
    made = made.sort_values(["home", "load", "state"], ascending=[True, False, False], ignore_index=True)
    made.insert(0, "node", made["home"])
    made.insert(0, "planned", made["home"])
    return made


def distribution(keys: DataFrame) -> pd.DataFrame:
    """How many keys have each home, load and state: home, load, state, count, in ascending order.

    Raises
    ------
    InputError
        More than two million rows, of 32 bytes each.
    """
    counted = keys.groupBy("home", "load", "state").agg(F.count(F.lit(1)).alias("count"))
    return rows_of(counted, 2_000_000, TOO_MANY_VALUES).sort_values(["home", "load", "state"], ignore_index=True)


def discretised(found: pd.DataFrame, name: str, degree: int) -> pd.DataFrame:
    """Put HLHE's representatives for the values of a column of a distribution; zeros stay."""
    values, which = np.unique(found[name].to_numpy(dtype=float), return_inverse=True)
    counts = found["count"].to_numpy(dtype=np.int64)
    keys = np.zeros(values.size, dtype=np.int64)
    np.add.at(keys, which, counts)
    low, high, upper = values.copy(), values.copy(), np.zeros_like(keys)
    at = np.flatnonzero(values > 0)[::-1]  # descending
    if at.size:
        unit = values[at[-1]]
        low[at], high[at], upper[at] = discretise_counts(values[at] / unit, keys[at], degree)
        low[at] *= unit
        high[at] *= unit
    order = np.argsort(which, kind="stable")
    until = np.cumsum(counts[order]) - (np.cumsum(keys) - keys)[which[order]]  # of one value, so far
    taken = np.empty_like(counts)
    taken[order] = until * upper[which[order]] // keys[which[order]]
    taken[order] -= (until - counts[order]) * upper[which[order]] // keys[which[order]]
    above = found.assign(**{name: high[which], "count": taken})
    below = found.assign(**{name: low[which], "count": counts - taken})
    from pandas import concat

    whole = concat([above, below], ignore_index=True).query("count > 0")
    return whole.groupby(["home", "load", "state"])[["count"]].sum().reset_index()


def rung(value: Column, degree: int, least: float, most: float) -> Column:
    """The largest of HLHE's representatives that is not above a value, in units of `least`, the smallest positive one."""
    x, top = value / F.lit(least or 1.0), max(float(np.floor(most / (least or 1.0) / degree)), 1.0) * degree
    linear = F.least(F.floor(x / degree) * degree, F.lit(top))
    return F.when(x >= degree, linear).when(x > 0, F.pow(F.lit(2.0), F.floor(F.log2(x)))).otherwise(0.0).cast("double")

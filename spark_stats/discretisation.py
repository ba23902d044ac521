"""HLHE discretisation ([Fang2016], section IV-B) of the values of millions of keys, in Spark.

The paper takes the keys one after the other, in descending order of their values. Which neighbour a key takes depends
on the keys before it only through the accumulated deviation, and keys of the same value are alike: so the distribution
- the different values, and how many keys have each - is enough to say how many keys of a value take the upper
neighbour and how many the lower one. The distribution is small where values are counts; the keys never leave Spark.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.models.routing.hlhe_kernel import discretise_counts

MOST_VALUES = 2_000_000
"""Different values of one column that may come to the driver: 16 bytes each."""


def discretised(frame: DataFrame, name: str, degree: int, *, into: str | None = None) -> DataFrame:
    """Put HLHE's representatives for the values of a column; zeros stay.

    The frame needs the columns `key`, which orders keys of one value, and `name`.

    Parameters
    ----------
    degree : int
        R, a power of two; 1 keeps whole numbers (in units of the smallest) as they are.
    into : str, optional
        A column for the representatives. Default: in place of the values.

    Raises
    ------
    InputError
        A wrong degree; more than `MOST_VALUES` different values.
    """
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"the degree of discretisation R = {degree} must be a power of two")
    into = into or name
    table = representatives(frame, name, degree)
    if (table["value"] == table["low"]).all():
        return frame.withColumn(into, F.col(name))
    known = frame.sparkSession.createDataFrame(table).withColumnRenamed("value", name)
    joined = frame.join(F.broadcast(known), name, "left")
    columns = [*(column for column in frame.columns if column != into), into]
    split = (F.col("upper") > 0) & (F.col("upper") < F.col("keys"))  # keys of one value that do not all go one way

    def chosen(rows: DataFrame, above: Column) -> DataFrame:
        return rows.withColumn(into, F.when(above, F.col("high")).otherwise(F.col("low"))).select(*columns)

    made = chosen(joined.where(~split), F.col("upper") > 0)
    if not ((table["upper"] > 0) & (table["upper"] < table["keys"])).any():
        return made
    ranked = joined.where(split).withColumn("rank", F.row_number().over(Window.partitionBy(name).orderBy("key")))
    return made.union(chosen(ranked, F.col("rank") <= F.col("upper")))


def representatives(frame: DataFrame, name: str, degree: int) -> pd.DataFrame:
    """Return value, low, high, keys (of that value) and upper (of them, those that take the upper neighbour)."""
    counted = frame.groupBy(F.col(name).alias("value")).agg(F.count(F.lit(1)).alias("keys"))
    found = counted.limit(MOST_VALUES + 1).toPandas().sort_values("value", ascending=False, ignore_index=True)
    if len(found) > MOST_VALUES:
        raise InputError(
            f"{name} has more than {MOST_VALUES} different values, too many for the driver: round the expression "
            "(round(x, 2)), or count in larger units"
        )
    found = found.assign(low=found["value"], high=found["value"], upper=0)
    positive = found["value"].to_numpy(dtype=float) > 0
    if positive.any():
        values = found.loc[positive, "value"].to_numpy(dtype=float)
        unit = values[-1]
        low, high, upper = discretise_counts(
            values / unit, found.loc[positive, "keys"].to_numpy(dtype=np.int64), degree
        )
        found.loc[positive, ["low", "high"]] = np.stack([low * unit, high * unit], axis=1)
        found.loc[positive, "upper"] = upper
    return found.astype({"low": float, "high": float, "upper": np.int64, "keys": np.int64, "value": float})

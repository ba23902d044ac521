"""Numbers that last: a key has the same number in every window, and after every restart.

A folder holds the numbers in parts. A call that meets keys without one adds a part: they get the next whole numbers in
the order of their labels, so that equal calls in equal order give equal numbers, however Spark is run. A part counts
once Spark has finished it; what a killed job left is written over.
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyshift.spark_stats import directory
from keyshift.spark_stats.hadoop import HadoopPath, place

SCHEMA = "label {}, number long"
_ROW = 2**33 - 1
"""The bits of `monotonically_increasing_id` that count the rows of a partition."""


def numbered(labels: DataFrame, path: str | Path) -> DataFrame:
    """Return label and number of every label of a table with that column, and keep new ones under `path`."""
    spark = labels.sparkSession
    folder = place(path, spark)
    with directory.claim(folder):
        parts = _parts(folder)
        schema = SCHEMA.format(labels.schema["label"].dataType.simpleString())
        known = spark.createDataFrame([], schema)
        if parts:
            known = spark.read.schema(schema).parquet(*map(str, parts))
        fresh = labels.select("label").distinct().join(known, "label", "left_anti").orderBy("label")
        at = F.monotonically_increasing_id()
        ordered = fresh.select("label", F.shiftright(at, 33).alias("part"), at.bitwiseAND(F.lit(_ROW)).alias("row"))
        ordered.persist()
        sizes = dict(sorted(ordered.groupBy("part").count().collect()))
        if sizes:
            start, before = known.count(), {}
            for part, size in sizes.items():
                before[part], start = start, start + size
            offset = reduce(
                lambda so_far, p: so_far.when(F.col("part") == p, before[p]), before, F.when(F.lit(False), 0)
            )
            added = folder / f"numbers-{len(parts):06d}"
            ordered.select("label", (offset + F.col("row")).alias("number")).write.mode("overwrite").parquet(str(added))
            known = spark.read.schema(schema).parquet(*map(str, [*parts, added]))
        ordered.unpersist()
        return known.join(labels.select("label").distinct(), "label")


def _parts(folder: Path | HadoopPath) -> list[Path | HadoopPath]:
    """The finished parts, in order: there are no gaps, since one is written after the other."""
    found: list[Path | HadoopPath] = []
    while ((part := folder / f"numbers-{len(found):06d}") / "_SUCCESS").exists():
        found.append(part)
    return found

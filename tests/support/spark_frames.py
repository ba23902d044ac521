"""Small logs for Spark, by way of Arrow: what `createDataFrame` makes of a list goes through a Python of the workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa


def frame(spark: Any, rows: Iterable[Sequence[Any]], schema: str) -> Any:
    """The rows as a DataFrame of a schema such as "key string, size int"."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    kinds = StructType.fromDDL(schema)
    fields, rows = to_arrow_schema(kinds, timezone="UTC"), list(rows)
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.table(arrays, schema=fields), kinds)

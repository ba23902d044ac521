"""From keys to key groups: the hash function that the engine uses, so that a plan fits the engine it is meant for."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.base import guards
from keyshift.models.errors import InputError
from keyshift.spark_stats import hashing
from keyshift.spark_stats.session import workers_python

if TYPE_CHECKING:
    import pandas as pd

cloudpickle.register_pickle_by_value(hashing)

HASHES = ("xxhash64", *hashing.FUNCTIONS)


@dataclass(frozen=True)
class KeyGroups:
    """The number of key groups of every operator, and the hash that assigns the keys to them.

    ==========  ==============================================================================================
    xxhash64    ``pmod(xxhash64(key), count)``, Spark's own (seed 42); keys of any type
    flink       ``murmurHash(key.hashCode()) % count``; `count` is the job's max parallelism
    kafka       ``toPositive(murmur2(bytes)) % count``; `count` is the topic's partitions
    storm       ``floorMod(31 + key.hashCode(), count)``; `count` is the bolt's tasks (fields grouping, one field)
    java        ``floorMod(key.hashCode(), count)``
    ==========  ==============================================================================================

    All but the first take texts and whole numbers, and are computed in Python workers (see
    `keyshift.spark_stats.hashing`).
    """

    count: int
    hash: str = "xxhash64"

    def __post_init__(self) -> None:
        guards.whole("key_groups", self.count, least=1, most=2**20, optional=False)
        if self.hash not in HASHES:
            raise InputError(f"hash = {self.hash!r} is unknown; there are {', '.join(HASHES)}")

    def column(self, key: Column, kind: T.DataType) -> Column:
        """Return the key group, an int, of a key column of the given type."""
        if self.hash == "xxhash64":
            if "map<" in kind.simpleString():
                raise InputError(
                    f"a key of type {kind.simpleString()} has no hash of its own: take to_json of it, or a part"
                )
            return F.pmod(F.xxhash64(key), F.lit(self.count)).cast("int")
        if not isinstance(kind, T.StringType | T.IntegralType):
            raise InputError(
                f"hash = {self.hash!r} takes keys that are texts or whole numbers, not {kind.simpleString()}: "
                "cast the key, or take xxhash64"
            )
        function, count = hashing.FUNCTIONS[self.hash], self.count

        from pandas import Series

        def group(keys: pd.Series) -> pd.Series:
            return Series(function(pa.Array.from_pandas(keys), count))

        group.__annotations__ = {"keys": Series, "return": Series}  # Spark looks for the names in our module
        # A null key is refused before its group matters, and would turn whole numbers into floats on the way.
        nothing = F.lit("" if isinstance(kind, T.StringType) else 0).cast(kind)
        session = SparkSession.getActiveSession()
        with workers_python(session) if session is not None else nullcontext():
            return F.pandas_udf(group, "int")(F.coalesce(key, nothing))


def label(key: Column, kind: T.DataType) -> Column:
    """Return a key as what names it outside Spark: a whole number, a text, or the JSON text of a composite key."""
    if isinstance(kind, T.StringType):
        return key
    if isinstance(kind, T.IntegralType):
        return key.cast("long")
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(key, {"ignoreNullFields": "false"})
    return key.cast("string")

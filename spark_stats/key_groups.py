"""From keys to key groups: the hash function that the engine uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from keyshift.models import arrays
from keyshift.models.errors import InputError

HASHES = ("xxhash64",)


@dataclass(frozen=True)
class KeyGroups:
    """The number of key groups of every operator, and the hash that assigns the keys to them.

    "xxhash64": ``pmod(xxhash64(key), count)``, Spark's own (seed 42).
    """

    count: int
    hash: str = "xxhash64"

    def __post_init__(self) -> None:
        arrays.whole("key_groups", self.count, least=1, optional=False)
        if self.hash not in HASHES:
            raise InputError(f"hash = {self.hash!r} is unknown; there are {', '.join(HASHES)}")

    def column(self, key: Column, kind: Any) -> Column:
        """Return the key group, an int, of a key column of the given type."""
        return F.pmod(F.xxhash64(key), F.lit(self.count)).cast("int")

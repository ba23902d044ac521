"""Whole numbers of known ranges packed into one of 64 bits: what a row costs on its way to Python, it costs by the column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

BITS = 63
"""Of one column: never the sign."""


@dataclass(frozen=True)
class Field:
    """A column of whole numbers, the least that it may hold, and the bits that its range takes."""

    name: str
    least: int
    bits: int


Packs = tuple[tuple[Field, ...], ...]


def layout(ranges: Mapping[str, tuple[int, int]]) -> Packs:
    """Put each column, with its least and largest value, into the first pack with room; what is too wide stays alone."""
    packs: list[list[Field]] = []
    for name, (least, most) in ranges.items():
        field = Field(name, least, (most - least).bit_length())
        room = next((pack for pack in packs if sum(f.bits for f in pack) + field.bits <= BITS), None)
        if room is None:
            packs.append(room := [])
        room.append(field)
    return tuple(tuple(pack) for pack in packs)


def packed(frame: DataFrame, packs: Packs) -> DataFrame:
    """Put the columns pack_0, pack_1, ... in place of those that they hold; a column alone in its pack stays as it is."""

    def add(so_far: Column, field: Field) -> Column:
        value = F.col(field.name).cast("long") - F.lit(field.least)
        return F.shiftleft(so_far, field.bits).bitwiseOR(value)

    held = [
        reduce(add, pack, F.lit(0).cast("long")) if len(pack) > 1 else F.col(pack[0].name).cast("long")
        for pack in packs
    ]
    inside = {field.name for pack in packs for field in pack}
    others = [name for name in frame.columns if name not in inside]
    return frame.select(*(column.alias(f"pack_{i}") for i, column in enumerate(held)), *others)


def unpacked(table: pa.Table, packs: Packs) -> dict[str, NDArray[np.int64]]:
    """Every column of a table as whole numbers, those in packs included."""
    held = {f"pack_{i}": pack for i, pack in enumerate(packs)}
    found: dict[str, NDArray[np.int64]] = {}
    for name in table.column_names:
        values = table[name].to_numpy().astype(np.int64, copy=False)
        pack = held.get(name, (Field(name, 0, BITS),))
        for field in pack[:0:-1]:  # the last lies lowest
            found[field.name] = (values & ((1 << field.bits) - 1)) + field.least
            values = values >> field.bits
        found[pack[0].name] = values + pack[0].least if len(pack) > 1 else values
    return found

"""HLHE discretisation (paper 4, section IV-B) of one value per row, in one executor's stream of sorted rows.

Plain Arrow and Python: shipped to executors. The greedy choice depends on all larger values, so it is sequential; it
holds one batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def discretise(
    batches: Iterable[pa.RecordBatch], name: str, degree: int, unit: float, largest: float
) -> Iterator[pa.RecordBatch]:
    """Replace a column, in descending order, by its representatives; noughts stay.

    Representatives, in units of the smallest positive value: s*R, ..., 2R, R, R/2, ..., 2, 1 with s = floor(max / R),
    at least 1. Each value takes the one below or above it that leaves the smaller accumulated deviation; ties go below.
    """
    top, deviation = max(largest // degree, 1.0) * degree, 0.0
    for batch in batches:
        made = []
        at = batch.schema.get_field_index(name)
        for value in batch.column(at).to_pylist():
            x = value / unit
            if x >= top:
                chosen = top
            elif x == 0:
                chosen = 0.0
            else:
                if x >= degree:
                    low = x // degree * degree
                    high = low + degree
                else:
                    low = 1.0
                    while 2 * low <= x:
                        low *= 2
                    high = 2 * low
                chosen = high if abs(deviation + x - high) < abs(deviation + x - low) else low
            deviation += x - chosen
            made.append(chosen * unit)
        yield batch.set_column(at, name, pa.array(made, pa.float64()))

"""HLHE discretisation (paper 4, section IV-B) of one value per row, in one executor's stream of sorted rows.

Plain Arrow and Python: shipped to executors. The greedy choice depends on all larger values, so it is sequential; it
holds one batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from keyshift.models.routing.hlhe_step import representative


def discretise(
    batches: Iterable[pa.RecordBatch], name: str, degree: int, unit: float, largest: float
) -> Iterator[pa.RecordBatch]:
    """Replace a column, in descending order, by its representatives (see `representative`); noughts stay."""
    top, deviation = max(largest // degree, 1.0) * degree, 0.0
    for batch in batches:
        made = []
        at = batch.schema.get_field_index(name)
        for value in batch.column(at).to_pylist():
            chosen = representative(value / unit, deviation, float(degree), top)
            deviation += value / unit - chosen
            made.append(chosen * unit)
        yield batch.set_column(at, name, pa.array(made, pa.float64()))

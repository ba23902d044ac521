"""A `Partitioner` on Spark's workers: batches of rows in, the same rows with their node out."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from keyshift.heuristics.splitting.partitioner import Partitioner


def assign(batches: Iterable[pa.RecordBatch], partitioner: Partitioner, key: str) -> Iterator[pa.RecordBatch]:
    """Add the column `node` to one task's batches: a source of its own. A null counts as an empty text, or as 0."""
    own = copy.deepcopy(partitioner)
    for batch in batches:
        column = batch.column(batch.schema.get_field_index(key))
        filled = column.fill_null("" if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) else 0)
        keys = filled.to_numpy(zero_copy_only=False)
        if batch.num_rows == 0:
            node = np.zeros(0, dtype=np.int32)
        else:
            node = np.asarray(own.feed(keys), dtype=np.int32)
        yield batch.append_column("node", pa.array(node, pa.int32()))

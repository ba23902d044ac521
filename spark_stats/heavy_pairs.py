"""The heaviest of hundreds of millions of pairs, in little memory, with an error that is known.

Misra and Gries, *Finding repeated elements*, 1982: a summary holds at most k pairs with counts. Whenever there are more,
the (k + 1)-th largest count is taken off all of them, and what falls to zero goes. Each time at least k + 1 times the
amount is taken off, so that no count is ever low by more than N / (k + 1), N the number of tuples, and none is high.
Summaries of parts of the log are added up and cut the same way without losing the bound (Agarwal et al., *Mergeable
summaries*, 2012), and so one executor's summary after another becomes that of the whole log. SpaceSaving keeps the same
counts, plus the error.

Plain Arrow and NumPy: shipped to executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK = 1_000_000
"""Tuples, or pairs of summaries, that are counted at a time."""


def summarise(batches: Iterable[pa.RecordBatch], capacity: int, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Summary of one task's tuples: columns src_key, dst_key, tuples; and a last row (null, null, what was taken off).

    Takes the columns src_key and dst_key, of single tuples, or summaries with a third column, tuples; a row whose
    `final` is true is what a summary has taken off.
    """
    held: list[pa.RecordBatch] = []
    known: pa.Table | None = None
    rows, taken = 0, 0
    for batch in batches:
        if "final" in batch.schema.names:
            last = batch.column("final")
            taken += pc.sum(batch.filter(last).column("tuples")).as_py() or 0
            batch = batch.filter(pc.invert(last)).select(["src_key", "dst_key", "tuples"])
        held.append(batch)
        rows += batch.num_rows
        if rows >= block:
            known, off = _cut(_added(known, held), capacity)
            held, rows, taken = [], 0, taken + off
    known, off = _cut(_added(known, held), capacity) if held or known is not None else (None, 0)
    if known is None:
        return
    final = pa.table(
        {
            "src_key": pa.nulls(1, known.schema.field("src_key").type),
            "dst_key": pa.nulls(1, known.schema.field("dst_key").type),
            "tuples": pa.array([taken + off], pa.int64()),
        }
    )
    whole = pa.concat_tables([known, final])
    marks = pa.array(np.arange(whole.num_rows) == whole.num_rows - 1)
    yield from whole.append_column("final", marks).to_batches(max_chunksize=100_000)


def _added(known: pa.Table | None, held: list[pa.RecordBatch]) -> pa.Table:
    """Count the pairs of some batches, and those of a summary."""
    parts = [] if known is None else [known]
    if held:
        table = pa.Table.from_batches(held)
        if "tuples" not in table.schema.names:
            table = table.append_column("tuples", pa.array(np.ones(table.num_rows, dtype=np.int64)))
        parts.append(table)
    together = pa.concat_tables(parts).group_by(["src_key", "dst_key"]).aggregate([("tuples", "sum")])
    return together.rename_columns(["src_key", "dst_key", "tuples"])


def _cut(table: pa.Table, capacity: int) -> tuple[pa.Table, int]:
    """Keep at most `capacity` pairs; returns them and what was taken off each."""
    if table.num_rows <= capacity:
        return table, 0
    counts = table["tuples"].to_numpy()
    off = int(np.partition(counts, counts.size - capacity - 1)[counts.size - capacity - 1])
    keep = counts > off
    kept = table.filter(pa.array(keep))
    return kept.set_column(2, "tuples", pa.array(counts[keep] - off)), off

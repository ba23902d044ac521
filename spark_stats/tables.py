"""Packed tallies become Parquet files inside Spark's tasks, where these run on this machine.

A task holds windows whole and in order (see `keyshift.spark_stats.tallies`), so that what it has of a table of a block
of windows is one file, written piece by piece. It counts once it has its name: a task that is run again puts the same
file in its place.

Plain Arrow and NumPy: shipped to executors.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark import TaskContext

from keyshift.models.files.statistics import HIGH, LOW
from keyshift.spark_stats.tallies import ARRIVED, Totals, add_to, summary, unpacked_pieces

IntArray = NDArray[np.int64]
FILE = "part-{:05}.snappy.parquet"
PIECE = 100_000
"""Rows that are held before they are written."""

Starts = tuple[IntArray, IntArray]
"""Numbers of windows, increasing, and the instants at which they start, in microseconds since 1970."""


@dataclass(frozen=True)
class TablePlan:
    """Where the tables go, and what the rows of a tally hold.

    Attributes
    ----------
    folder : str
        Of the run.
    block : int
        How many neighbouring windows lie in one folder.
    unit : str
        What its name begins with.
    starts : Starts
        Of the windows that there are.
    edges : tuple of (int, int)
        Operators at the ends of each edge; its kind is its position after the operators'.
    loads, states, sizes : tuples of tuples of int
        Rows of the matrix that are an operator's cost and state, and an edge's bytes: one of whole numbers, or a high and
        a low one; none where the edge has no bytes.
    """

    folder: str
    block: int
    unit: str
    starts: Starts
    edges: tuple[tuple[int, int], ...]
    loads: tuple[tuple[int, ...], ...]
    states: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]

    def table(self, kind: int) -> str | None:
        """The name of the table to which the rows of a kind belong; None: to none."""
        if kind < 0:
            return "arrivals" if kind == ARRIVED else None
        return "load" if kind < len(self.loads) else "traffic"

    def rows(self, kind: int, window: IntArray, matrix: IntArray) -> pa.Table:
        """The rows of a kind in its table."""
        n = matrix.shape[1]

        def all_of(value: int) -> pa.Array:
            return pa.array(np.full(n, value, dtype=np.int32))

        def small(values: IntArray) -> pa.Array:
            return pa.array(values.astype(np.int32))

        columns = {"window": pa.array(window)} if self.block > 1 else {}
        starts = self.starts[1][np.searchsorted(self.starts[0], window)]
        columns["window_start"] = pa.array(starts, pa.timestamp("us", tz="UTC"))
        operators = len(self.loads)
        if kind == ARRIVED:
            columns["tuples"] = pa.array(matrix[2])
        elif kind < operators:
            columns |= {"operator": all_of(kind), "key_group": small(matrix[0]), "tuples": pa.array(matrix[2])}
            columns["load"] = pa.array(_joined(matrix, self.loads[kind]))
            limbs = [matrix[row] for row in self.states[kind]]
            nothing = np.zeros(n, dtype=np.int64)
            limbs = [*limbs, nothing, nothing] if len(limbs) == 1 else [nothing, *limbs]
            columns |= {f"state_{limb}": pa.array(v) for limb, v in zip(("whole", "high", "low"), limbs, strict=True)}
        else:
            source, destination = self.edges[kind - operators]
            size = self.sizes[kind - operators]
            columns |= {
                "src_operator": all_of(source),
                "src_key_group": small(matrix[0]),
                "dst_operator": all_of(destination),
                "dst_key_group": small(matrix[1]),
                "tuples": pa.array(matrix[2]),
                "bytes": pa.array(_joined(matrix, size)) if size else pa.nulls(n, pa.float64()),
            }
        return pa.table(columns)


def _joined(matrix: IntArray, rows: tuple[int, ...]) -> NDArray[np.float64]:
    """The sum as a number, from its whole numbers; as `exact_sums.joined`."""
    if len(rows) == 1:
        return matrix[rows[0]].astype(np.float64)
    return matrix[rows[0]] / HIGH + matrix[rows[1]] / LOW


class _File:
    """The part of a table that one task holds of one block of windows, while it is written."""

    def __init__(self, plan: TablePlan, block: int, name: str) -> None:
        folder = Path(plan.folder) / name / f"{plan.unit}={block}"
        folder.mkdir(parents=True, exist_ok=True)
        context = TaskContext.get()
        self.place = folder / FILE.format(0 if context is None else context.partitionId())
        self.scratch = folder / f".{uuid.uuid4().hex}.part"
        self.plan, self.size = plan, 0
        self.writer: pq.ParquetWriter | None = None
        self.held: dict[int, list[tuple[int, IntArray]]] = {}

    def add(self, window: int, kind: int, matrix: IntArray) -> None:
        """Hold a piece, and write when there are enough."""
        self.held.setdefault(kind, []).append((window, matrix))
        self.size += matrix.shape[1]
        if self.size >= PIECE:
            self._flush()

    def close(self) -> None:
        """Write what is left, and let the file count."""
        if self.held:
            self._flush()
        if self.writer is not None:
            self.writer.close()
            self.scratch.replace(self.place)

    def _flush(self) -> None:
        parts = []
        for kind, pieces in self.held.items():
            windows = np.repeat([window for window, _ in pieces], [matrix.shape[1] for _, matrix in pieces])
            parts.append(self.plan.rows(kind, windows, np.concatenate([matrix for _, matrix in pieces], axis=1)))
        table = pa.concat_tables(parts)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.scratch, table.schema)
        self.writer.write_table(table)
        self.held, self.size = {}, 0


def write(batches: Iterable[pa.RecordBatch], plan: TablePlan) -> Iterator[pa.RecordBatch]:
    """Write the tables of one task's windows; gives what `tallies.summarise` does."""
    found: Totals = {}
    for block, pieces in groupby(unpacked_pieces(batches), key=lambda piece: piece[0] // plan.block):
        files: dict[str, _File] = {}
        for window, kind, matrix in pieces:
            add_to(found, (window, kind, matrix), plan.block)
            if (name := plan.table(kind)) is not None:
                file = files[name] = files.get(name) or _File(plan, block, name)
                file.add(window, kind, matrix)
        for file in files.values():
            file.close()
    yield from summary(found)

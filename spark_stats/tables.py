"""Packed tallies become Parquet files inside Spark's tasks, where these run on this machine.

A window lies in one task, its kinds in order (see `keyshift.spark_stats.tallies`), so that a table of a window is one
file, written piece by piece. It counts once it has its name: a task that is run again puts the same file in its place.

Plain Arrow and NumPy: shipped to executors.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from keyshift.models.files.statistics import HIGH, LOW
from keyshift.spark_stats.tallies import ARRIVED

IntArray = NDArray[np.int64]
FILE = "part-00000.snappy.parquet"
PIECE = 100_000
"""Rows that are held before they are written."""


@dataclass(frozen=True)
class TablePlan:
    """Where the tables go, and what the rows of a tally hold.

    Attributes
    ----------
    folder : str
        Of the run.
    starts : dict
        Window -> the instant at which it starts, in microseconds since 1970.
    edges : tuple of (int, int)
        Operators at the ends of each edge; its kind is its position after the operators'.
    loads, states, sizes : tuples of tuples of int
        Rows of the matrix that are an operator's cost and state, and an edge's bytes: one of whole numbers, or a high and
        a low one; none where the edge has no bytes.
    """

    folder: str
    starts: dict[int, int]
    edges: tuple[tuple[int, int], ...]
    loads: tuple[tuple[int, ...], ...]
    states: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]

    def rows(self, window: int, kind: int, matrix: IntArray) -> tuple[str, pa.Table] | None:
        """The name of the table that a piece belongs to, and its rows there; None where it belongs to none."""
        n = matrix.shape[1]

        def all_of(value: int) -> pa.Array:
            return pa.array(np.full(n, value, dtype=np.int32))

        def small(values: IntArray) -> pa.Array:
            return pa.array(values.astype(np.int32))

        columns = {"window_start": pa.array(np.full(n, self.starts[window]), pa.timestamp("us", tz="UTC"))}
        operators = len(self.loads)
        if kind == ARRIVED:
            name = "arrivals"
            columns["tuples"] = pa.array(matrix[2])
        elif 0 <= kind < operators:
            name = "load"
            columns |= {"operator": all_of(kind), "key_group": small(matrix[0]), "tuples": pa.array(matrix[2])}
            columns["load"] = pa.array(_joined(matrix, self.loads[kind]))
            limbs = [matrix[row] for row in self.states[kind]]
            nothing = np.zeros(n, dtype=np.int64)
            for limb, values in zip(
                ("whole", "high", "low"), [*limbs, nothing, nothing] if len(limbs) == 1 else [nothing, *limbs], strict=True
            ):  # fmt: skip
                columns[f"state_{limb}"] = pa.array(values)
        elif kind >= operators:
            name = "traffic"
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
        else:
            return None
        return name, pa.table(columns)


def _joined(matrix: IntArray, rows: tuple[int, ...]) -> NDArray[np.float64]:
    """The sum as a number, from its whole numbers; as `exact_sums.joined`."""
    if len(rows) == 1:
        return matrix[rows[0]].astype(np.float64)
    return matrix[rows[0]] / HIGH + matrix[rows[1]] / LOW


class _File:
    """One table of one window, while it is written."""

    def __init__(self, plan: TablePlan, window: int, name: str) -> None:
        self.of = (window, name)
        folder = Path(plan.folder) / name / f"window={window}"
        folder.mkdir(parents=True, exist_ok=True)
        self.place, self.scratch = folder / FILE, folder / f".{uuid.uuid4().hex}.part"
        self.writer: pq.ParquetWriter | None = None
        self.held: list[pa.Table] = []

    def add(self, part: pa.Table) -> None:
        """Hold a piece, and write when there are enough."""
        self.held.append(part)
        if sum(table.num_rows for table in self.held) >= PIECE:
            self._flush()

    def close(self) -> None:
        """Write what is left, and let the file count."""
        if self.held:
            self._flush()
        if self.writer is not None:
            self.writer.close()
            self.scratch.replace(self.place)

    def _flush(self) -> None:
        table = pa.concat_tables(self.held)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.scratch, table.schema)
        self.writer.write_table(table)
        self.held = []


def write(batches: Iterable[pa.RecordBatch], plan: TablePlan) -> Iterator[pa.RecordBatch]:
    """Write the tables of one task's windows; gives the task's batches without their rows."""
    file: _File | None = None
    for batch in batches:
        for window, kind, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            packed = np.frombuffer(content, dtype=np.int64)
            made = plan.rows(window, kind, packed[1:].reshape(int(packed[0]), -1))
            if made is None:
                continue
            name, part = made
            if file is None or file.of != (window, name):
                if file is not None:
                    file.close()
                file = _File(plan, window, name)
            file.add(part)
        yield batch.slice(0, 0)
    if file is not None:
        file.close()

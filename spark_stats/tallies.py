"""Counting tuples in NumPy, inside Spark's tasks: what one task's tuples add to every statistic.

Plain Arrow and NumPy, so that these functions can be shipped to executors that have never heard of keyshift. All sums
are of whole numbers and exact: an overflow raises, it never wraps.

A tally has rows (window, kind, a, b, tuples, sum_0, sum_1, ...):

========================  ==================================================================================
kind                      meaning
========================  ==================================================================================
``ARRIVED``               rows that have a window; a = b = 0
``REFUSED``               rows refused; a = the number that says why; b = 1 where the row has no window; refused_1,
                          ...: the further numbers, where there are more than `PER_NUMBER` operators
0 .. operators - 1        tuples that pass the operator; a = key group; sums: its cost, then its state
operators + e             tuples that pass both ends of edge e; a, b = key groups; sums: the bytes
========================  ==================================================================================

Spark adds up the rows of all tasks by their first columns, see `keyshift.spark_stats.facts`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

ARRIVED, REFUSED = -2, -1
LATE, BEYOND, OUTSIDE = -3, -4, -5
"""The numbers in `refused` of a row that arrived too late, of one whose time is not a number of seconds, and of one whose time is
left out."""
NOWHERE = (-1, -2, BEYOND, OUTSIDE)
"""The numbers of rows that have no window."""

PER_NUMBER = 19
"""Operators whose reasons to refuse a tuple are packed in one 64-bit number: 9 ** 19 < 2 ** 63."""

BATCH = 100_000
"""Rows of a tally in one Arrow batch."""


@dataclass(frozen=True)
class TallyPlan:
    """Counts to make: `sums[k]` names the columns added up for kind k (operators, then edges).

    An edge's ends are operators, or one of so many `senders`, numbered behind them: see `Topology.ends`.
    """

    operators: int
    edges: tuple[tuple[int, int], ...]
    sums: tuple[tuple[str, ...], ...]
    senders: int = 0

    @property
    def width(self) -> int:
        """Largest number of sums in a row of the tally."""
        return max(map(len, self.sums))

    @property
    def codes(self) -> list[str]:
        """The columns that say why a tuple is refused."""
        return code_columns(self.operators)

    @property
    def keys(self) -> list[str]:
        """The columns of a tally by which rows of several tasks are one."""
        return ["window", "kind", "a", "b", *self.codes[1:]]

    @property
    def columns(self) -> list[str]:
        """All columns of a tally, whole numbers of 64 bits."""
        return [*self.keys, "tuples", *(f"sum_{i}" for i in range(self.width))]

    def rows(
        self,
        kind: int,
        window: IntArray,
        *groups: IntArray,
        tuples: IntArray,
        codes: Sequence[IntArray] = (),
        sums: Sequence[IntArray] = (),
    ) -> IntArray:
        """The rows of one kind, shape (columns, rows); what it has not is 0."""
        made = np.zeros((len(self.columns), window.size), dtype=np.int64)
        first = len(self.keys)
        made[:2] = [window, np.full_like(window, kind)]
        for at, values in [*enumerate(groups, 2), *enumerate(codes, 4), *enumerate((tuples, *sums), first)]:
            made[at] = values
        return made


def code_columns(operators: int) -> list[str]:
    """Names of the columns that say why a tuple is refused, by so many operators."""
    return ["refused", *(f"refused_{i}" for i in range(1, -(-operators // PER_NUMBER)))]


def settled(batches: Iterable[pa.RecordBatch], function: Callable[..., Any]) -> Iterator[pa.RecordBatch]:
    """What a function gives. Then the worker's libraries, loaded by now, are no garbage: it looks for some after every task."""
    yield from function(batches)
    if not gc.get_freeze_count():
        gc.freeze()


def count(batches: Iterable[pa.RecordBatch], plan: TallyPlan, block: int = 4_000_000) -> Iterator[pa.RecordBatch]:
    """Tally the tuples of one task, so many at a time, of which each takes about 50 bytes."""
    for held in _gathered(batches, block):
        for rows in _count_block(held, plan):
            # Java takes the rows a batch at a time.
            for at in range(0, rows.shape[1], BATCH):
                yield pa.record_batch([pa.array(column) for column in rows[:, at : at + BATCH]], plan.columns)


def _gathered(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Neighbouring batches together, until they come to so many rows: each call over them has its price."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.num_rows for part in held) >= most:
            yield held
            held = []
    if held:
        yield held


def _count_block(batches: list[pa.RecordBatch], plan: TallyPlan) -> Iterator[IntArray]:
    columns = pa.Table.from_batches(batches)
    table = {name: columns[name].to_numpy().astype(np.int64, copy=False) for name in columns.column_names}
    window, codes = table["window"], [table[name] for name in plan.codes]
    refused, wrong = codes[0], np.logical_or.reduce([code != 0 for code in codes])
    there: IntArray | slice = slice(None)
    if wrong.any():
        at = np.flatnonzero(wrong)
        nowhere = np.isin(refused, NOWHERE).astype(np.int64)
        found, (tuples,) = group_sum([window[at], refused[at], nowhere[at], *(code[at] for code in codes[1:])], [None])
        yield plan.rows(REFUSED, *found[:3], codes=found[3:], tuples=tuples)
        there = np.flatnonzero((nowhere == 0) & (refused != LATE))
    (w,), (tuples,) = group_sum([window[there]], [None])
    yield plan.rows(ARRIVED, w, tuples=tuples)
    groups = [table[f"group_{o}"] for o in range(plan.operators + plan.senders)]
    for kind, sides in enumerate([*((o,) for o in range(plan.operators)), *plan.edges]):
        passes = np.logical_and.reduce([groups[o] >= 0 for o in sides])
        chosen = slice(None) if passes.all() else np.flatnonzero(passes)
        names = list(dict.fromkeys(plan.sums[kind]))  # a cost that is the state as well is added up once
        measures = [table[name][chosen] for name in names]
        found, (tuples, *sums) = group_sum([window[chosen], *(groups[o][chosen] for o in sides)], [None, *measures])
        yield plan.rows(kind, *found, tuples=tuples, sums=[sums[names.index(name)] for name in plan.sums[kind]])


def group_sum(columns: Sequence[IntArray], values: Sequence[IntArray | None]) -> tuple[list[IntArray], list[IntArray]]:
    """Group rows that agree in all columns, in increasing order, and add up the values; None counts the rows.

    O(n) where the columns span few combinations, else O(n log n).
    """
    n = len(columns[0])
    if n == 0:
        return [np.zeros(0, np.int64) for _ in columns], [np.zeros(0, np.int64) for _ in values]
    cell, shape, decode = _packed(columns)
    if shape <= max(8 * n, 65_536):
        counts = np.bincount(cell, minlength=shape)
        present = np.flatnonzero(counts)
        sums = [counts[present] if v is None else _dense_sum(cell, v, shape)[present] for v in values]
        return decode(present), [s.astype(np.int64) for s in sums]
    if all(v is None for v in values):
        present, counts = np.unique(cell, return_counts=True)
        return decode(present), [counts.astype(np.int64) for _ in values]
    order = np.argsort(cell, kind="stable")
    ordered = cell[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.append(starts, n))
    sums = [counts if v is None else _checked(v, lambda v: np.add.reduceat(v[order], starts)) for v in values]
    return decode(ordered[starts]), [s.astype(np.int64) for s in sums]


def _packed(columns: Sequence[IntArray]) -> tuple[IntArray, int, Any]:
    """Number the combinations: (number of each row, how many numbers there are, number -> columns)."""
    lows, spans, codes, tables = [], [], [], []
    room = 2**62
    for column in columns:
        low, span = int(column.min()), int(column.max()) - int(column.min()) + 1
        table = None
        if span > min(room, 2**40):  # far apart: number the values that occur
            table, code = np.unique(column, return_inverse=True)
            low, span = 0, len(table)
        else:
            code = column - low
        room //= span
        lows.append(low)
        spans.append(span)
        codes.append(code)
        tables.append(table)
    if room < 1:
        raise OverflowError("the key groups and windows of one task are too many to be numbered")
    cell = codes[0].astype(np.int64)
    for code, span in zip(codes[1:], spans[1:], strict=True):
        cell = cell * span + code

    def decode(cells: IntArray) -> list[IntArray]:
        made: list[IntArray] = []
        for low, span, table in zip(lows[::-1], spans[::-1], tables[::-1], strict=True):
            cells, code = np.divmod(cells, span)
            made.append(table[code] if table is not None else (code + low).astype(np.int64))
        return made[::-1]

    return cell, int(np.prod([float(s) for s in spans])) if room else 0, decode


def _dense_sum(cell: IntArray, values: IntArray, shape: int) -> IntArray:
    """Exact sums by cell: in doubles while no partial sum can leave the whole numbers they hold exactly."""
    largest = max(abs(int(values.max())), abs(int(values.min())))
    if largest * len(values) < 2**53 or np.abs(values.astype(np.float64)).sum() < 2.0**53:
        return np.bincount(cell, weights=values, minlength=shape).astype(np.int64)

    def add(values: IntArray) -> IntArray:
        total = np.zeros(shape, dtype=np.int64)
        np.add.at(total, cell, values)
        return total

    return _checked(values, add)


def _checked(values: IntArray, add: Any) -> IntArray:
    """Refuse sums that could leave 64 bits."""
    if np.abs(values.astype(np.float64)).sum() >= 2.0**62:
        sizes = add(np.abs(values >> 32))  # each at most 2**31: safe for 2**32 rows
        if sizes.max(initial=0) >= 2**29:
            raise OverflowError("the sum of a cost, state or bytes does not fit in 64 bits")
    result: IntArray = add(values)
    return result

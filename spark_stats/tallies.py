"""Counting tuples in NumPy, inside Spark's tasks: what one task's tuples add to every statistic.

Plain Arrow and NumPy, so that these functions can be shipped to executors that have never heard of keyshift. All sums
are of whole numbers and exact: an overflow raises, it never wraps.

A tally has rows (window, kind, a, b, tuples, sum_0, sum_1, ...):

========================  ==================================================================================
kind                      meaning
========================  ==================================================================================
``ARRIVED``               rows that have a window; a = b = 0
``REFUSED``               rows refused; a = the number that says why; b = 1 where the row has no window; sums: the
                          further numbers, where there are more than `PER_NUMBER` operators
0 .. operators - 1        tuples that pass the operator; a = key group; sums: its cost, then its state
operators + e             tuples that pass both ends of edge e; a, b = key groups; sums: the bytes
========================  ==================================================================================

Between tasks the rows of one window and kind travel *packed*: one Spark row (window, kind, content), whose content is
the matrix of their columns from a on, 64 bits each. Shuffling a million pairs then costs no more than copying them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

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

PACK = 100_000
"""Rows in one piece of packed content, and in one Arrow batch of unpacked rows."""
PACKED = "window bigint, kind int, content binary"
_WHOLE = {name: pa.int32() if name in ("kind", "b") else pa.int64() for name in ("window", "kind", "a", "b", "tuples")}
SUMMARY = {**{name: pa.int64() for name in ("block", "kind", "rows", "tuples")}, "more": pa.list_(pa.int64())}
SUMMARISED = "block bigint, kind bigint, rows bigint, tuples bigint, more array<bigint>"
"""Columns that `summarise` gives."""

Item = TypeVar("Item")
Piece = tuple[int, int, IntArray]
"""Window, kind, and the matrix of the columns from a on."""


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


def code_columns(operators: int) -> list[str]:
    """Names of the columns that say why a tuple is refused, by so many operators."""
    return ["refused", *(f"refused_{i}" for i in range(1, -(-operators // PER_NUMBER)))]


def settled(batches: Iterable[pa.RecordBatch], function: Callable[..., Any]) -> Iterator[pa.RecordBatch]:
    """What a function gives. Then the worker's libraries, loaded by now, are no garbage: it looks for some after every task."""
    yield from function(batches)
    if not gc.get_freeze_count():
        gc.freeze()


def count(
    batches: Iterable[pa.RecordBatch], plan: TallyPlan, block: int = 4_000_000, pack: int = PACK
) -> Iterator[pa.RecordBatch]:
    """Tally the tuples of one task, so many at a time, of which each takes about 50 bytes; gives packed rows."""
    for held in _gathered(batches, lambda batch: batch.num_rows, block):
        yield from _together(_count_block(held, plan, pack))


def _gathered(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Neighbouring items together, until they come to so much: each call over them has its price."""
    held: list[Item] = []
    total = 0
    for item in items:
        held.append(item)
        total += size(item)
        if total >= most:
            yield held
            held, total = [], 0
    if held:
        yield held


def merge(batches: Iterable[pa.RecordBatch], pack: int = PACK) -> Iterator[pa.RecordBatch]:
    """Add up the packed tallies of one partition, which holds all that there is of its windows; sorted by window and kind."""
    pieces: dict[int, list[tuple[int, IntArray]]] = {}
    for window, kind, matrix in unpacked_pieces(batches):
        pieces.setdefault(window, []).append((kind, matrix))
    yield from _together(_merged(pieces, pack))


def unpacked_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    """Each piece of packed rows: window, kind, matrix of its columns."""
    for batch in batches:
        for window, kind, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield window, kind, _matrix(np.frombuffer(content, dtype=np.int64))


def _merged(pieces: dict[int, list[tuple[int, IntArray]]], pack: int) -> Iterator[Piece]:
    """Add up neighbouring windows together, as many as make up a pack: one window may hold a handful of rows."""
    by_window = ([(window, *piece) for piece in pieces.pop(window)] for window in sorted(pieces))
    for windows in _gathered(by_window, lambda own: sum(matrix.shape[1] for _, _, matrix in own), pack):
        yield from _added_up([piece for own in windows for piece in own], pack)


def _added_up(pieces: list[Piece], pack: int) -> list[Piece]:
    """Add up the pieces of the same window and kind."""
    made: list[Piece] = []
    by_kind: dict[int, list[tuple[int, IntArray]]] = {}
    for at, kind, matrix in pieces:
        by_kind.setdefault(kind, []).append((at, matrix))
    for kind, own in by_kind.items():
        window = np.repeat([at for at, _ in own], [matrix.shape[1] for _, matrix in own])
        rows = np.concatenate([matrix for _, matrix in own], axis=1)
        if len({at for at, _ in own}) < len(own):
            keys = [0, 1, *range(3, len(rows))] if kind == REFUSED else [0, 1]
            found, sums = group_sum([window, *rows[keys]], [rows[i] for i in range(2, len(rows)) if i not in keys])
            window, *found = found
            rows = np.stack([*found[:2], *sums, *found[2:]])
        made += _pieces(kind, window, rows, pack)
    return sorted(made, key=lambda piece: piece[:2])


def _together(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Pack pieces, many in one Arrow batch."""
    types = {"window": pa.int64(), "kind": pa.int32(), "content": pa.binary()}
    packed = ((w, kind, np.append(len(rows), rows).astype(np.int64).tobytes()) for w, kind, rows in pieces)
    # Bytes of packed content that travel together.
    for held in _gathered(packed, lambda row: len(row[2]) + 100, 2**23):
        columns = (pa.array(c, t) for c, t in zip(zip(*held, strict=True), types.values(), strict=True))
        yield pa.record_batch(list(columns), list(types))


def unpack(batches: Iterable[pa.RecordBatch], width: int) -> Iterator[pa.RecordBatch]:
    """Turn packed rows into rows (window, kind, a, b, tuples, sum_0, ...); sums that a kind lacks are zero."""
    for pieces in _gathered(unpacked_pieces(batches), lambda piece: piece[2].shape[1], PACK):
        sizes = [matrix.shape[1] for _, _, matrix in pieces]
        rows = np.zeros((3 + width, sum(sizes)), dtype=np.int64)
        for end, (_, _, matrix) in zip(np.cumsum(sizes).tolist(), pieces, strict=True):
            rows[: len(matrix), end - matrix.shape[1] : end] = matrix[: 3 + width]
        window, kind = (np.repeat([piece[i] for piece in pieces], sizes) for i in range(2))
        columns = dict(zip(_WHOLE, (window, kind, *rows[:3]), strict=True))
        arrays = {name: pa.array(values, _WHOLE[name]) for name, values in columns.items()}
        yield pa.record_batch({**arrays, **{f"sum_{i}": pa.array(values) for i, values in enumerate(rows[3:])}})


def summarise(batches: Iterable[pa.RecordBatch], block: int) -> Iterator[pa.RecordBatch]:
    """Totals of the packed rows of a task: rows (block, kind, rows, tuples, more), for blocks of so many windows.

    `more` holds for each sum the total of ``value >> 32`` and that of the rest, which cannot overflow.
    """
    found: dict[tuple[int, int], IntArray] = {}
    for window, kind, rows in unpacked_pieces(batches):
        if kind == REFUSED:  # in no table
            continue
        high, low = (rows[3:] >> 32).sum(axis=1), (rows[3:] & (2**32 - 1)).sum(axis=1)
        totals = np.array([rows.shape[1], rows[2].sum(), *np.stack([high, low], axis=1).ravel()])
        at = (window // block, kind)
        found[at] = found[at] + totals if at in found else totals
    if found:
        columns = [[*at, *totals[:2].tolist(), totals[2:].tolist()] for at, totals in found.items()]
        arrays = [pa.array(c, t) for c, t in zip(zip(*columns, strict=True), SUMMARY.values(), strict=True)]
        yield pa.record_batch(arrays, list(SUMMARY))


def _count_block(batches: list[pa.RecordBatch], plan: TallyPlan, pack: int) -> Iterator[Piece]:
    columns = pa.Table.from_batches(batches)
    table = {name: columns[name].to_numpy().astype(np.int64, copy=False) for name in columns.column_names}
    window, codes = table["window"], [table[name] for name in plan.codes]
    refused, wrong = codes[0], np.logical_or.reduce([code != 0 for code in codes])
    there: IntArray | slice = slice(None)
    if wrong.any():
        at = np.flatnonzero(wrong)
        nowhere = np.isin(refused, NOWHERE).astype(np.int64)
        found, (tuples,) = group_sum([window[at], refused[at], nowhere[at], *(code[at] for code in codes[1:])], [None])
        w, code, missing, *further = found
        yield from _pieces(REFUSED, w, np.stack([code, missing, tuples, *further]), pack)
        there = np.flatnonzero((nowhere == 0) & (refused != LATE))
    (w,), (tuples,) = group_sum([window[there]], [None])
    yield from _pieces(ARRIVED, w, np.stack([np.zeros_like(w), np.zeros_like(w), tuples]), pack)
    groups = [table[f"group_{o}"] for o in range(plan.operators + plan.senders)]
    for kind, sides in enumerate([*((o,) for o in range(plan.operators)), *plan.edges]):
        passes = np.logical_and.reduce([groups[o] >= 0 for o in sides])
        chosen = slice(None) if passes.all() else np.flatnonzero(passes)
        names = list(dict.fromkeys(plan.sums[kind]))  # a cost that is the state as well is added up once
        measures = [table[name][chosen] for name in names]
        found, sums = group_sum([window[chosen], *(groups[o][chosen] for o in sides)], [None, *measures])
        sums = [sums[0], *(sums[1 + names.index(name)] for name in plan.sums[kind])]
        w, a, b = found if len(sides) == 2 else (*found, np.zeros_like(found[0]))
        yield from _pieces(kind, w, np.stack([a, b, *sums]), pack)


def _pieces(kind: int, window: IntArray, rows: IntArray, pack: int) -> Iterator[Piece]:
    """Cut the columns of a tally of one kind, whose windows are in order, window by window and piece by piece."""
    starts = np.flatnonzero(np.diff(window, prepend=window[:1] - 1)) if len(window) else window
    for start, end in pairwise([*starts.tolist(), len(window)]):
        for at in range(start, end, pack):
            yield int(window[at]), kind, rows[:, at : min(at + pack, end)]


def _matrix(content: IntArray) -> IntArray:
    """Unpack: the first number is the number of columns."""
    return content[1:].reshape(int(content[0]), -1)


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

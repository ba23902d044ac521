"""Flink's key-group ranges: each operator instance runs the key groups of one range, both ends included.

Flink derives the ranges from the parallelism alone; a table of ranges is what an operator with its own
assignment (or a rescaling service) reads and writes. Columns: ``subtask``, ``start``, ``end``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError, refusing
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import IntArray


def default_ranges(parallelism: int, max_parallelism: int) -> list[tuple[int, int]]:
    """The range of every subtask as Flink computes it (``KeyGroupRangeAssignment``), ends included."""
    if not 1 <= parallelism <= max_parallelism:
        raise InputError(f"parallelism = {parallelism} must lie in 1..{max_parallelism}")
    return [
        ((i * max_parallelism + parallelism - 1) // parallelism, ((i + 1) * max_parallelism - 1) // parallelism)
        for i in range(parallelism)
    ]


def read_ranges(table: Any, max_parallelism: int | None = None) -> IntArray:
    """The subtask of each key group, from a table of ranges.

    Parameters
    ----------
    table : DataFrame, or iterable of (subtask, start, end) or of mappings with these keys
        One row for each subtask that has key groups; an empty range may be left out or have end < start.
    max_parallelism : int, optional
        Number of key groups; by default one more than the last end.

    Raises
    ------
    InputError
        If ranges overlap, leave a gap, or a subtask has two.
    """
    rows = table.to_dict("records") if hasattr(table, "to_dict") else list(table)
    ranges: dict[int, tuple[int, int]] = {}
    for i, row in enumerate(rows):
        subtask, start, end = _row(i, row)
        if subtask in ranges:
            raise InputError(f"ranges[{i}]: subtask {subtask} already has the range {ranges[subtask]}")
        ranges[subtask] = (start, end)
    last = max((end for _, end in ranges.values()), default=-1)
    groups = last + 1 if max_parallelism is None else max_parallelism
    if groups < 1 or last >= groups:
        raise InputError(f"ranges end at key group {last}, but there are {groups}")
    owner = np.full(groups, -1, dtype=np.int64)
    for subtask, (start, end) in sorted(ranges.items()):
        taken = owner[start : end + 1]
        if (taken >= 0).any():
            k = start + int(np.argmax(taken >= 0))
            raise InputError(f"key group {k} lies in the ranges of subtasks {owner[k]} and {subtask}")
        taken[:] = subtask
    if (owner < 0).any():
        raise InputError(f"key group {int(np.argmax(owner < 0))} lies in no range")
    return owner


def _row(i: int, row: Any) -> tuple[int, int, int]:
    with refusing(f"ranges[{i}] = {row!r} must have subtask, start and end", KeyError, TypeError, ValueError):
        values = [row[key] for key in ("subtask", "start", "end")] if hasattr(row, "keys") else list(row)
        subtask, start, end = (int(v) for v in values)
    if subtask < 0 or start < 0:
        raise InputError(f"ranges[{i}] = {row!r} must not be negative")
    return subtask, start, end


def ranges_of(assignment: Iterable[int]) -> pd.DataFrame:
    """The table of ranges of an assignment in intervals, by start; subtasks keep their numbers."""
    nodes = np.asarray(assignment, dtype=np.int64)
    cuts = cuts_of(nodes)
    labels = nodes[cuts[:-1]]
    if np.unique(labels).size != labels.size:
        raise InputError("some subtask has more than one range")
    return pd.DataFrame({"subtask": labels, "start": cuts[:-1], "end": cuts[1:] - 1})

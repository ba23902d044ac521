"""Sweeps in whole numbers: from values of a class to the best partner, and its value, of every partition of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.compiling import njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.matching_kernels import match
from keyshift.solvers.intervals.partitions.best_partner_kernels import frame_need, sweep
from keyshift.solvers.intervals.partitions.enumeration import PartitionClass
from keyshift.solvers.intervals.units import weights

PACKED_BITS = 58


@dataclass(frozen=True)
class Best:
    """For every source partition: the least cost + value over the partners, the partner that attains it, and its cost.

    All in whole units of the ruler that made it.
    """

    total: IntArray
    partner: np.ndarray
    cost: IntArray


class Ruler:
    """State and values in whole numbers that leave room for a partner's number beside them.

    Parameters
    ----------
    state : ndarray, shape (m,)
    partners : int
        Size of the largest table of partners.

    Attributes
    ----------
    unit : float
        What one whole unit stands for, a power of two.
    error : float
        How far a cost can be from the truth, in units of state: 0 where the states are exact.
    """

    def __init__(self, state: FloatArray, partners: int) -> None:
        self.row_bits = max(1, int(partners).bit_length())
        room = PACKED_BITS - self.row_bits
        self.weights = weights(state, bits=room).finer(room - 1)
        self.unit, self.total = self.weights.unit, self.weights.total
        self.error = self.weights.error * state.size
        self.prefix = self.weights.prefix

    def whole(self, value: FloatArray) -> IntArray:
        """Values in whole units, to the nearest."""
        return np.rint(value / self.unit).astype(np.int64)

    def need(self, source: PartitionClass, rows: np.ndarray) -> int:
        """Slots of 32 bytes that a sweep takes."""
        return int(frame_need(source.first, source.starts, rows))

    def sweep(self, source: PartitionClass, rows: np.ndarray, value: IntArray, slots: np.ndarray | None = None) -> Best:
        """The best partner among the rows for every partition of the source class.

        `value` has one whole number for each row. A row whose value exceeds the least by more than all the state can be
        nobody's best partner, whatever its cost, and is capped there: so values of any spread fit beside row numbers.
        """
        if slots is None:
            slots = np.empty((self.need(source, rows), 4), dtype=np.int64)
        base = int(value.min())
        capped = np.minimum(value, base + self.total + 1)
        packed = ((base - capped) << self.row_bits) + np.arange(value.size)
        out = np.empty(source.size, dtype=np.int64)
        sweep(source.parent, source.first, source.starts, self.prefix << self.row_bits, rows, packed, out, slots)
        partner = (out & ((1 << self.row_bits) - 1)).astype(np.int32)
        out >>= self.row_bits
        total = (self.total + base) - out
        return Best(total, partner, total - value[partner])

    def from_one(self, cuts: IntArray, target: PartitionClass, prefix: IntArray | None = None) -> IntArray:
        """The cost from one partition, of any kind, to all of a class, in whole units.

        `prefix` replaces the weights where some tasks must move anyway.
        """
        return self.total - matches(cuts, target.rows, target.tasks, self.prefix if prefix is None else prefix)


@njit(cache=True, nogil=True)
def matches(cuts: np.ndarray, rows: np.ndarray, tasks: int, prefix: np.ndarray) -> np.ndarray:
    """Largest common weight of one partition with every row of a table."""
    weight = np.empty(rows.shape[0], np.int64)
    buffer = np.empty(rows.shape[1] + 2, np.int64)
    for i in range(rows.shape[0]):
        inner = 0
        while inner < rows.shape[1] and rows[i, inner] > 0:
            inner += 1
        buffer[0], buffer[inner + 1] = 0, tasks
        for column in range(inner):
            buffer[inner - column] = rows[i, column]
        weight[i] = match(cuts, buffer[: inner + 2], prefix)[0]
    return weight

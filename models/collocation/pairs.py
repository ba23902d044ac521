"""The pairs of key groups that talk to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp

from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True)
class Pairs:
    """Unordered pairs of different key groups that exchange traffic: ``first < second``, tuples both ways together."""

    first: IntArray
    second: IntArray
    traffic: FloatArray

    def __len__(self) -> int:
        return int(self.traffic.size)

    @classmethod
    def of(cls, traffic: sp.csr_array) -> Self:
        """The pairs of a matrix, in lexicographic order."""
        both = _both_ways(traffic).tocoo()
        order = np.lexsort((both.col, both.row))
        return cls(both.row[order].astype(np.int64), both.col[order].astype(np.int64), both.data[order])

    def under(self, matrices: Sequence[sp.csr_array]) -> FloatArray:
        """The tuples of each pair by other matrices, shape (matrices, pairs); no matrix is this one's own."""
        if not matrices or not len(self):
            return np.tile(self.traffic, (max(1, len(matrices)), 1))
        return np.array([_both_ways(traffic)[self.first, self.second] for traffic in matrices])


def _both_ways(traffic: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.triu(traffic + traffic.T, k=1))

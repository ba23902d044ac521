"""Which key meets which worker: the different (key, worker) pairs of a stream under an assignment."""

from __future__ import annotations

import numpy as np

from keyshift.models.splitting import kernels
from keyshift.models.splitting.key_index import KeyIndex
from keyshift.models.workload import IntArray

MOST_CELLS = 1 << 26
"""Keys that are small whole numbers are met in a table of at most so many (key, worker) cells, others by hashing."""


class KeyWorkerPairs:
    """The pairs met so far.

    Parameters
    ----------
    workers : int
    known : KeyIndex, optional
        Knows all keys already, which saves numbering them.
    numbered : bool, default False
        Number the pairs, for `add` to say.
    """

    def __init__(self, workers: int, known: KeyIndex | None = None, numbered: bool = False) -> None:
        self.workers = workers
        self._known, self._keys, self._pairs = known, KeyIndex(), KeyIndex()
        self._met: np.ndarray | None = None if numbered else np.zeros((0, workers), dtype=bool)

    def add(self, keys: IntArray, sent: np.ndarray) -> IntArray | None:
        """Meet some more; their pairs' numbers, where they have any."""
        if self._met is not None:
            done = kernels.meet(keys, sent, self._met)
            if done == keys.size:
                return None
            if self._grown_to(int(keys[done:].min()), int(keys[done:].max())):
                return self.add(keys[done:], sent[done:])
        return self._number(keys, sent)

    def _grown_to(self, first: int, last: int) -> bool:
        """A longer table for these keys; without one, where they are too far apart, all pairs are numbered from now on."""
        assert self._met is not None
        rows = self._met.shape[0]
        if first >= 0 and (last + 1) * self.workers <= MOST_CELLS:
            longer = np.zeros((min(max(last + 1, 2 * rows), MOST_CELLS // self.workers), self.workers), dtype=bool)
            longer[:rows] = self._met
            self._met = longer
            return True
        before = self.listed()
        self._met = None
        self._number(*before)
        return False

    def _number(self, keys: IntArray, sent: np.ndarray) -> IntArray:
        numbers = self._keys.number(keys) if self._known is None else self._known.find(keys)
        return self._pairs.number(numbers * self.workers + sent)

    def _cells(self) -> IntArray:
        """key * workers + worker of every pair, keys by their numbers where they have any."""
        return self._pairs.keys if self._met is None else np.flatnonzero(self._met)

    @property
    def count(self) -> int:
        """How many pairs."""
        return self._pairs.count if self._met is None else int(np.count_nonzero(self._met))

    @property
    def keys(self) -> int:
        """How many keys."""
        if self._met is None:
            return (self._known or self._keys).count
        rows = self._cells() // self.workers  # ascending
        return int(np.count_nonzero(np.diff(rows))) + (rows.size > 0)

    @property
    def counters(self) -> IntArray:
        """How many keys each worker met, shape (W,)."""
        return np.bincount(self._cells() % self.workers, minlength=self.workers)

    def listed(self) -> tuple[IntArray, IntArray]:
        """Key and worker of every pair."""
        keys, sent = np.divmod(self._cells(), self.workers)
        return keys if self._met is not None else (self._known or self._keys).keys[keys], sent

"""A hash table in compiled code: 64-bit keys to dense numbers 0, 1, 2, ... in order of first appearance."""

from __future__ import annotations

import numpy as np
from numpy import uint64

from keyshift.models.compiling import njit, sealed
from keyshift.models.splitting import kernels
from keyshift.models.workload import IntArray

EMPTY = -1
SPREAD = np.uint64(0x9E3779B97F4A7C15)


@njit(inline="always")
def _slot(key, shift):
    mixed = uint64(key) ^ (uint64(key) >> uint64(32))
    return np.int64((mixed * SPREAD) >> shift)


@njit(cache=True)
def _number(keys, out, table, shift, known, count, learn):
    """Number keys until done or the list of known keys is full; returns how many were treated, and the count.

    Without `learn` no key is added: those that are not known get -1.
    """
    mask = table.size - 1
    for i in range(keys.size):
        at = _slot(keys[i], shift)
        while table[at] != EMPTY and known[table[at]] != keys[i]:
            at = (at + 1) & mask
        if learn and table[at] == EMPTY:
            if count == known.size:
                return i, count
            known[count] = keys[i]
            table[at] = count
            count += 1
        out[i] = table[at]
    return keys.size, count


class KeyIndex:
    """Numbers keys in order of first appearance; linear probing in a table at most half full.

    Attributes
    ----------
    count : int
        Number of different keys met.
    """

    def __init__(self, size: int = 1 << 10) -> None:
        self.count = 0
        self._known = np.empty(size, dtype=np.int64)
        self._make_table()

    def _make_table(self) -> None:
        slots = 2 * self._known.size
        self._table = np.full(slots, EMPTY, dtype=np.int64)
        self._shift = np.uint64(64 - (slots.bit_length() - 1))

    @property
    def keys(self) -> IntArray:
        """The different keys, in order of first appearance."""
        return self._known[: self.count].copy()

    def number(self, keys: IntArray) -> IntArray:
        """The number of each key; keys not met before take the next ones."""
        keys, out = sealed(keys), np.empty(keys.size, dtype=np.int64)
        done = 0
        while done < keys.size:
            step, self.count = _number(keys[done:], out[done:], self._table, self._shift, self._known, self.count, True)
            done += step
            if done < keys.size:
                before, self._known = self._known, np.empty(2 * self.count, dtype=np.int64)
                self._make_table()
                _number(sealed(before), np.empty_like(before), self._table, self._shift, self._known, 0, True)
        return out

    def find(self, keys: IntArray) -> IntArray:
        """The number of each key, -1 for keys not met."""
        out = np.empty(keys.size, dtype=np.int64)
        _number(sealed(keys), out, self._table, self._shift, self._known, self.count, False)
        return out


# Which key meets which worker: the different (key, worker) pairs of a stream under an assignment -----------------------


class KeyWorkerPairs:
    """The pairs met so far, as a table of bits with a row for each key: of a million keys and a hundred workers it is 13 MB.

    Parameters
    ----------
    hashed : tuple of uint64, uint64, int
        Seed of the hash functions, workers, and candidates of a key; 0 where every worker is one.
    known : KeyIndex, optional
        Knows all keys already, which saves numbering them.
    numbered : bool, default False
        Number the pairs, for `add` to say.
    """

    def __init__(
        self, hashed: tuple[np.uint64, np.uint64, int], known: KeyIndex | None = None, numbered: bool = False
    ) -> None:
        self.hashed, self.workers = hashed, int(hashed[1])
        self._known, self._keys, self._pairs = known, known or KeyIndex(), KeyIndex() if numbered else None
        self._met = np.zeros((0, -(-self.workers // 8)), dtype=np.uint8)
        self._counters, self._tally = np.zeros(self.workers, dtype=np.int64), np.zeros(2, dtype=np.int64)

    def add(self, keys: IntArray, sent: np.ndarray) -> IntArray | None:
        """Meet some more; their pairs' numbers, where they have any."""
        numbers = self._keys.number(keys) if self._known is None else self._keys.find(keys)
        if self._keys.count > (rows := self._met.shape[0]):
            longer = np.zeros((max(self._keys.count, 2 * rows), self._met.shape[1]), dtype=np.uint8)
            longer[:rows] = self._met
            self._met = longer
        kernels.meet(keys, numbers, sent, self._met, self._counters, self._tally, self.hashed)
        return None if self._pairs is None else self._pairs.number(numbers * self.workers + sent)

    @property
    def count(self) -> int:
        """How many pairs."""
        return int(self._tally[0])

    @property
    def keys(self) -> int:
        """How many keys."""
        return self._keys.count

    @property
    def counters(self) -> IntArray:
        """How many keys each worker met, shape (W,)."""
        return self._counters.copy()

    @property
    def strangers(self) -> bool:
        """Whether a worker meets a key whose candidate it is not."""
        return bool(self._tally[1])

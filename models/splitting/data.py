"""The data of key splitting: a stream of keys with their weights, the workers, and the hash functions that name candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy import uint64
from numpy.typing import ArrayLike

from keyshift.models.base import guards
from keyshift.models.base.compiling import njit, sealed
from keyshift.models.base.labels import aligned
from keyshift.models.errors import InputError
from keyshift.models.problem import Problem
from keyshift.models.splitting import hashing
from keyshift.models.splitting.hashing import candidates
from keyshift.models.splitting.stream import Stream, as_keys
from keyshift.models.workload import FloatArray, IntArray

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

MOST_CELLS = 1 << 30
"""Keys that are small whole numbers are met in a table of at most so many bits, one for each (key, worker), others by
hashing: of a million keys and a hundred workers the table is 13 MB, and what is met often stays in the caches."""


class KeyWorkerPairs:
    """The pairs met so far.

    Parameters
    ----------
    hashed : tuple of uint64, uint64, int
        Seed of the hash functions, workers, and candidates of a key; 0 where every worker is one.
    known : KeyIndex, optional
        All keys are numbered already.
    numbered : bool, default False
        Number the pairs, for `add` to say.
    """

    def __init__(
        self, hashed: tuple[np.uint64, np.uint64, int], known: KeyIndex | None = None, numbered: bool = False
    ) -> None:
        self.hashed, self.workers = hashed, int(hashed[1])
        self._known, self._keys, self._pairs = known, KeyIndex(), KeyIndex()
        self._met: np.ndarray | None = None if numbered else self._table(0)
        self._counters, self._tally = np.zeros(self.workers, dtype=np.int64), np.zeros(3, dtype=np.int64)

    def add(self, keys: IntArray, sent: np.ndarray) -> IntArray | None:
        """Meet some more; their pairs' numbers, where they have any."""
        if self._met is not None:
            done = hashing.meet(keys, sent, self._met, self._counters, self._tally, self.hashed)
            if done == keys.size:
                return None
            if self._grown_to(int(keys[done:].min()), int(keys[done:].max())):
                return self.add(keys[done:], sent[done:])
        return self._number(keys, sent)

    def _table(self, rows: int) -> np.ndarray:
        """Bits that are not set, a row for each key; in whole words, so that those of no key are passed over by eights."""
        width = -(-self.workers // 8)
        return np.zeros(rows * width // 8 + 1, dtype=np.uint64).view(np.uint8)[: rows * width].reshape(rows, width)

    def _grown_to(self, first: int, last: int) -> bool:
        """A longer table for these keys; without one, where they are too far apart, all pairs are numbered from now on."""
        assert self._met is not None
        rows = self._met.shape[0]
        if first >= 0 and (last + 1) * self.workers <= MOST_CELLS:
            longer = self._table(min(max(last + 1, 2 * rows), MOST_CELLS // self.workers))
            longer[:rows] = self._met
            self._met = longer
            return True
        before = np.empty(self.count, dtype=np.int64)
        hashing.list_met(np.asarray(self._met.base), self._met.shape[1], self.workers, before)
        self._met = None
        self._number(*np.divmod(before, self.workers))
        return False

    def _number(self, keys: IntArray, sent: np.ndarray) -> IntArray:
        numbers = self._keys.number(keys) if self._known is None else self._known.find(keys)
        return self._pairs.number(numbers * self.workers + sent)

    @property
    def count(self) -> int:
        """How many pairs."""
        return self._pairs.count if self._met is None else int(self._tally[0])

    @property
    def keys(self) -> int:
        """How many keys."""
        return (self._known or self._keys).count if self._met is None else int(self._tally[1])

    @property
    def counters(self) -> IntArray:
        """How many keys each worker met, shape (W,)."""
        if self._met is not None:
            return self._counters.copy()
        return np.bincount(self._pairs.keys % self.workers, minlength=self.workers)

    @property
    def strangers(self) -> bool:
        """Whether a worker meets a key whose candidate it is not."""
        if self._met is not None or self.hashed[2] == 0:
            return bool(self._tally[2])
        keys, sent = np.divmod(self._pairs.keys, self.workers)
        known = candidates((self._known or self._keys).keys[keys], self.workers, self.hashed[2], int(self.hashed[0]))
        return bool((known != sent[:, None]).all(axis=1).any())


MOST_CHOICES = 1 << 10


@dataclass(frozen=True)
class Histogram:
    """The different keys in order of first appearance; `messages` and `weight` of each, all of shape (keys,)."""

    keys: IntArray
    messages: IntArray
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class KeyStream(Problem):
    """The data of `KeySplitting`, which says what they are, and what follows from them alone."""

    one_place: ClassVar[bool] = False
    """Whether all messages of a key go to one worker."""
    ruleless: ClassVar[str] = "a key's workers are those that its hashes say"

    stream: Any
    workers: Any = 10
    choices: int | None = 2
    sources: int = 1
    feed: Literal["shuffle", "key"] = "shuffle"
    source_keys: Any = None
    weights: Any = None
    hash_seed: int = 0
    aggregation_period: int | None = None
    column: str | None = None
    speeds: FloatArray = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._put("speeds", read_speeds(self.workers))
        self._put("workers", self.speeds.size)
        self._put("choices", guards.whole("choices", self.choices, least=1))
        if self.choices is not None and self.choices > MOST_CHOICES:
            raise InputError(f"choices = {self.choices} must be at most {MOST_CHOICES}; None opens every worker")
        self._put("sources", guards.whole("sources", self.sources, least=1, optional=False))
        self._put("hash_seed", guards.whole("hash_seed", self.hash_seed, optional=False))
        if self.hash_seed >= 2**32 - MOST_CHOICES:
            raise InputError(f"hash_seed = {self.hash_seed} must be below 2^32 - {MOST_CHOICES}")
        self._put("aggregation_period", guards.whole("aggregation_period", self.aggregation_period, least=1))
        guards.one_of("feed", self.feed, ("shuffle", "key"))
        held = {"stream": self.stream if hasattr(self.stream, "axes") else None, "weights": self.weights}
        for name, values in aligned({**held, "source_keys": self.source_keys}, what="")[0].items():
            self._put(name, values)
        self._put("stream", Stream.of(self.stream, None if isinstance(self.stream, Stream) else self.column))
        if self.weights is not None:
            self._put("weights", guards.non_negative("weights", self.weights, length=self.messages, of="messages"))
            if not np.isfinite(self.total_weight):
                raise InputError("weights sum to more than a float can hold")
        if self.source_keys is not None:
            if self.feed != "key":
                raise InputError("source_keys are given, but feed = 'shuffle' does not use them")
            self._put("source_keys", as_keys(self.source_keys))
            if self.source_keys.size != self.messages:
                raise InputError(f"source_keys has {self.source_keys.size} entries, expected {self.messages}")

    @property
    def messages(self) -> int:
        """Number of messages, m."""
        return int(self.stream.messages)

    @property
    def total_weight(self) -> float:
        """Weight of all messages; m without weights."""
        return float(self.messages) if self.weights is None else float(self.weights.sum())

    @property
    def equal_speeds(self) -> bool:
        """Whether all workers have speed 1."""
        return bool((self.speeds == 1.0).all())

    @property
    def counts(self) -> bool:
        """Whether loads are numbers of messages: no weights, and equal workers of speed 1."""
        return self.weights is None and self.equal_speeds

    @property
    def histogram(self) -> Histogram:
        """How often each key occurs; one pass over the stream, memory for each different key."""
        return self._counted[0]

    @property
    def counted(self) -> bool:
        """Whether the histogram has been computed already."""
        return "_counted" in self.__dict__

    @property
    def index(self) -> KeyIndex:
        """The number of each key in the histogram."""
        return self._counted[1]

    @cached_property
    def _counted(self) -> tuple[Histogram, KeyIndex]:
        """The messages of each key, their weights, and the index of their numbers."""
        index = KeyIndex()
        messages, weight = np.zeros(0, dtype=np.int64), np.zeros(0)
        for _, keys, weights in parts(self):
            numbers = index.number(keys)
            messages = grown(messages, index.count)
            np.add.at(messages, numbers, 1)
            if weights is not None:
                weight = grown(weight, index.count)
                np.add.at(weight, numbers, weights)
        messages = messages[: index.count].copy()
        if self.weights is None:
            return Histogram(index.keys, messages, messages.astype(np.float64)), index
        return Histogram(index.keys, messages, weight[: index.count].copy()), index


def parts(problem: KeyStream) -> Iterator[tuple[slice, IntArray, FloatArray | None]]:
    """The stream chunk by chunk: which messages, their keys, their weights."""
    begin = 0
    for keys in problem.stream.chunks():
        where = slice(begin, begin + keys.size)
        yield where, keys, None if problem.weights is None else problem.weights[where]
        begin += keys.size


def grown(array: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    """The array, or one of at least `size` entries that begins with it; doubles, so that growing is cheap."""
    if array.size >= size:
        return array
    longer = np.full(max(size, 2 * array.size), fill, dtype=array.dtype)
    longer[: array.size] = array
    return longer


def read_speeds(workers: int | ArrayLike) -> FloatArray:
    """Speeds from a number of workers (all 1) or from an array of speeds (all > 0)."""
    if np.ndim(workers) == 0:
        number = guards.whole("workers", workers, least=1, optional=False)
        return guards.frozen(np.ones(number))
    return guards.positive("workers", workers, "speed")

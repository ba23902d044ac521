"""The data of key splitting: a stream of keys with their weights, the workers, and the hash functions that name candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base import guards
from keyshift.models.base.labels import aligned
from keyshift.models.errors import InputError
from keyshift.models.problem import Problem
from keyshift.models.splitting.stream import Stream, as_keys
from keyshift.models.workload import FloatArray, IntArray

if TYPE_CHECKING:
    from keyshift.models.splitting.key_index import KeyIndex

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
        """The messages of each key, their weights, and the index that knows their numbers."""
        from keyshift.models.splitting.key_index import KeyIndex

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
    speeds = guards.non_negative("workers", workers)
    if (speeds == 0).any():
        raise InputError(f"workers[{int(np.argmin(speeds))}] = 0: a speed must be above 0")
    return speeds

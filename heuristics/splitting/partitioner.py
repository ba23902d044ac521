"""A partitioner that is fed a stream chunk by chunk and never holds it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from keyshift.heuristics.splitting import scheme_kernels as kernels
from keyshift.heuristics.splitting.scheme_kernels import empty_sketch
from keyshift.models import InputError
from keyshift.models.base import guards
from keyshift.models.base.compiling import sealed
from keyshift.models.base.guards import non_negative, whole
from keyshift.models.base.labels import aligned
from keyshift.models.splitting.data import KeyIndex, grown, read_speeds
from keyshift.models.splitting.hashing import candidates
from keyshift.models.splitting.stream import CHUNK, as_keys
from keyshift.models.workload import FloatArray, IntArray

Scheme = Literal["hash", "shuffle", "pkg", "greedy-d", "potc", "on-greedy", "d-choices", "w-choices"]
Estimate = Literal["local", "global"]
SCHEMES: tuple[Scheme, ...] = ("hash", "shuffle", "pkg", "greedy-d", "potc", "on-greedy", "d-choices", "w-choices")


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """For all partitioners of a process: starting threads for a chunk took as long as a source's part of it."""
    return ThreadPoolExecutor(os.cpu_count() or 1)


class Partitioner:
    """Decides for each message, when it arrives, which worker gets it.

    A stream fed in chunks gets the same decisions as a stream fed at once. Memory does not grow with the stream,
    except in "potc" and "on-greedy", which must remember where they put each key.

    Parameters
    ----------
    scheme : {"hash", "shuffle", "pkg", "greedy-d", "potc", "on-greedy", "d-choices", "w-choices"}
    workers : int or array_like, shape (W,)
        Number of workers, or their speeds.
    choices : int or None, default 2
        d of "greedy-d" and "potc"; None opens all workers. The other schemes have their own.
    sources : int, default 1
        S, sources that decide, each for its own messages.
    feed : {"shuffle", "key"}, default "shuffle"
        Which messages a source sends: every S-th, or those whose key (or source key) hashes to it.
    estimate : {"local", "global"}, default "local"
        What a source counts of the workers' loads: the messages that it sent itself (L), or all messages (G).
    probe_every : int, optional
        With "local": every so many messages of the stream all sources learn the true loads (LP).
    hash_seed : int, default 0
    threshold : float, optional
        "d-choices", "w-choices": a key of at least this frequency belongs to the head; 1 / (5 W) by default.
    slack : float, default 1e-4
        "d-choices": the imbalance that is tolerated, epsilon.
    counters : int, optional
        "d-choices", "w-choices": C of each source's sketch of heavy keys; 2 / threshold by default,
        which overestimates a frequency by at most half the threshold.

    Attributes
    ----------
    messages : int
        Messages fed so far.

    Notes
    -----
    Sources: [Nasir2015], sections 3, 5 and 6.2; for D-Choices and W-Choices [Nasir2016], sections III and IV, written
    without access to that paper: check the threshold, both rules and epsilon against it.
    Departures: with workers of different speeds, the message goes to the worker whose load would be least with it;
    D-Choices computes d again when the number of a source's messages has doubled, or after 10,000 of them, not at every
    message; the sketch is not SpaceSaving, but one of the same guarantee whose counters are found in a tenth of the time.
    Sources with estimates of their own decide side by side, in threads, where a chunk is long: what one decides
    depends on no other.
    """

    def __init__(
        self,
        scheme: Scheme = "pkg",
        workers: int | ArrayLike = 10,
        choices: int | None = 2,
        *,
        sources: int = 1,
        feed: Literal["shuffle", "key"] = "shuffle",
        estimate: Estimate = "local",
        probe_every: int | None = None,
        hash_seed: int = 0,
        threshold: float | None = None,
        slack: float = 1e-4,
        counters: int | None = None,
    ) -> None:
        guards.one_of("scheme", scheme, SCHEMES)
        guards.one_of("estimate", estimate, ("local", "global"))
        guards.one_of("feed", feed, ("shuffle", "key"))
        self.scheme, self.feed_by, self.estimate = scheme, feed, estimate
        self.speeds: FloatArray = read_speeds(workers)
        self.workers = self.speeds.size
        self.choices = whole("choices", choices, least=1)
        self.sources = whole("sources", sources, least=1, optional=False)
        self.probe_every = whole("probe_every", probe_every, least=1) or 0
        self.hash_seed = whole("hash_seed", hash_seed, optional=False)
        self.messages = 0
        self._over_time: dict[int, float] = {1: 0, 3: 0}  # sums over time of the highest and of the whole load
        self._equal = bool((self.speeds == 1.0).all())
        self._counting: bool | None = None  # known with the first chunk: counts, or sums of weights
        self._threshold = 1 / (5 * self.workers) if threshold is None else float(threshold)
        if not 0 < self._threshold <= 1:
            raise InputError(f"threshold = {threshold} must be above 0 and at most 1")
        self._slack, self._counters = float(slack), whole("counters", counters, least=1)
        self._lay_out()

    # Feeding ----------------------------------------------------------------------------------------------------

    def feed(
        self, keys: ArrayLike, weights: ArrayLike | None = None, source_keys: ArrayLike | None = None, out: Any = None
    ) -> np.ndarray:
        """Decide for the next messages.

        Parameters
        ----------
        keys : array_like of int or str, shape (messages,)
        weights : array_like, optional
            Give them with every chunk or with none.
        source_keys : array_like, optional
            The keys by which the messages come to the sources, if not `keys`.
        out : ndarray of int32, optional
            The array to write the answer to.

        Returns
        -------
        ndarray of int32, shape (messages,)
            The worker of each message.
        """
        if any(hasattr(values, "axes") for values in (keys, weights, source_keys)):
            given = aligned({"keys": keys, "weights": weights, "source_keys": source_keys}, what="")[0]
            keys, weights, source_keys = given["keys"], given.get("weights"), given.get("source_keys")
        ready = isinstance(keys, np.ndarray) and keys.dtype == np.int64 and keys.ndim == 1
        known = sealed(np.asarray(keys) if ready else as_keys(keys, self.messages))
        if known.size == 0:
            return np.empty(0, dtype=np.int32)
        if weights is not None:
            weights = sealed(non_negative("weights", weights, length=known.size, of="messages"))
        self._begin(counting=weights is None and self._equal, weighted=weights is not None)
        sent = np.empty(known.size, dtype=np.int32) if out is None else out
        by = known if source_keys is None else as_keys(source_keys, self.messages)
        decide = self._in_turn if self.scheme == "shuffle" else self._greedy
        decide(known, weights, self._sources_of(by), sent)
        for part in (1, 3):  # Python's integers do not overflow on a stream without end
            self._over_time[part] += self._tally[part].item()
            self._tally[part] = 0
        self.messages += known.size
        return sent

    def _begin(self, counting: bool, weighted: bool) -> None:
        """Lay out the loads when the first chunk says whether they are counts."""
        if self._counting is None:
            self._counting, self._weighted = counting, weighted
            kind = np.int64 if counting else np.float64
            exact = self.sources == 1 or self.estimate == "global"
            self._estimates = np.zeros((1 if exact else self.sources, self.workers), dtype=kind)
            self._apart = not exact
            self._loads = self._estimates[0] if exact else np.zeros(self.workers, dtype=kind)
            self._tally = np.zeros(4, dtype=kind)
            self._rooms = [kernels.room(max(self.workers, self.choices or 0)) for _ in self._estimates]
            self._hand = np.zeros((self._estimates.shape[0], 2), dtype=np.int64)
        elif weighted != self._weighted:
            raise InputError("weights must come with all chunks or with none")

    def _sources_of(self, keys: IntArray) -> list[Any]:
        """For each source, which messages it sends."""
        if self.sources == 1:
            return [slice(None)]
        if self.feed_by == "shuffle":
            return [slice((s - self.messages) % self.sources, None, self.sources) for s in range(self.sources)]
        # A hash function that no candidate comes from: else a source's keys would share their candidates.
        source = candidates(keys, self.sources, 1, 2**32 - 1 - self.hash_seed)[:, 0]
        return [np.flatnonzero(source == s) for s in range(self.sources)]

    def _at_each(self, work: Callable[[int], None], messages: int) -> None:
        """Do a source's work for all sources: in threads once the kernels are compiled, where it is worth one."""
        if self.sources > 1 and messages >= CHUNK // 4 and self.messages > 0:
            list(_threads(os.getpid()).map(work, range(self.sources)))
        else:
            list(map(work, range(self.sources)))

    # The schemes ------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """What the scheme remembers."""
        self._turns = np.zeros(self.sources, dtype=np.int64)
        self._index = KeyIndex() if self.scheme in ("potc", "on-greedy") else None  # of the keys that stay in a place
        self._place_of = np.zeros(0, dtype=np.int64)
        self._sketch: kernels.Sketch | None = None
        if self.scheme in ("d-choices", "w-choices"):
            counters = self._counters or int(np.ceil(2 / self._threshold))
            self._sketch = empty_sketch(self.sources, counters)
            self._seen = np.zeros(self.sources, dtype=np.int64)
            self._chosen = np.zeros((self.sources, 2), dtype=np.int64)
        self._d = {"hash": 1, "pkg": 2, "on-greedy": 0}.get(self.scheme, self.choices) or 0  # 0: all workers

    @property
    def _speeds(self) -> FloatArray | None:
        return None if self._equal else self.speeds

    @property
    def _hashed(self) -> kernels.HashedWorkers:
        return kernels.HashedWorkers(np.uint64(self.hash_seed), np.uint64(self.workers))

    @property
    def _probes(self) -> kernels.Probes:
        return kernels.Probes(self.messages, self.probe_every)

    @property
    def _books(self) -> kernels.WorkerBooks:
        return kernels.WorkerBooks(self._estimates, self._loads, self._apart)

    def _greedy(self, keys: IntArray, weights: Any, sources: list[Any], out: np.ndarray) -> None:
        probed = self._apart and self.probe_every and -self.messages % self.probe_every < keys.size
        if self._counting and self._index is None and not probed:
            return self._counted(keys, sources, out)
        choices = self._choices(keys, sources)
        numbers = np.zeros(0, dtype=np.int64) if self._index is None else self._index.number(keys)
        if self._index is not None:
            self._place_of = grown(self._place_of, self._index.count, fill=-1)
        kernels.greedy(
            keys, *self._filled(weights, sources, keys.size), self._books, self._speeds, self._hashed, choices,
            self._probes, numbers, self._place_of, self._tally, out,
        )  # fmt: skip
        return None

    def _choices(self, keys: IntArray, sources: list[Any]) -> IntArray:
        """How many candidates each message has, 0 for all workers."""
        choices = np.full(keys.size, self._d)

        def count(s: int) -> None:
            choices[sources[s]] = self._count(s, *self._own(keys, sources[s]))

        if self._sketch is not None:
            self._at_each(count, keys.size)
        return choices

    def _own(self, keys: IntArray, mine: Any) -> tuple[IntArray, kernels.Own]:
        """Where a source's keys are: every so many-th of all, or picked out."""
        if isinstance(mine, slice):
            return keys, kernels.Own(mine.start or 0, mine.step or 1)
        return sealed(keys[mine]), kernels.Own(0, 1)

    def _count(self, s: int, keys: IntArray, own: kernels.Own) -> IntArray:
        """How many candidates each message of a source has by its sketch, 0 for all workers."""
        sketch, at = kernels.Sketch(*(part[s] for part in self._sketch)), 0  # type: ignore[union-attr]
        found = np.empty(len(range(own.first, keys.size, own.every)), dtype=np.int64)
        while at < found.size:
            seen, (chosen, when) = int(self._seen[s]), self._chosen[s].tolist()
            due = min(2 * when, when + 10_000) if self.scheme == "d-choices" else np.iinfo(np.int64).max
            candidates = 0 if chosen >= self.workers else chosen
            stop = kernels.count_choices(keys, own, sketch, self._threshold, seen, candidates, due, at, found)
            self._seen[s] = seen + min(stop + 1, found.size) - at
            if stop < found.size:
                d = kernels.choices_for_head(
                    sketch.often, sketch.used[1], self._seen[s], self._threshold, self.workers, self._slack
                )
                self._chosen[s] = d, self._seen[s]
                found[stop] = 0 if d >= self.workers else d
            at = stop + 1
        return found

    def _counted(self, keys: IntArray, sources: list[Any], out: np.ndarray) -> None:
        """Messages that all weigh the same, to equal workers: every source on its own, where it has its own estimates."""
        empty = np.zeros(0, dtype=np.int64)

        def send(s: int) -> None:
            at, own = self._own(keys, sources[s])
            choices = empty if self._sketch is None else self._count(s, at, own)
            if self._sketch is None and self._d != 2:
                choices = np.full(len(range(own.first, at.size, own.every)), self._d)
            sent = out if isinstance(sources[s], slice) else np.empty(at.size, dtype=np.int32)
            self._send_counted(at, own, choices, s, np.zeros(4, dtype=np.int64), sent)
            if sent is not out:
                out[sources[s]] = sent

        if self._apart:
            self._at_each(send, keys.size)
            kernels.follow_counts(out, self._loads, self._tally)
        else:
            choices = empty if self._d == 2 and self._sketch is None else self._choices(keys, sources)
            self._send_counted(keys, kernels.Own(0, 1), choices, 0, self._tally, out)

    def _send_counted(
        self, keys: IntArray, own: kernels.Own, choices: IntArray, s: int, tally: IntArray, out: np.ndarray
    ) -> None:
        estimates, hand, room = self._estimates[s], self._hand[s], self._rooms[s]
        kernels.send_counted(keys, own, choices, self._hashed, estimates, hand, room, tally, out)

    def _in_turn(self, keys: IntArray, weights: Any, sources: list[Any], out: np.ndarray) -> None:
        filled = self._filled(weights, sources, keys.size)
        kernels.in_turn(*filled, self._turns, self._loads, self._speeds, self._tally, out)

    def _filled(self, weights: Any, sources: list[Any], messages: int) -> tuple[np.ndarray, IntArray]:
        """Weights and sources spelt out, which spares the kernels a compilation for every omission."""
        source = np.zeros(messages, dtype=np.int64)
        for s, mine in enumerate(sources):
            source[mine] = s
        return sealed(np.ones(messages, dtype=self._tally.dtype)) if weights is None else weights, source

    # What has become of it --------------------------------------------------------------------------------------

    @property
    def loads(self) -> FloatArray:
        """Load of each worker so far, per unit of speed, shape (W,)."""
        if self._counting is None:
            return np.zeros(self.workers)
        return np.asarray(self._loads / self.speeds)

    @property
    def imbalance(self) -> float:
        """The current I(t): the largest load minus the load per unit of speed of all workers."""
        return float(self.loads.max() - self._mean(float(self.loads @ self.speeds)))

    @property
    def average_imbalance(self) -> float:
        """The mean of I over all messages so far, divided by their load; 0 before the first message."""
        if self.messages == 0:
            return 0.0
        peaks, over_time = self._over_time[1], self._over_time[3]
        return (peaks - self._mean(over_time)) / self.messages / (float(self._tally[2]) or 1.0)

    @property
    def head_choices(self) -> IntArray:
        """The d that each source of "d-choices" uses for its head now, shape (S,); 0 before its first head key."""
        return self._chosen[:, 0].copy()

    def _mean(self, load: float) -> float:
        return load / float(self.speeds.sum())

"""The value of an assignment of messages, as [Nasir2015] measures it; compiled code, so loaded on first use."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from keyshift.models.base.compiling import sealed
from keyshift.models.splitting import hashing
from keyshift.models.splitting.data import KeyIndex, KeyStream, KeyWorkerPairs, grown, parts
from keyshift.models.splitting.hashing import candidates
from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """Loads, counters and imbalances of a stream under an assignment.

    Attributes
    ----------
    loads : ndarray, shape (W,)
        Load of each worker at the end, per unit of speed.
    times, imbalance : ndarray
        Numbers of messages sent, and the imbalance I(t) = max_i L_i(t) - mean_i L_i(t) after them. The mean is the
        load per unit of speed of all workers together.
    average_imbalance : float
        The mean of I(t) over all messages, divided by the load of the whole stream: the paper's figure.
    counters : ndarray of int, shape (W,)
        Keys that each worker ever met: the counters it holds, without aggregation.
    keys : int
        Different keys.
    aggregator_messages : int or None
        Counters sent to the aggregator: (key, worker) pairs summed over the aggregation periods.
    pairs : KeyWorkerPairs
        Which key met which worker.
    """

    loads: FloatArray
    times: IntArray
    imbalance: FloatArray
    final_imbalance: float
    average_imbalance: float
    counters: IntArray
    keys: int
    aggregator_messages: int | None
    pairs: KeyWorkerPairs = field(repr=False)

    @classmethod
    def of(cls, problem: KeyStream, assignment: np.ndarray, points: int = 1000) -> Outcome:
        """Follow the stream once."""
        every = -(-problem.messages // max(1, points))
        series = np.zeros(problem.messages // every)
        loads, state = np.zeros(problem.workers), np.zeros(3)
        speeds = None if problem.equal_speeds else problem.speeds
        period, flushed, last = problem.aggregation_period, 0, np.zeros(0, dtype=np.int64)
        met = pairs_for(problem, numbered=period is not None)
        for where, keys, weights in parts(problem):
            sent = sealed(assignment[where])
            hashing.follow(sent, weights, speeds, loads, state, float(problem.speeds.sum()), series, every, where.start)
            numbers = met.add(keys, sent)
            if period is not None and numbers is not None:
                last = grown(last, met.count, fill=-1)
                flushed += hashing.count_flushes(numbers, last, period, where.start)
        peak, load, total = state
        return cls(
            loads=loads / problem.speeds,
            times=every * np.arange(1, series.size + 1),
            imbalance=series,
            final_imbalance=float((peak - load / float(problem.speeds.sum())) / (load or 1.0)),
            average_imbalance=float(total / problem.messages / (load or 1.0)),
            counters=met.counters,
            keys=met.keys,
            aggregator_messages=None if period is None else flushed,
            pairs=met,
        )

    @property
    def metrics(self) -> dict[str, float]:
        """The figures by their public names; the imbalances as fractions of the stream's load."""
        figures = {
            "average_imbalance": self.average_imbalance,
            "final_imbalance": self.final_imbalance,
            "imbalance": float(self.loads.max() - self.loads.mean()),
            "counters": float(self.counters.sum()),
            "most_counters": float(self.counters.max()),
            "counters_per_key": float(self.counters.sum() / self.keys),
            "keys": float(self.keys),
        }
        if self.aggregator_messages is not None:
            figures["aggregator_messages"] = float(self.aggregator_messages)
        return figures


def pairs_for(problem: KeyStream, numbered: bool = False) -> KeyWorkerPairs:
    """No pairs yet; the problem's own counts of its keys save a look at each."""
    hashed = np.uint64(problem.hash_seed), np.uint64(problem.workers), problem.choices or 0
    return KeyWorkerPairs(hashed, problem.index if problem.counted else None, numbered)


def pairs_of(problem: KeyStream, assignment: np.ndarray) -> KeyWorkerPairs:
    """Which key meets which worker."""
    met = pairs_for(problem)
    for where, keys, _ in parts(problem):
        met.add(keys, sealed(assignment[where]))
    return met


def first_stranger(problem: KeyStream, assignment: np.ndarray) -> tuple[int, int]:
    """Messages that go to none of their key's candidates: how many, and the first one."""
    count, first = 0, -1
    for where, keys, _ in parts(problem):
        known = candidates(keys, problem.workers, problem.choices or 0, problem.hash_seed)
        wrong = np.flatnonzero((known != assignment[where, None]).all(axis=1))
        first = where.start + int(wrong[0]) if count == 0 and wrong.size else first
        count += wrong.size
    return count, first


def first_split(problem: KeyStream, assignment: np.ndarray) -> tuple[int, int]:
    """Messages that do not go where the first message of their key went: how many, and the first one."""
    index, place_of = KeyIndex(), np.zeros(0, dtype=np.int64)
    count, first = 0, -1
    for where, keys, _ in parts(problem):
        numbers, sent = index.number(keys), assignment[where]
        known = place_of.size
        place_of = np.concatenate([place_of, np.full(index.count - known, -1)])
        new, at = np.unique(numbers, return_index=True)
        place_of[new[new >= known]] = sent[at[new >= known]]
        wrong = np.flatnonzero(place_of[numbers] != sent)
        first = where.start + int(wrong[0]) if count == 0 and wrong.size else first
        count += wrong.size
    return count, first


def jaccard(first: np.ndarray, second: np.ndarray) -> float:
    """Agreement of two assignments of the same stream: the Jaccard overlap of their (message, worker) pairs."""
    agree = int((np.asarray(first) == np.asarray(second)).sum())
    return agree / (2 * len(first) - agree)

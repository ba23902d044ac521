"""Key splitting ([Nasir2015]): who handles which message, and the same with every key kept in one place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from keyshift.models import records
from keyshift.models.base.compiling import sealed
from keyshift.models.base.labels import unlabelled
from keyshift.models.errors import InputError
from keyshift.models.problem import CheckReport, Limit, Violation
from keyshift.models.splitting import hashing
from keyshift.models.splitting.data import KeyIndex, KeyStream, KeyWorkerPairs, grown, parts
from keyshift.models.splitting.hashing import candidates
from keyshift.models.splitting.stream import CHUNK, lines_of, room_for_assignment
from keyshift.models.workload import FloatArray, IntArray

if TYPE_CHECKING:
    from keyshift.models.splitting.items import Items


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


@dataclass(frozen=True, eq=False)
class KeySplitting(KeyStream):
    r"""Send every message of a stream to a worker so that the largest load of a worker is as small as possible.

    Sets and data: messages t = 1..m with key :math:`k_t` and weight :math:`y_t` (1 unless given), workers i = 1..W
    with speed :math:`v_i` (1 unless given), and for every key its candidates :math:`C_k`: the workers to which d
    hash functions send it, which may coincide.

    Variables: :math:`x_{ti} \in \{0, 1\}`, whether message t goes to worker i, and the largest load :math:`L \ge 0`.

    .. math::

        \min L \quad \text{subject to}

        (1) \quad & \sum_i x_{ti} = 1                                && \text{for every } t \\
        (2) \quad & x_{ti} = 0                                       && \text{for } i \notin C_{k_t} \\
        (3) \quad & \tfrac{1}{v_i} \sum_t y_t x_{ti} \le L           && \text{for every } i

    Messages of equal weight whose keys have the same candidates are alike: one class c of :math:`n_c` messages, at
    most W (W + 1) / 2 classes for two choices, and :math:`x_{ci}` counts those that go to i. `objective` is L, in
    messages (weight per unit of speed). A key may be split over its candidates; `KeyPlacement` forbids it.

    Parameters
    ----------
    stream : array_like, path, callable or iterable
        Keys in arrival order, whole numbers or texts: an array; a Parquet file; or chunks of keys (a list, a
        function that returns an iterator, an iterator), of which only one is in memory at a time. See `Stream`.
    workers : int or array_like, shape (W,), default 10
        Number of workers, or their speeds (> 0). Afterwards `workers` is the number and `speeds` the array.
    choices : int or None, default 2
        d, hash functions for a key. None opens every worker to every key, as shuffle grouping does.
    sources : int, default 1
        S, sources that send the messages, each knowing only its own part of the stream.
    feed : {"shuffle", "key"}, default "shuffle"
        How the messages come to the sources: in turn, or by the hash of their key, or of `source_keys`.
    source_keys : array_like, shape (m,), optional
        With ``feed="key"``: another key by which the messages come to the sources.
    weights : array_like, shape (m,), optional
        Weight of each message, >= 0.
    hash_seed : int, default 0
        Seed of the hash functions; see `keyshift.models.splitting.hashing`.
    aggregation_period : int, optional
        The workers send their counters to the aggregator, and forget them, every so many messages of the stream.
    column : str, optional
        The column of keys, for a Parquet stream.

    Raises
    ------
    InputError
        Names the field, the position and the value that are wrong.

    Notes
    -----
    Source: Nasir, De Francisci Morales, Garcia-Soriano, Kourtellis, Serafini, *Partial Key Grouping:
    Load-Balanced Partitioning of Distributed Streams*, 2015. The paper has no optimum to compare with: (1)-(3) is
    the problem that its schemes answer online. Weights and speeds are ours.

    An assignment is the worker of each message, shape (m,). For a stream read by chunks it is a file on disk,
    mapped into memory, of 4 bytes a message. Schemes that ignore the candidates (shuffle, On-Greedy, Off-Greedy,
    W-Choices) answer the problem without (2); their solution's `problem` says so.
    """

    name: ClassVar[str] = "key-splitting"
    objective_name: ClassVar[str] = "largest worker load"

    def arguments(self) -> dict[str, Any]:
        given = super().arguments()
        return {**given, "workers": self.workers if self.equal_speeds else self.speeds, "column": None}

    @classmethod
    def from_path(cls, path: str | Path, *, last: int | None = None, **parameters: Any) -> Self:
        """Build the problem from a stream on disk: Parquet, or a text file (.txt) with one key, a text, a line."""
        if last is not None:
            raise InputError(f"last = {last}: {cls.name} is about a stream, which has no windows")
        source = Path(path)
        if source.suffix == ".json":
            raise InputError(f"{path}: a stream is a Parquet file, or a text file (.txt) with one key a line")
        if source.suffix != ".txt":
            return cls(source, **parameters)
        if not source.is_file():
            raise InputError(f"stream = {str(path)!r}: there is no such file")
        return cls(lambda: lines_of(source), **parameters)

    def relaxed(self, rules: set[str]) -> KeySplitting:
        """The same problem without some of its constraints: "candidates" is (2)."""
        return self.with_choices(None if "candidates" in rules else self.choices)

    def with_choices(self, choices: int | None) -> KeySplitting:
        """The same problem with another number of hash functions."""
        return self.changed(choices=choices)

    def changed(self, **changes: Any) -> Self:
        return super().changed(**{"workers": self.speeds, **changes})

    @property
    def limits(self) -> list[Limit]:
        made = []
        if self.choices is not None:
            at = lambda d: self.with_choices(int(d))  # noqa: E731
            made.append(Limit("choices", self.choices, at, ends=self.workers, whole=True))
        return [*made, Limit.of(self, "workers", whole=True, ordered=False)] if self.equal_speeds else made

    # What every problem answers ---------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """The mean load of a worker (1 when nothing weighs anything)."""
        return self.total_weight / float(self.speeds.sum()) or 1.0

    @cached_property
    def step(self) -> float:
        """One message if loads are numbers of messages."""
        return 1.0 if self.counts else 0.0

    def tolerance_of(self, objective: float) -> float:
        """A millionth of the largest load; `tolerance` if loads are numbers of messages."""
        return self.tolerance if self.counts else 1e-6 * objective

    def played(self) -> str:
        return (
            "Messages go where a hash and a rule send them, so nothing is moved by hand here: the page shows the figures of "
            "each answer and of every method instead."
        )

    def canonical(self, assignment: Any) -> np.ndarray:
        if isinstance(assignment, np.memmap) and assignment.dtype == np.int32 and assignment.shape == (self.messages,):
            self._refuse_unknown_workers(assignment)
            return assignment.view()  # on disk already: no second copy
        given = np.asarray(unlabelled("assignment", assignment))
        fixed = given.base is None and not given.flags.writeable  # it cannot be changed
        if fixed and given.dtype == np.int32 and given.shape == (self.messages,):
            self._refuse_unknown_workers(given)
            return given
        if given.shape != (self.messages,):
            raise InputError(f"assignment has shape {given.shape}, expected ({self.messages},): one worker a message")
        if given.dtype.kind not in "iuf":
            raise InputError("assignment must be an array of worker numbers")
        self._refuse_unknown_workers(given)
        nodes = room_for_assignment(self.stream)
        nodes[:] = given
        return nodes

    def _refuse_unknown_workers(self, given: np.ndarray) -> None:
        for begin in range(0, given.size, CHUNK):
            part = given[begin : begin + CHUNK]
            if part.dtype.kind != "f" and part.min() >= 0 and part.max() < self.workers:
                continue
            wrong = ~((part >= 0) & (part < self.workers))
            if part.dtype.kind == "f":
                wrong |= part != np.floor(part)
            if wrong.any():
                at = int(np.argmax(wrong))
                last = self.workers - 1
                said = f"assignment[{begin + at}] = {part[at]:g} is not a worker: they are numbered 0 to {last}"
                raise InputError(said)

    def loads(self, assignment: np.ndarray) -> FloatArray:
        """Load of every worker at the end of the stream, per unit of speed, shape (W,)."""
        total = np.zeros(self.workers)
        for begin in range(0, self.messages, CHUNK):
            part = slice(begin, begin + CHUNK)
            weights = None if self.weights is None else self.weights[part]
            total += np.bincount(assignment[part], weights=weights, minlength=self.workers)
        return total / self.speeds

    def objective(self, assignment: np.ndarray) -> float:
        return float(self.loads(assignment).max())

    def outcome(self, assignment: Any, points: int = 1000) -> Outcome:
        """The figures that the paper measures for an assignment: imbalance over time, loads, counters, aggregation.

        Parameters
        ----------
        assignment : array_like or Solution
        points : int, default 1000
            At most this many points of the imbalance over time.
        """
        return Outcome.of(self, self.canonical(getattr(assignment, "assignment", assignment)), points)

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        return self.outcome(assignment, points=1).metrics

    def record(self) -> records.Record:
        """The instance in exact numbers; items that are alike form a group with its candidates."""
        items = self._items
        groups = [
            {"candidates": [int(i) for i in options if i >= 0], "count": int(count)}
            for options, count in zip(items.options, items.count, strict=True)
        ]
        return {"speeds": records.amounts(items.speeds), "weights": records.amounts(items.weight), "groups": groups}

    def recorded(self, assignment: np.ndarray) -> list[list[int]]:
        """How many items of each group each of its candidates gets."""
        pairs = zip(self._items.share(assignment), self._items.options, strict=True)
        return [[int(x) for x, i in zip(row, options, strict=True) if i >= 0] for row, options in pairs]

    @cached_property
    def _items(self) -> Items:
        from keyshift.models.splitting.items import Items  # which compiles kernels: not before it is needed

        return Items.of(self)

    def check(self, assignment: Any) -> CheckReport:
        sent = self.canonical(assignment)
        outcome = Outcome.of(self, sent, points=1)
        broken = tuple(self._broken(sent, outcome.pairs))
        most = float(outcome.loads.max()) if self.weights is None else self.objective(sent)  # whole numbers are exact
        return CheckReport(not broken, broken, most, outcome.metrics)

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return self._broken(assignment, pairs_of(self, assignment))

    def _broken(self, sent: np.ndarray, met: KeyWorkerPairs) -> list[Violation]:  # (2)
        if not met.strangers:
            return []
        return [_violation("candidates", "go to no candidate of their key", first_stranger(self, sent), sent)]


def _violation(rule: str, what: str, found: tuple[int, int], sent: np.ndarray) -> Violation:
    count, first = found
    said = f"{count} messages {what}, first message {first} to worker {sent[first]}"
    return Violation(rule, said, first, float(count))


@dataclass(frozen=True, eq=False)
class KeyPlacement(KeySplitting):
    r"""Key splitting without the split: all messages of a key go to one of its candidates.

    `KeySplitting` has rows (1)-(3); this problem adds

    .. math:: (4) \quad x_{ti} = x_{ui} \quad \text{for all messages t, u of the same key and every i,}

    which makes it makespan scheduling with restricted assignment: the optimum to compare PoTC, and hashing with
    rebalancing, with. Keys of equal weight with the same candidates are interchangeable, and counted together. The
    parameters are those of `KeySplitting`.

    Notes
    -----
    Source: [Nasir2015], section 3.1, where static PoTC is the scheme that keeps (4).
    """

    name: ClassVar[str] = "key-placement"
    one_place: ClassVar[bool] = True

    def _broken(self, sent: np.ndarray, met: KeyWorkerPairs) -> list[Violation]:  # (4)
        broken = super()._broken(sent, met)
        if met.count != met.keys:
            broken.append(_violation("one_place", "leave their key's worker", first_split(self, sent), sent))
        return broken

    def relaxed(self, rules: set[str]) -> KeySplitting:
        """The same problem without some of its constraints: "candidates" is (2), "one_place" is (4)."""
        less = super().relaxed(rules)
        if "one_place" not in rules:
            return less
        given = {f.name: getattr(less, f.name) for f in dataclasses.fields(less) if f.init}
        return KeySplitting(**{**given, "workers": self.speeds})

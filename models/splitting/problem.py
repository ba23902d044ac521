"""Key splitting ([Nasir2015]): who handles which message, and the same with every key kept in one place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from keyshift.models import records
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.labels import unlabelled
from keyshift.models.errors import InputError
from keyshift.models.problem import CheckReport, Limit, Violation
from keyshift.models.splitting.data import KeyStream
from keyshift.models.splitting.stream import CHUNK, lines_of, room_for_assignment
from keyshift.models.workload import FloatArray

if TYPE_CHECKING:
    from keyshift.models.splitting.data import KeyWorkerPairs
    from keyshift.models.splitting.items import Items
    from keyshift.models.splitting.outcome import Outcome


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

    @property
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
        return _outcomes().Outcome.of(self, self.canonical(getattr(assignment, "assignment", assignment)), points)

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
        outcome = _outcomes().Outcome.of(self, sent, points=1)
        broken = tuple(self._broken(sent, outcome.pairs))
        most = float(outcome.loads.max()) if self.weights is None else self.objective(sent)  # whole numbers are exact
        return CheckReport(not broken, broken, most, outcome.metrics)

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return self._broken(assignment, _outcomes().pairs_of(self, assignment))

    def _broken(self, assignment: np.ndarray, met: KeyWorkerPairs) -> list[Violation]:
        return self._strangers(assignment, met)

    def _strangers(self, assignment: np.ndarray, met: KeyWorkerPairs) -> list[Violation]:  # (2)
        if not met.strangers:
            return []
        count, first = _outcomes().first_stranger(self, assignment)
        said = f"{count} messages go to no candidate of their key, first message {first} to worker {assignment[first]}"
        return [Violation("candidates", said, first, float(count))]


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

    def _broken(self, assignment: np.ndarray, met: KeyWorkerPairs) -> list[Violation]:
        return [*self._strangers(assignment, met), *self._split_keys(assignment, met)]

    def _split_keys(self, assignment: np.ndarray, met: KeyWorkerPairs) -> list[Violation]:  # (4)
        if met.count == met.keys:
            return []
        count, first = _outcomes().first_split(self, assignment)
        said = f"{count} messages leave their key's worker, first message {first} to worker {assignment[first]}"
        return [Violation("one_place", said, first, float(count))]

    def relaxed(self, rules: set[str]) -> KeySplitting:
        """The same problem without some of its constraints: "candidates" is (2), "one_place" is (4)."""
        less = super().relaxed(rules)
        if "one_place" not in rules:
            return less
        given = {f.name: getattr(less, f.name) for f in dataclasses.fields(less) if f.init}
        return KeySplitting(**{**given, "workers": self.speeds})


def _outcomes() -> ModuleType:
    """The code that measures assignments, whose kernels load when they are first needed, on no clock."""
    with off_clock():
        from keyshift.models.splitting import outcome

    return outcome

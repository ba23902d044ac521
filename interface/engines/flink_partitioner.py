"""Which subtask a key goes to, by the standard library alone: what a PyFlink program and its workers load.

PyFlink pins other versions of libraries that keyshift needs, so a PyFlink program usually runs where keyshift is not
installed. This file works on its own: copy it there (`flink.partitioner_file()` says where it is), together with what
`flink.write_routing` wrote, and ::

    import flink_partitioner
    rule = flink_partitioner.Routing.load("routing.json")
    stream.partition_custom(flink_partitioner.pyflink(rule), key_selector)
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

SCHEMES = ("table", "hash", "shuffle", "pkg", "greedy-d", "d-choices")
REFRESH, SLACK = 10_000, 1e-4
"""D-Choices: after so many records d is found anew at the latest; the imbalance that it tolerates."""


class Routing:
    """Decides for each record, as it comes, by what this sender has sent before.

    Parameters
    ----------
    scheme : {"table", "hash", "shuffle", "pkg", "greedy-d", "d-choices"}
        A table and the hash for all other keys; the hash alone; in turn; the less loaded of 2, or of `choices`,
        hashed subtasks ([Nasir2015]); of 2, and of as many as it takes for the heavy keys ([Nasir2016]).
    entries : mapping of keys to subtasks
        For "table".
    choices, seed : int
    """

    def __init__(
        self, scheme: str, entries: dict[str | int, int] | None = None, choices: int = 2, seed: int = 0
    ) -> None:
        if scheme not in SCHEMES:
            raise ValueError(f"{scheme!r} must be a routing table, or one of {', '.join(SCHEMES[1:])}")
        self.scheme, self.entries, self.seed = scheme, dict(entries or {}), seed
        self.choices = {"table": 1, "hash": 1, "shuffle": 1, "pkg": 2}.get(scheme, choices)
        if scheme == "greedy-d" and choices < 1:
            raise ValueError(f"choices = {choices} must be at least 1")
        self.sent: list[int] = []
        self.turn = -1
        self.heavy = HeavyKeys()

    def as_record(self) -> dict[str, Any]:
        """The rule as JSON can hold it, without what was sent."""
        entries = [[key, node] for key, node in self.entries.items()]
        return {
            "format": "keyshift-flink-routing", "version": 1, "scheme": self.scheme, "choices": self.choices,
            "seed": self.seed, "entries": entries,
        }  # fmt: skip

    @classmethod
    def load(cls, path: str) -> Routing:
        """Read what `flink.write_routing` wrote."""
        content = json.loads(Path(path).read_text())
        if (content.get("format"), content.get("version")) != ("keyshift-flink-routing", 1):
            raise ValueError(f"{path} is not a routing for Flink")
        return cls(content["scheme"], dict(map(tuple, content["entries"])), content["choices"], content["seed"])

    def candidates(self, key: object, workers: int, choices: int | None = None) -> list[int]:
        """The subtasks that a key's hashes allow, in the order of the hashes."""
        text = str(key).encode()
        return [_hash(text, self.seed + i) % workers for i in range(choices or self.choices)]

    def partition(self, key: object, workers: int) -> int:
        """The subtask of the next record."""
        if self.scheme == "shuffle":
            self.turn = (self.turn + 1) % workers
            return self.turn
        if self.scheme == "table" and key in self.entries:
            chosen = self.entries[key]  # type: ignore[index]
            if chosen >= workers:
                raise ValueError(f"the table sends {key!r} to subtask {chosen}: there are {workers}")
            return chosen
        choices = self.heavy.choices(key, workers) if self.scheme == "d-choices" else self.choices
        if choices == 1:
            return self.candidates(key, workers)[0]
        any_worker = self.scheme == "d-choices" and choices >= workers
        allowed = range(workers) if any_worker else self.candidates(key, workers, choices)
        if len(self.sent) != workers:
            self.sent = [0] * workers
        best = min(allowed, key=lambda i: self.sent[i])  # of equals the first
        self.sent[best] += 1
        return best


def _hash(text: bytes, seed: int) -> int:
    """Independent for each seed, which a CRC is not: there the first candidate would settle all others."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=b"%d" % seed).digest(), "big")


class HeavyKeys:
    """D-Choices: which keys are heavy, and how many subtasks these may choose from.

    SpaceSaving [Metwally2005] counts the keys, in 10 counters a worker: a key without one takes over the least. A key of at
    least 1 / (5 workers) of the records is heavy. The rules are those of `keyshift.Partitioner`, which says more of them.
    """

    def __init__(self) -> None:
        self.counts: dict[object, int] = {}
        self.seen = self.found_at = 0
        self.found = 2

    def choices(self, key: object, workers: int) -> int:
        """Count a record's key; the number of its candidates, all workers if as many."""
        if key not in self.counts and len(self.counts) >= 10 * workers:
            self.counts[key] = self.counts.pop(min(self.counts, key=self.counts.__getitem__))
        self.counts[key] = self.counts.get(key, 0) + 1
        self.seen += 1
        if 5 * workers * self.counts[key] < self.seen:
            return 2
        if self.seen >= min(2 * self.found_at, self.found_at + REFRESH):
            heavy = [n / self.seen for n in self.counts.values() if 5 * workers * n >= self.seen]
            self.found, self.found_at = least_choices(sorted(heavy, reverse=True), workers), self.seen
        return self.found


def least_choices(heavy: list[float], workers: int) -> int:
    """The least d at which no first h of the heavy keys must overload the workers they reach; `workers` if none below."""
    total = min(1.0, sum(heavy))
    for d in range(max(2, math.ceil(heavy[0] * workers)), workers):
        first = 0.0
        for h, share in enumerate(heavy, 1):
            first += share
            reached = 1 - (1 - 1 / workers) ** (h * d)
            if first + reached**d * (total - first) + reached**2 * (1 - total) > reached * (1 + SLACK * workers):
                break
        else:
            return d
    return workers


def pyflink(rule: Routing) -> Any:
    """A PyFlink ``Partitioner`` for ``DataStream.partition_custom``; PyFlink is imported here, not before."""
    from pyflink.datastream.functions import Partitioner as PyFlinkPartitioner

    class RoutingPartitioner(PyFlinkPartitioner):  # in here: only where there is PyFlink can it be
        """Asks the rule."""

        def partition(self, key: Any, num_partitions: int) -> int:
            return rule.partition(key, num_partitions)

    return RoutingPartitioner()

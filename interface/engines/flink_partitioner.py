"""Which subtask a key goes to, by the standard library alone: what a PyFlink program and its workers load.

PyFlink pins other versions of libraries that keyshift needs, so a PyFlink program usually runs where keyshift is not
installed. This file works on its own: copy it there (`flink.partitioner_file()` says where it is), together with what
`flink.write_routing` wrote, and ::

    import flink_partitioner
    rule = flink_partitioner.Routing.load("routing.json")
    stream.partition_custom(flink_partitioner.pyflink(rule), key_selector)
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

SCHEMES = ("table", "hash", "shuffle", "pkg", "greedy-d")


class Routing:
    """Decides for each record, as it comes, by what this sender has sent before.

    Parameters
    ----------
    scheme : {"table", "hash", "shuffle", "pkg", "greedy-d"}
        A table and the hash for all other keys; the hash alone; in turn; the less loaded of 2, or of `choices`,
        hashed subtasks ([Nasir2015]).
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

    def candidates(self, key: object, workers: int) -> list[int]:
        """The subtasks that a key's hashes allow, in the order of the hashes."""
        text = str(key).encode()
        return [zlib.crc32(b"%d:" % (self.seed + i) + text) % workers for i in range(self.choices)]

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
        allowed = self.candidates(key, workers)
        if len(allowed) == 1:
            return allowed[0]
        if len(self.sent) != workers:
            self.sent = [0] * workers
        best = min(allowed, key=lambda i: self.sent[i])  # of equals the first
        self.sent[best] += 1
        return best


def pyflink(rule: Routing) -> Any:
    """A PyFlink ``Partitioner`` for ``DataStream.partition_custom``; PyFlink is imported here, not before."""
    from pyflink.datastream.functions import Partitioner as PyFlinkPartitioner

    class RoutingPartitioner(PyFlinkPartitioner):  # in here: only where there is PyFlink can it be
        """Asks the rule."""

        def partition(self, key: Any, num_partitions: int) -> int:
            return rule.partition(key, num_partitions)

    return RoutingPartitioner()

"""Kafka without Kafka: its rules for a reassignment, read from its sources, and clusters drawn at random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


class Cluster:
    """A cluster that does what it is told, if Kafka would: the independent interpreter of what `export` writes."""

    def __init__(self, brokers: list[int], replicas: dict[tuple[str, int], list[int]]) -> None:
        self.brokers, self.replicas = set(brokers), {p: list(r) for p, r in replicas.items()}
        self.leader = {p: r[0] for p, r in replicas.items()}

    def reassign(self, file: Path) -> None:
        content = json.loads(file.read_text())
        assert content["version"] == 1
        listed = [(entry["topic"], entry["partition"]) for entry in content["partitions"]]
        assert len(set(listed)) == len(listed) > 0
        for entry in content["partitions"]:
            partition, replicas = (entry["topic"], entry["partition"]), entry["replicas"]
            assert partition in self.replicas, "a partition that does not exist"
            assert replicas, "no replica"
            assert len(set(replicas)) == len(replicas), "a replica twice"
            assert set(replicas) <= self.brokers, "no such broker"
            assert len(entry.get("log_dirs", replicas)) == len(replicas)
            self.replicas[partition] = replicas
            if self.leader[partition] not in replicas:  # a leader stays one as long as it holds a replica
                self.leader[partition] = replicas[0]

    def elect(self, file: Path) -> None:
        """The preferred replica is the first of the list."""
        for entry in json.loads(file.read_text())["partitions"]:
            partition = (entry["topic"], entry["partition"])
            self.leader[partition] = self.replicas[partition][0]

    def phase(self, folder: Path, number: int, what: str = "reassign") -> None:
        self.reassign(folder / f"{number:02}-{what}.json")
        if (elect := folder / f"{number:02}-elect.json").exists():
            self.elect(elect)

    def log_dirs(self, sizes: dict[tuple[str, int], int]) -> str:
        brokers: list[dict[str, Any]] = [
            {"broker": b, "logDirs": [{"logDir": "/data", "error": None, "partitions": [
                {"partition": f"{t}-{n}", "size": sizes[t, n], "offsetLag": 0, "isFuture": False}
                for (t, n), r in self.replicas.items() if b in r]}]}
            for b in sorted(self.brokers)
        ]  # fmt: skip
        text = json.dumps({"version": 1, "brokers": brokers})
        named = ",".join(map(str, sorted(self.brokers)))
        return (
            "Querying brokers for log directories information\n"
            f"Received log directory information from brokers {named}\n{text}\n"
        )

    def assignment(self) -> str:
        entries = [
            {"topic": t, "partition": n, "replicas": r, "log_dirs": ["any"] * len(r)}
            for (t, n), r in self.replicas.items()
        ]
        return "Current partition replica assignment\n" + json.dumps({"version": 1, "partitions": entries}) + "\n"


def drawn(rng: np.random.Generator) -> tuple[Cluster, dict[tuple[str, int], int], dict[int, str]]:
    """A cluster, the bytes of its partitions and its racks."""
    brokers = sorted(rng.choice(np.arange(1, 30), size=int(rng.integers(2, 8)), replace=False).tolist())
    racks = {b: "abc"[int(rng.integers(3))] for b in brokers}
    replicas = {}
    for topic in ["orders", "click-stream", "a.b_c"][: int(rng.integers(1, 4))]:
        copies = int(rng.integers(1, min(3, len(brokers)) + 1))
        for number in range(int(rng.integers(1, 8))):
            replicas[topic, number] = rng.choice(brokers, size=copies, replace=False).tolist()
    sizes = {p: int(rng.integers(0, 10**9)) for p in replicas}
    return Cluster(brokers, replicas), sizes, racks

"""What Cruise Control's goals say of a cluster of replicas: its documented limits, by code of our own.

A goal is given as the brokers (or partitions, or pairs of topic and broker) that break it; thresholds are the defaults of
Cruise Control's analyzer, but for the disk's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import keyshift as ks
from keyshift.engines.kafka_replicas import LEADER

BALANCE = 0.10
"""`*.balance.threshold` = 1.10, of replicas, leaders, disk, network and CPU."""
MARGIN = 0.9
"""What Cruise Control itself aims at, of these 10 %."""
CAPACITY = 0.8
"""`network.*.capacity.threshold`."""
MOST_REPLICAS = 10_000
TOPIC, TOPIC_GAPS = 2.0, (2, 40)
"""`topic.replica.count.balance.threshold` = 3.00, and how near to and far from the mean its limits may be."""


def outside(values: np.ndarray, low: float, high: float) -> int:
    return int(((values < low - 1e-9) | (values > high + 1e-9)).sum())


def most_of_topic(mean: np.ndarray) -> np.ndarray:
    """The most replicas of a topic on a broker, for means of topics."""
    return np.clip(np.ceil(mean * (1 + TOPIC * MARGIN)), *(np.ceil(mean) + gap for gap in TOPIC_GAPS))


def goals(w: ks.Workload, at: np.ndarray, room: dict[str, float], disk: float) -> Iterator[tuple[str, str, int]]:
    """Each goal, whether it is hard or soft, and how many break it.

    Parameters
    ----------
    at : ndarray
        The broker of each replica.
    room : dict
        Capacity of a broker for disk, network_in and network_out.
    disk : float
        `disk.capacity.threshold`.
    """
    alive, n = ~w.draining, w.nodes
    leads = np.array([role == LEADER for role in w.groups["role"]])
    partition = np.unique(np.array(w.groups["partition"]), return_inverse=True)[1]
    topic = np.unique(np.array(w.groups["topic"]), return_inverse=True)[1]
    rack = np.unique(np.array(w.domains["rack"]), return_inverse=True)[1]

    def held(weights: Any = None, of: np.ndarray | None = None) -> np.ndarray:
        chosen = np.ones(at.size, dtype=bool) if of is None else of
        return np.bincount(at[chosen], None if weights is None else weights[chosen], n)[alive]

    def near(values: np.ndarray, whole: bool, total: float) -> int:
        mean, share = total / alive.sum(), BALANCE * MARGIN
        low, high = mean * (1 - share), mean * (1 + share)
        return outside(values, np.floor(low) if whole else low, np.ceil(high) if whole else high)

    crowded = np.unique(partition * (rack.max() + 1) + rack[at], return_counts=True)
    yield "replicas on dead brokers", "hard", int((~alive[at]).sum())
    yield "RackAware", "hard", np.unique(crowded[0][crowded[1] > 1] // (rack.max() + 1)).size
    yield "ReplicaCapacity", "hard", outside(held(), 0, MOST_REPLICAS)
    use = w.resources
    for name, limit in (("disk", disk), ("network_in", CAPACITY), ("network_out", CAPACITY)):
        yield f"{SAID[name]}Capacity", "hard", outside(held(use[name]), 0, limit * room[name])
    yield "ReplicaDistribution", "soft", near(held(), True, at.size)
    lead = np.zeros(partition.max() + 1)
    lead[partition[leads]] = use["network_out"][leads]
    yield "PotentialNwOut", "soft", outside(held(lead[partition]), 0, CAPACITY * room["network_out"])
    for name in ("disk", "network_in", "network_out"):
        yield f"{SAID[name]}UsageDistribution", "soft", near(held(use[name]), False, use[name].sum())
    counts = np.bincount(topic * n + at, minlength=(topic.max() + 1) * n).reshape(-1, n)[:, alive]
    mean = np.bincount(topic)[:, None] / alive.sum()
    high = most_of_topic(mean)
    low = np.maximum(0, np.floor(mean) - TOPIC_GAPS[1])  # the threshold itself says 0
    yield "TopicReplicaDistribution", "soft", int(((counts < low) | (counts > high)).sum())
    yield "LeaderReplicaDistribution", "soft", near(held(of=leads), True, leads.sum())
    come = held(use["network_in"], leads)
    yield (
        "LeaderBytesInDistribution",
        "soft",
        outside(come, 0, (1 + BALANCE) * use["network_in"][leads].sum() / alive.sum()),
    )


SAID = {"disk": "Disk", "network_in": "NetworkInbound", "network_out": "NetworkOutbound"}

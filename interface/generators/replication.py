"""Instances of replicas of hot key groups."""

from __future__ import annotations

import numpy as np

from keyshift.models.replication import ReplicatedAllocation
from keyshift.models.workload import Workload


def zipf_replicas(
    *, nodes: int = 8, key_groups: int = 64, exponent: float = 1.0, more: float = 0.25, seed: int = 0
) -> ReplicatedAllocation:
    """Key groups with Zipf loads in random order, dealt out evenly, and a share of `more` copies than key groups."""
    rng = np.random.default_rng(seed)
    load = rng.permutation(np.arange(1, key_groups + 1) ** -float(exponent))
    current = rng.permutation(np.arange(key_groups) % nodes)
    copies = key_groups + int(more * key_groups)
    workload = Workload(load=1e4 * load / load.sum(), state=np.ones(key_groups), current=current, nodes=nodes)
    return ReplicatedAllocation(workload, copies, at_most=-(-copies // nodes))

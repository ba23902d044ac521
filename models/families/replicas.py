"""Replicas of partitions on racks, as Kafka keeps them, and the allocations under rules that they pose."""

from __future__ import annotations

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.errors import InputError
from keyshift.models.guards import whole
from keyshift.models.rules import Apart, Count
from keyshift.models.workload import MOST_NODES, Workload

COPIES = 3
"""Replicas of a partition."""
MOST_REPLICAS = 1_000_000


def replicated(rng: np.random.Generator, nodes: int, key_groups: int, racks: int = 4) -> Workload:
    """Replicas of partitions, each on a rack of its own; loads log-normal, alike within a partition; disk goes with load."""
    partitions = key_groups // COPIES
    load = np.repeat(rng.lognormal(0, 0.7, partitions), COPIES) * rng.uniform(0.8, 1.2, partitions * COPIES)
    rack = np.arange(nodes) % racks
    current = np.empty(load.size, dtype=np.int64)
    for g in range(partitions):
        for j, r in enumerate(rng.choice(racks, COPIES, replace=False)):
            current[g * COPIES + j] = rng.choice(np.flatnonzero(rack == r))
    disk = load * rng.uniform(0.5, 1.5, load.size)
    return Workload(
        load=load,
        state=disk,
        current=current,
        nodes=nodes,
        resources={"disk": disk},
        groups={"partition": np.repeat(np.arange(partitions), COPIES).tolist()},
        domains={"rack": [f"r{r}" for r in rack]},
    )


def replicas_allocation(
    nodes: int = 20, key_groups: int = 400, racks: int = 4, moved: float = 0.05, seed: int = 0
) -> KeyGroupAllocation:
    """Even replicas out: partitions apart by rack, no node with more replicas than one has today, disks 30 % above the mean.

    Parameters
    ----------
    nodes, key_groups, racks : int
        Node i is in rack ``i % racks``; of `key_groups` as many are drawn as make whole partitions of three.
    moved : float
        Share of the replicas that may move.
    seed : int
    """
    nodes = whole("nodes", nodes, least=1, most=MOST_NODES, optional=False)
    key_groups = whole("key_groups", key_groups, least=COPIES, most=MOST_REPLICAS, optional=False)
    racks = whole("racks", racks, least=COPIES, most=nodes, optional=False)
    if not 0 <= moved <= 1:
        raise InputError(f"moved = {moved:g}: it is a share of the replicas")
    w = replicated(np.random.default_rng([whole("seed", seed, optional=False), nodes, 1]), nodes, key_groups, racks)
    disk, here = w.resources["disk"], np.bincount(w.current, minlength=nodes)
    return KeyGroupAllocation(
        w,
        max_migrations=int(w.key_groups * moved),
        resource_capacity={"disk": float(max(1.3 * disk.sum() / nodes, np.bincount(w.current, disk).max()))},
        rules=[Apart(by="partition", domain="rack"), Count(at_most=int(here.max()))],
    )

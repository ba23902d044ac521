"""Synthetic workloads as [Madsen2016], sections 5.1 and 5.2, describes them, and the allocations they pose."""

from __future__ import annotations

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.guards import whole
from keyshift.models.errors import InputError
from keyshift.models.objectives import Over
from keyshift.models.rules import Apart, Count
from keyshift.models.workload import MOST_NODES, Workload


def synthetic_workload(
    nodes: int,
    key_groups: int,
    *,
    varies: float = 0.4,
    seed: int = 0,
    changed: float = 0.2,
    noise: float = 0.05,
    drain: int = 0,
) -> Workload:
    """Key groups spread evenly over the nodes, some of whose loads have just drifted.

    Every key group starts at load 1, give or take ``noise``. Then a share ``changed`` of the nodes drifts: one half
    of them gains ``varies / 2`` of its load and the other half loses as much, all of it on a random half of the
    node's key groups.

    Parameters
    ----------
    nodes, key_groups : int
        Key group k starts on node ``k % nodes``.
    varies : float, default 0.4
        The paper's *varies*; a drifting node changes by half of it, up or down.
    seed : int, default 0
    changed : float, default 0.2
        Share of the nodes that drift.
    noise : float, default 0.05
        Half-width of the uniform fluctuation of every key group's load.
    drain : int, default 0
        How many of the nodes that do not drift, counted from the last, are marked draining.

    Returns
    -------
    Workload
        One window. State is the load before the drift, times 100: what a key group has to move grew with its load.

    Notes
    -----
    Source: [Madsen2016], section 5.1. The paper says "a randomly selected set of key groups on a node";
    here that set is half of them.
    """
    nodes = whole("nodes", nodes, least=1, most=MOST_NODES, optional=False)
    key_groups = whole("key_groups", key_groups, least=1, most=10_000_000, optional=False)
    seed, drain = whole("seed", seed, optional=False), whole("drain", drain, optional=False)
    if key_groups < nodes:
        raise InputError(f"nodes = {nodes}, key_groups = {key_groups}: every node needs at least one key group")
    if not 0 <= varies < 2 or not 0 <= changed <= 1 or not 0 <= noise < 1:
        raise InputError(f"varies = {varies}, changed = {changed}, noise = {noise} leave almost no load")
    rng = np.random.default_rng(seed)
    current = np.arange(key_groups) % nodes
    before = 1 + rng.uniform(-noise, noise, key_groups)
    load = before.copy()
    drifting = rng.permutation(nodes)[: round(changed * nodes)]
    for rank, node in enumerate(drifting):
        own = np.flatnonzero(current == node)
        half = rng.permutation(own)[: max(1, own.size // 2)]
        change = (1 if rank % 2 == 0 else -1) * varies / 2 * before[own].sum()
        load[half] *= max(0.0, 1 + change / before[half].sum())
    draining = np.zeros(nodes, dtype=bool)
    calm = np.setdiff1d(np.arange(nodes), drifting)
    if drain > calm.size:
        raise InputError(f"drain = {drain}: only {calm.size} nodes do not drift")
    draining[calm[calm.size - drain :]] = True
    return Workload(load=load, state=100 * before, current=current, nodes=nodes, draining=draining)


def madsen_allocation(
    *,
    seed: int = 0,
    nodes: int = 20,
    key_groups: int = 400,
    varies: float = 0.4,
    changed: float = 0.2,
    max_migrations: int = 20,
) -> KeyGroupAllocation:
    """Key-group allocation after a drift, within a number of migrations ([Madsen2016], section 5.1, Figures 2 to 4)."""
    w = synthetic_workload(nodes, key_groups, varies=varies, changed=changed, seed=seed)
    return KeyGroupAllocation(w, max_migrations=max_migrations)


def madsen_windows(
    *,
    seed: int = 0,
    nodes: int = 40,
    key_groups: int = 800,
    varies: float = 0.4,
    max_migrations: int = 20,
    windows: int = 8,
    over: Over = "mean",
    fluctuation: float = 0.05,
) -> KeyGroupAllocation:
    """As `madsen_allocation`, over windows in which every load fluctuates anew around its value after the drift.

    Parameters
    ----------
    fluctuation : float, default 0.05
        Half-width of the fluctuation, as a share of the load: what the paper gives loads once.
    """
    w = synthetic_workload(nodes, key_groups, varies=varies, seed=seed)
    windows = whole("windows", windows, least=1, optional=False)
    rng = np.random.default_rng([seed, windows])
    loads = w.last_load * (1 + rng.uniform(-fluctuation, fluctuation, (windows, key_groups)))
    return KeyGroupAllocation(w.replace(load=loads), max_migrations=max_migrations, windows=windows, over=over)


def madsen_scale_in(
    *,
    seed: int = 0,
    nodes: int = 60,
    key_groups: int = 1200,
    drain: int = 10,
    overloaded: int = 1,
    max_migrations: int = 20,
) -> KeyGroupAllocation:
    """One period of scaling in: some nodes to drain, some of the others at twice their load ([Madsen2016], Figure 5)."""
    w = synthetic_workload(nodes, key_groups, varies=0.0, drain=drain, seed=seed)
    hot = w.replace(load=w.last_load * np.where(w.current < overloaded, 2.0, 1.0))
    return KeyGroupAllocation(hot, max_migrations=max_migrations)


# Replicas of partitions on racks, as Kafka keeps them, and the allocations under rules that they pose ----------------


def replicated(rng: np.random.Generator, nodes: int, key_groups: int, racks: int = 4) -> Workload:
    """Replicas of partitions, each on a rack of its own; loads log-normal, alike within a partition; disk goes with load."""
    copies = 3
    partitions = key_groups // copies
    load = np.repeat(rng.lognormal(0, 0.7, partitions), copies) * rng.uniform(0.8, 1.2, partitions * copies)
    rack = np.arange(nodes) % racks
    current = np.empty(load.size, dtype=np.int64)
    for g in range(partitions):
        for j, r in enumerate(rng.choice(racks, copies, replace=False)):
            current[g * copies + j] = rng.choice(np.flatnonzero(rack == r))
    disk = load * rng.uniform(0.5, 1.5, load.size)
    return Workload(
        load=load,
        state=disk,
        current=current,
        nodes=nodes,
        resources={"disk": disk},
        groups={"partition": np.repeat(np.arange(partitions), copies).tolist()},
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
    key_groups = whole("key_groups", key_groups, least=3, most=1_000_000, optional=False)
    racks = whole("racks", racks, least=3, most=nodes, optional=False)
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

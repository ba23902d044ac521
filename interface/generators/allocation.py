"""Synthetic workloads and clusters as [Madsen2016], section 5, describes them, and the allocations that they pose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base import guards
from keyshift.models.base.guards import whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.errors import InputError
from keyshift.models.objectives import Over
from keyshift.models.replication import ReplicatedAllocation
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
    """Loads of a fifth of the nodes have drifted; even them out with few migrations.

    Key-group allocation after a drift, within a number of migrations.

    Source: [Madsen2016], section 5.1, Figures 2 to 4.
    """
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
    """The same over windows in which every load fluctuates anew.

    As `madsen_allocation`, over windows in which every load fluctuates anew around its value after the drift.

    Source: [Madsen2016], section 5.1; the windows are keyshift's.

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
    """Ten nodes to drain while others are overloaded: one period of it.

    One period of scaling in: some nodes to drain, some of the others at twice their load.

    Source: [Madsen2016], section 5.2, Figure 5.
    """
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
    """Replicas of partitions on racks, under rules: apart by rack, counts and disks bounded, a twentieth may move.

    Even replicas out: partitions apart by rack, no node with more replicas than one has today, disks 30 % above the mean.

    Source: keyshift.

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


# Synthetic clusters as [Madsen2016], sections 5.1 and 5.3, describes them: a chain of operators, some keyed alike -----


BUSY = 50.0
"""Percentage points of its capacity that a node is busy with: ours, the paper is silent."""


def synthetic_cluster(
    nodes: int, key_groups: int, operators: int, one_to_one: float, periods: int, seed: int = 0
) -> Iterator[Workload]:
    """A chain of operators of which a share of the key groups sends one to one, the others to all.

    Nodes are `BUSY` percent busy; key groups start at their mean load +- 5 %. In every later period 20 % of the nodes
    have their load changed, by up to 2 % of the node's, on one of their key groups.

    Parameters
    ----------
    nodes, key_groups, operators : int
        Each operator has ``key_groups // operators`` key groups.
    one_to_one : float
        Share of the key groups all of whose tuples go to one key group of the next operator: the most that
        collocation can save ([Madsen2016], section 5.3).
    periods : int
    seed : int, default 0
    """
    nodes = guards.whole("nodes", nodes, least=1, optional=False)
    operators = guards.whole("operators", operators, least=1, optional=False)
    g, per_node = key_groups // operators, key_groups // nodes
    if g < 1 or per_node < 1 or g * operators != key_groups:
        said = f"key_groups = {key_groups} must be a multiple of operators = {operators} and at least nodes = {nodes}"
        raise InputError(said)
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.95, 1.05, key_groups) * BUSY / per_node
    place = np.arange(key_groups) % nodes
    single = rng.random(key_groups) < one_to_one
    partner = np.concatenate([rng.permutation(g) for _ in range(operators)])
    targets = [[(k // g + 1) * g + int(partner[k])] if single[k] else range((k // g + 1) * g, (k // g + 2) * g)
               for k in range((operators - 1) * g)]  # fmt: skip
    for period in range(periods):
        if period > 0:
            for i in rng.permutation(nodes)[: nodes // 5]:
                here = np.flatnonzero(place == i)
                k = int(rng.choice(here))
                load[k] = max(0.0, load[k] + rng.uniform(-0.02, 0.02) * load[here].sum())
        yield Workload(
            load=load,
            state=np.ones(key_groups),
            current=place,
            nodes=nodes,
            traffic=_chain(load, targets),
            operator=np.repeat(np.arange(operators), g),
        )


def _chain(load: np.ndarray, targets: Sequence[Any]) -> sp.csr_array:
    """The traffic where each key group sends an equal part to each of its targets."""
    sizes = [len(to) for to in targets]
    rows = np.repeat(np.arange(len(targets)), sizes)
    columns = np.concatenate([np.asarray(to, dtype=int) for to in targets])
    # Tuples that a key group sends for each point of its load.
    tuples = np.rint(2000 * load[rows] / np.repeat(sizes, sizes))
    return sp.csr_array((tuples, (rows, columns)), shape=(load.size, load.size))


def madsen_patterns(
    *,
    seed: int = 0,
    nodes: int = 20,
    key_groups: int = 200,
    pattern: Literal["one-to-one", "partial-merge", "partial-partitioning", "full"] = "one-to-one",
    fan: int = 5,
    max_migrations: int | None = 20,
    max_load_distance: float = 10.0,
) -> CollocatedAllocation:
    """Two operators under each of the four patterns of partitioning.

    Two operators under one of the four patterns of partitioning.

    Source: [Madsen2016], Figure 1.

    Parameters
    ----------
    pattern : {"one-to-one", "partial-merge", "partial-partitioning", "full"}
        Each key group of the first operator sends to one of the second, and no two to the same; so many of them to
        the same; each to so many; each to all.
    fan : int, default 5
        How many of the one share one of the other, for the two partial patterns. The paper names no number.
    """
    rng, g = np.random.default_rng(seed), key_groups // 2
    guards.whole("fan", fan, least=1, most=g, optional=False)
    sent: dict[str, Callable[[], Any]] = {
        "one-to-one": lambda: rng.permutation(g)[:, None],
        "partial-merge": lambda: (rng.permutation(g) // fan)[:, None],
        "partial-partitioning": lambda: [rng.permutation(g)[:fan] for _ in range(g)],
        "full": lambda: [np.arange(g)] * g,
    }
    if pattern not in sent or 2 * g != key_groups:
        said = f"pattern {pattern:.40}: choose one of {', '.join(sent)}; key_groups = {key_groups} must be even"
        raise InputError(said)
    load = rng.uniform(0.95, 1.05, key_groups) * BUSY * nodes / key_groups
    w = Workload(
        load=load, state=np.ones(key_groups), current=rng.permutation(key_groups) % nodes, nodes=nodes,
        traffic=_chain(load, [g + np.asarray(to) for to in sent[pattern]()]), operator=np.repeat([0, 1], g),
    )  # fmt: skip
    return CollocatedAllocation(w, max_migrations=max_migrations, max_load_distance=max_load_distance)


def madsen_collocation(
    *,
    seed: int = 0,
    nodes: int = 20,
    key_groups: int = 400,
    operators: int = 2,
    one_to_one: float = 0.5,
    max_migrations: int = 20,
    max_load_distance: float = 10.0,
) -> CollocatedAllocation:
    """A chain of operators of which a share of the key groups sends one to one.

    One period of the synthetic cluster.

    Source: [Madsen2016], section 5.3, Figures 10 and 11.
    """
    w = next(synthetic_cluster(nodes, key_groups, operators, one_to_one, 1, seed))
    return CollocatedAllocation(w, max_migrations=max_migrations, max_load_distance=max_load_distance)


def madsen_collocation_racks(
    *,
    seed: int = 0,
    nodes: int = 20,
    key_groups: int = 400,
    one_to_one: float = 0.5,
    max_migrations: int = 20,
    max_load_distance: float = 10.0,
    racks: int = 4,
    rack_cost: float = 3.0,
) -> CollocatedAllocation:
    """The same on racks: a tuple between two of them costs three times as much.

    As `madsen_collocation`, on racks in turn; a tuple costs 1 between nodes of a rack.

    Source: [Madsen2016], section 5.3; the racks are keyshift's.

    Parameters
    ----------
    rack_cost : float, default 3
        The cost of a tuple between racks.
    """
    w = next(synthetic_cluster(nodes, key_groups, 2, one_to_one, 1, seed))
    racks = guards.whole("racks", racks, least=1, optional=False)
    return CollocatedAllocation(
        w.replace(domains={"rack": [f"r{i % racks}" for i in range(nodes)]}), max_load_distance=max_load_distance,
        max_migrations=max_migrations, costs={"node": 1.0, "rack": rack_cost},
    )  # fmt: skip


def madsen_collocation_windows(
    *,
    seed: int = 0,
    nodes: int = 20,
    key_groups: int = 400,
    one_to_one: float = 0.5,
    max_migrations: int = 20,
    max_load_distance: float = 5.0,
    windows: int = 8,
    over: Over = "mean",
    fluctuation: float = 0.1,
) -> CollocatedAllocation:
    """The same over windows in which every load and all traffic fluctuate anew.

    As `madsen_collocation`, over windows in which every load and the traffic of every pair fluctuate anew.

    Source: [Madsen2016], section 5.3; the windows are keyshift's.

    Parameters
    ----------
    fluctuation : float, default 0.1
        Half-width of the fluctuation, as a share of the load, and five times as much of the traffic; ours.
    """
    w = next(synthetic_cluster(nodes, key_groups, 2, one_to_one, 1, seed))
    windows = guards.whole("windows", windows, least=1, optional=False)
    rng = np.random.default_rng([seed, windows])
    loads = w.last_load * (1 + rng.uniform(-fluctuation, fluctuation, (windows, key_groups)))
    traffic = []
    for _ in range(windows):
        made = sp.csr_array(w.traffic, copy=True)
        made.data = np.rint(made.data * (1 + rng.uniform(-5 * fluctuation, 5 * fluctuation, made.nnz)))
        traffic.append(made)
    return CollocatedAllocation(
        w.replace(load=loads, traffic=traffic), max_load_distance=max_load_distance, max_migrations=max_migrations,
        windows=windows, over=over,
    )  # fmt: skip


# Instances of replicas of hot key groups ------------------------------------------------------------------------------


def zipf_replicas(
    *, nodes: int = 8, key_groups: int = 64, exponent: float = 1.0, more: float = 0.25, seed: int = 0
) -> ReplicatedAllocation:
    """Zipf loads, a quarter more copies than key groups, equal room on nodes.

    Key groups with Zipf loads in random order, dealt out evenly, and a share of `more` copies than key groups.

    Source: keyshift, after [DeepSeek2024].
    """
    rng = np.random.default_rng(seed)
    load = rng.permutation(np.arange(1, key_groups + 1) ** -float(exponent))
    current = rng.permutation(np.arange(key_groups) % nodes)
    copies = key_groups + int(more * key_groups)
    workload = Workload(load=1e4 * load / load.sum(), state=np.ones(key_groups), current=current, nodes=nodes)
    return ReplicatedAllocation(workload, copies, at_most=-(-copies // nodes))

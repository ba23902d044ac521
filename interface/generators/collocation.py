"""Synthetic clusters as [Madsen2016], sections 5.1 and 5.3, describes them: a chain of operators, some keyed alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from keyshift.models.base import guards
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.errors import InputError
from keyshift.models.objectives import Over
from keyshift.models.workload import Workload

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
    rows, columns = (
        np.repeat(np.arange(len(targets)), sizes),
        np.concatenate([np.asarray(to, dtype=int) for to in targets]),
    )
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
    """Two operators under one of the four patterns of partitioning ([Madsen2016], Figure 1).

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
    """One period of the synthetic cluster ([Madsen2016], section 5.3, Figures 10 and 11)."""
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
    """As `madsen_collocation`, on racks in turn; a tuple costs 1 between nodes of a rack.

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
    """As `madsen_collocation`, over windows in which every load and the traffic of every pair fluctuate anew.

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

"""Instances of our own that are hard on purpose: ties, one giant, two scales, draining most, limits on the boundary."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base import guards
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.mclb import MCLB, MovementWithinLimits
from keyshift.models.replication import ReplicatedAllocation
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.workload import FloatArray, IntArray, Workload

Kind = Literal["ties", "giant", "two-scales", "draining", "boundary"]


def hard_loads(kind: Kind, size: int, nodes: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Load and state of every key group, shapes (size,).

    "ties": all alike, so that nothing tells one move from another. "giant": one key group is heavier than a node's fair
    share. "two-scales": one in ten counts in units, the rest in millions, and state the other way round. "boundary" and
    "draining": whole numbers from 1 to 9.
    """
    load = rng.integers(1, 10, size).astype(np.float64)
    state = rng.integers(1, 10, size).astype(np.float64)
    if kind == "ties":
        return np.full(size, 3.0), np.full(size, 2.0)
    if kind == "giant":
        load[int(rng.integers(size))] = 1.5 * load.sum() / nodes
    elif kind == "two-scales":
        small = rng.random(size) < 0.1
        load, state = load * np.where(small, 1.0, 1e6), state * np.where(small, 1e6, 1.0)
    else:
        guards.one_of("kind", kind, get_args(Kind))
    return load, state


def hard_workload(kind: Kind, nodes: int, key_groups: int, seed: int = 0) -> Workload:
    """Key groups placed at random, two thirds of them on the first half of the nodes; see `hard_loads`.

    With "draining" all nodes but two drain.
    """
    nodes = guards.whole("nodes", nodes, least=2, optional=False)
    size = guards.whole("key_groups", key_groups, least=nodes, optional=False)
    rng = np.random.default_rng(seed)
    load, state = hard_loads(kind, size, nodes, rng)
    first = rng.random(size) < 2 / 3
    current = np.where(first, rng.integers(0, max(1, nodes // 2), size), rng.integers(0, nodes, size))
    draining = np.zeros(nodes, dtype=bool)
    draining[2:] = kind == "draining"
    return Workload(load=load, state=state, current=current, nodes=nodes, draining=draining)


def hidden_plan(w: Workload, seed: int) -> IntArray:
    """An assignment to the nodes that stay: what limits "on the boundary" are drawn from."""
    rng = np.random.default_rng([seed, 3])
    stay = np.flatnonzero(~w.draining)
    moved = rng.random(w.key_groups) < 0.3
    return np.where(moved | w.draining[w.current], rng.choice(stay, w.key_groups), w.current)


def hard_allocation(
    *, seed: int = 0, kind: Kind = "ties", nodes: int = 10, key_groups: int = 120
) -> KeyGroupAllocation:
    """Ties, a giant, two scales, draining most, a limit met exactly.

    Allocation; on the boundary the state that may move is, to the digit, what a hidden plan moves.

    Source: keyshift.
    """
    w = hard_workload(kind, nodes, key_groups, seed)
    if kind == "boundary":
        return KeyGroupAllocation(w, max_migration_cost=float(w.state[hidden_plan(w, seed) != w.current].sum()))
    return KeyGroupAllocation(w, max_migrations=key_groups // 8)


def hard_collocation(
    *, seed: int = 0, kind: Kind = "ties", nodes: int = 6, key_groups: int = 48
) -> CollocatedAllocation:
    """The hard workloads, every key group talking to three others.

    Collocation: every key group talks to three others; on the boundary the plan that moves nothing just fits.

    Source: keyshift.
    """
    w = hard_workload(kind, nodes, key_groups, seed)
    rng = np.random.default_rng([seed, 4])
    source = np.repeat(np.arange(key_groups), 3)
    target = (source + rng.integers(1, key_groups, source.size)) % key_groups
    sent = w.last_load[source] if kind != "ties" else np.ones(source.size)
    traffic = sp.coo_array((sent, (source, target)), shape=(key_groups, key_groups)).tocsr()
    talking = w.replace(traffic=traffic)
    free = CollocatedAllocation(talking, max_load_distance=None, max_migrations=key_groups // 4)
    widest = free.metrics(talking.current)["load_distance"]
    return CollocatedAllocation(
        talking,
        max_migrations=None if kind == "draining" else key_groups // 4,
        max_load_distance=widest if kind in ("boundary", "giant", "two-scales") else None,
    )


def hard_mclb(*, seed: int = 0, kind: Kind = "ties", nodes: int = 5, key_groups: int = 40, windows: int = 6) -> MCLB:
    """The hard workloads over windows that differ, with a budget.

    MCLB over a few windows that differ; on the boundary the budget is what a hidden plan moves.

    Source: keyshift.
    """
    w = hard_workload(kind, nodes, key_groups, seed)
    rng = np.random.default_rng([seed, 5])
    factor = np.ones((windows, key_groups)) if kind == "ties" else rng.integers(1, 4, (windows, key_groups))
    moving = w.replace(load=factor * w.last_load)
    hidden = float(w.state[hidden_plan(w, seed) != w.current].sum())
    return MCLB(moving, max_state_moved=hidden if kind in ("boundary", "draining") else 0.3 * float(w.state.sum()))


def hard_movement(*, seed: int = 0, kind: Kind = "ties", nodes: int = 6, key_groups: int = 48) -> MovementWithinLimits:
    """Limits that a hidden plan keeps, one of them exactly.

    Limits on a node's load that a hidden plan keeps; on the boundary it meets both exactly.

    Source: keyshift.
    """
    w = hard_workload(kind, nodes, key_groups, seed)
    target = hidden_plan(w, seed)
    stay = np.flatnonzero(~w.draining)
    loads = np.bincount(target, weights=w.last_load, minlength=nodes)[stay]
    slack = 0.0 if kind == "boundary" else 0.05 * float(loads.mean())
    return MovementWithinLimits(
        w, lower=max(0.0, float(loads.min()) - slack), upper=float(loads.max()) + slack, nodes_after=stay.size
    )


def hard_replicas(*, seed: int = 0, kind: Kind = "ties", nodes: int = 5, key_groups: int = 20) -> ReplicatedAllocation:
    """The hard workloads with a quarter more copies, which just fit.

    The hard workloads with a quarter more copies, so many on a node that these just fit, and half of them new at most.

    Source: keyshift.
    """
    w = hard_workload(kind, nodes, key_groups, seed)
    copies = key_groups + key_groups // 4
    leave = int(w.draining[w.current].sum())
    at_most = -(-copies // int(w.kept.sum()))
    return ReplicatedAllocation(w, copies, at_most=at_most, max_migrations=leave + copies // 2)


def _hard_stream(kind: Kind, messages: int, keys: int, workers: int, seed: int) -> dict[str, Any]:
    """Messages, their weights, and how fast workers are."""
    rng = np.random.default_rng(seed)
    stream = np.arange(messages) % keys if kind == "ties" else rng.integers(0, keys, messages)
    if kind == "giant":
        stream[rng.random(messages) < 0.5] = 0
    weights = np.where(rng.random(messages) < 0.1, 1.0, 1e6) if kind == "two-scales" else None
    speeds = np.where((kind == "draining") & (np.arange(workers) >= 2), 0.01, 1.0)
    return {"stream": stream, "workers": speeds, "weights": weights, "hash_seed": seed % 2**31}


def hard_splitting(
    *, seed: int = 0, kind: Kind = "ties", messages: int = 2_000, keys: int = 60, workers: int = 8
) -> KeySplitting:
    """Ties, one hot key, two scales of weights, slow workers, one choice.

    Key splitting; "draining" makes all workers but two a hundred times slower, "boundary" has one choice a key.

    Source: keyshift.
    """
    drawn = _hard_stream(kind, messages, keys, workers, seed)
    return KeySplitting(**drawn, choices=1 if kind == "boundary" else 2)


def hard_placement(
    *, seed: int = 0, kind: Kind = "ties", messages: int = 400, keys: int = 30, workers: int = 5
) -> KeyPlacement:
    """The streams of hard-splitting, every key on one worker.

    Key placement, with the streams of `hard_splitting`.

    Source: keyshift.
    """
    drawn = _hard_stream(kind, messages, keys, workers, seed)
    return KeyPlacement(**drawn, choices=None if kind == "boundary" else 2)


def _tasks(kind: Kind, tasks: int, nodes: int, seed: int) -> Workload:
    """Consecutive tasks on equal numbers of nodes."""
    rng = np.random.default_rng(seed)
    load, state = hard_loads(kind, tasks, nodes, rng)
    return Workload(load=load, state=state, current=np.arange(tasks) * nodes // tasks, nodes=nodes)


def _least_tau(w: Workload, counts: list[int], rise: float) -> float:
    """A tolerance at which each count has a partition; with a `rise` of 0 it is nearly the smallest one."""
    low, high = 0.0, float(w.key_groups)
    for _ in range(40):
        middle = (low + high) / 2
        if any(IntervalMigration(w, n, middle).conflicts() for n in counts):
            low = middle
        else:
            high = middle
    return math.ceil((high + rise) * 1e6) / 1e6


def hard_step(
    *, seed: int = 0, kind: Kind = "ties", tasks: int = 48, nodes: int = 6, nodes_after: int = 7
) -> IntervalMigration:
    """Ties, a giant task, two scales, the least tolerance that is feasible.

    One change; on the boundary the tolerance is the smallest that has a partition.

    Source: keyshift.
    """
    w = _tasks(kind, tasks, nodes, seed)
    return IntervalMigration(w, nodes_after, _least_tau(w, [nodes_after], 0.0 if kind == "boundary" else 0.1))


def hard_sequence(
    *, seed: int = 0, kind: Kind = "ties", tasks: int = 20, nodes: int = 4, changes: int = 3
) -> MigrationSequence:
    """The hard tasks under counts that go up and down.

    A sequence that goes up and down; tolerances as in `hard_step`.

    Source: keyshift.
    """
    w = _tasks(kind, tasks, nodes, seed)
    counts = [nodes + (1 if t % 2 == 0 else -1) for t in range(changes)]
    return MigrationSequence(w, counts, _least_tau(w, sorted(set(counts)), 0.0 if kind == "boundary" else 0.1))


def hard_policy(*, seed: int = 0, kind: Kind = "ties", tasks: int = 12, discount: float = 0.9) -> MigrationPolicy:
    """The hard tasks under a chain that changes in every step.

    A chain over two, three and four nodes that changes in every step; tolerances as in `hard_step`.

    Source: keyshift.
    """
    w = _tasks(kind, tasks, 3, seed)
    matrix = {2: {3: 1.0}, 3: {2: 0.5, 4: 0.5}, 4: {3: 1.0}}
    tau = _least_tau(w, [2, 3, 4], 0.0 if kind == "boundary" else 0.1)
    return MigrationPolicy(w, matrix, tau, discount)

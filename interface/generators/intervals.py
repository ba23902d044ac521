"""Word counts on contiguous tasks whose node count follows the load, as in [Ding2015], section 6."""

from __future__ import annotations

import numpy as np

from keyshift.models.base import guards
from keyshift.models.errors import InputError
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
from keyshift.models.workload import FloatArray, Workload

LEAST, MOST = 8, 16
"""Fewest and most nodes ([Ding2015], section 6)."""


def task_workload(tasks: int, nodes: int, seed: int) -> Workload:
    """Words of a flattened Zipf law hashed to tasks: load is their count, state how many words there are.

    The flattening (the twentieth word comes first) leaves out the words that no operator would count, and makes a
    tolerance of 0.2 feasible at 64 tasks and 16 nodes for most seeds.
    """
    tasks = guards.whole("tasks", tasks, least=1, optional=False)
    rng = np.random.default_rng(seed)
    task = rng.integers(0, tasks, 100_000)
    count = np.rint(1e9 / np.arange(20, 100_000 + 20))
    load = np.bincount(task, count, tasks)
    middle = (np.cumsum(load) - load / 2) / load.sum()
    current = np.unique(np.minimum((middle * nodes).astype(np.int64), nodes - 1), return_inverse=True)[1]
    state = np.bincount(task, minlength=tasks).astype(np.float64)
    return Workload(load=load, state=state, current=current, nodes=int(current.max()) + 1)


def hourly_arrivals(seed: int) -> FloatArray:
    """Tuples an hour over eight weeks: days and nights, and noise. It stands in for the paper's traces."""
    hour = np.arange(24 * 7 * 8)
    day = 1.0 - 0.7 * np.cos(2 * np.pi * hour / 24)
    rng = np.random.default_rng([seed, 2])
    return rng.poisson(1000 * day * rng.uniform(0.8, 1.2, hour.size)).astype(np.float64)


def _feasible_tasks(tasks: int, nodes: int, tau: float, counts: list[int], seed: int) -> Workload:
    """The first hash, from the seed on, under which every count has a feasible partition."""
    for salt in range(1000):
        w = task_workload(tasks, nodes, seed * 1000 + salt)
        if not any(IntervalMigration(w, n, tau).conflicts() for n in counts):
            return w
    raise InputError(f"tasks = {tasks}, tau = {tau}: no hash of a thousand has a partition for {counts} nodes")


def ding_step(
    *, seed: int = 0, tasks: int = 64, nodes: int = 8, nodes_after: int = 10, tau: float = 0.2
) -> IntervalMigration:
    """Words hashed to tasks in intervals; the node count changes once.

    One change of the node count.

    Source: [Ding2015], sections 4 and 6.
    """
    return IntervalMigration(_feasible_tasks(tasks, nodes, tau, [nodes_after], seed), nodes_after, tau)


def ding_sequence(*, seed: int = 0, tasks: int = 32, changes: int = 5, tau: float = 0.4) -> MigrationSequence:
    """The node counts of the next hours are known.

    A known sequence of node counts.

    Source: [Ding2015], sections 5.1 and 6.
    """
    series = node_counts(hourly_arrivals(seed), LEAST, MOST)
    moves = series[np.flatnonzero(np.diff(series, prepend=-1))].tolist()
    known = moves[1 : 1 + changes]
    w = _feasible_tasks(tasks, moves[0], tau, sorted(set(known)), seed)
    return MigrationSequence(w, known, tau)


def ding_policy(
    *, seed: int = 0, tasks: int = 24, least: int = 3, most: int = 5, tau: float = 0.2, discount: float = 0.8
) -> MigrationPolicy:
    """The node count follows a Markov chain, estimated from eight weeks.

    A node count that follows a Markov chain, estimated from eight weeks.

    Source: [Ding2015], sections 5.2 and 6.
    """
    series = node_counts(hourly_arrivals(seed), least, most)
    matrix = transition_matrix(series)
    w = _feasible_tasks(tasks, int(series[0]), tau, sorted(matrix), seed)
    return MigrationPolicy(w, matrix, tau, discount)

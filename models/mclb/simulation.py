"""A simulation, and no more than that, of what rebalancing does to latency: pause, buffer, resume ([Guo2018], section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray, IntArray

CAPACITY = 1_000.0
"""Tuples a second that a node processes ([Guo2018], section 5.2)."""
TRANSFER = 10_000.0
"""Tuples of state a second that a node sends or receives. The paper gives no figure; this one is ours."""


@dataclass(frozen=True)
class Latency:
    """What a simulated run comes to: latencies in seconds, weighted by tuples, and tuples processed a second."""

    mean: float
    p95: float
    largest: float
    throughput: float


def pause_buffer_resume(
    load: FloatArray,
    placements: IntArray,
    state: FloatArray,
    nodes: int,
    *,
    window_seconds: float = 60.0,
    capacity: float = CAPACITY,
    transfer: float = TRANSFER,
    step: float = 0.1,
) -> Latency:
    """Simulate the queues of all nodes as fluids.

    At the start of a window whose placement differs from the last, every node that gives or takes state pauses for as
    long as its share takes to transfer; tuples for it wait. Otherwise it works off its queue at its capacity. Arrivals are even
    within a window.

    Parameters
    ----------
    load : ndarray, shape (m, p)
        Tuples a window.
    placements : ndarray of int, shape (m, p)
        Node of each key group in each window.
    state : ndarray, shape (m, p)
        State of each key group at the start of each window, in tuples.
    nodes : int
    window_seconds, capacity, transfer, step : float
        Seconds; tuples a second; tuples a second; seconds.

    Returns
    -------
    Latency
    """
    if load.shape != placements.shape or load.shape != state.shape:
        raise InputError(f"load {load.shape}, placements {placements.shape} and state {state.shape} differ in shape")
    steps = round(window_seconds / step)
    queue, processed = np.zeros(nodes), 0.0
    waits, weights = [], []
    for t in range(load.shape[0]):
        rate = np.bincount(placements[t], weights=load[t], minlength=nodes) / window_seconds
        left = pauses(placements[max(t - 1, 0)], placements[t], state[t], nodes) / transfer
        for _ in range(steps):
            paused = np.minimum(left, step)
            waits.append(left + queue / capacity + 1.0 / capacity)
            weights.append(rate * step)
            done = np.minimum(queue + rate * step, capacity * (step - paused))
            queue = queue + rate * step - done
            processed += float(done.sum())
            left = left - paused
    wait, weight = np.concatenate(waits), np.concatenate(weights)
    total = float(weight.sum())
    if total == 0.0:
        return Latency(0.0, 0.0, 0.0, 0.0)
    order = np.argsort(wait, kind="stable")
    behind = np.cumsum(weight[order])
    p95 = float(wait[order][np.searchsorted(behind, 0.95 * total)])
    seconds = load.shape[0] * window_seconds
    return Latency(float((wait * weight).sum() / total), p95, float(wait[weight > 0].max()), processed / seconds)


def pauses(before: IntArray, after: IntArray, state: FloatArray, nodes: int) -> FloatArray:
    """State that each node gives and takes, shape (nodes,)."""
    moves = before != after
    given = np.bincount(before[moves], weights=state[moves], minlength=nodes)
    taken = np.bincount(after[moves], weights=state[moves], minlength=nodes)
    return np.asarray(given + taken)[:nodes]

"""Simulated queues: what an assignment would do to throughput and latency, given service times. No measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from keyshift.models.guards import real
from keyshift.models.splitting.key_index import sealed
from keyshift.models.splitting.outcome import parts

if TYPE_CHECKING:
    from keyshift.models.splitting.problem import KeySplitting


@njit(cache=True)
def _serve(sent, weights, service, free, begun, gap, sums):
    for i in range(sent.size):
        arrives = (begun + i) * gap
        w = sent[i]
        weight = 1.0 if weights is None else weights[i]
        free[w] = max(free[w], arrives) + service[w] * weight
        latency = free[w] - arrives
        sums[0] += latency
        sums[1] = max(sums[1], latency)


@dataclass(frozen=True)
class Simulated:
    """Figures of a simulated run.

    Attributes
    ----------
    throughput : float
        Messages a second, from the first arrival until the last one is done.
    mean_latency, worst_latency : float
        Seconds from arrival to completion.
    """

    throughput: float
    mean_latency: float
    worst_latency: float


def simulate(problem: KeySplitting, assignment: np.ndarray, service_time: float, rate: float) -> Simulated:
    """Serve a stream by one queue a worker, first come first served.

    Parameters
    ----------
    problem : KeySplitting
    assignment : ndarray of int, shape (m,)
    service_time : float
        Seconds that a message of weight 1 takes on a worker of speed 1.
    rate : float
        Messages that arrive each second, evenly spaced. Above what the workers can do, throughput is what they can.
    """
    real("service_time", service_time, optional=False, above=True)
    real("rate", rate, optional=False, above=True)
    service, free, sums = service_time / problem.speeds, np.zeros(problem.workers), np.zeros(2)
    for where, _, weights in parts(problem):
        _serve(sealed(assignment[where]), weights, service, free, where.start, 1 / rate, sums)
    return Simulated(problem.messages / float(free.max()), float(sums[0]) / problem.messages, float(sums[1]))

"""Compiled schedules: transfers started in the order of a list, at once or one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import njit

EPSILON = 1e-12


class Transfers(NamedTuple):
    """Transfer scheduling as plain arrays: e transfers, n nodes, r resources.

    source, target : int64 (e,); seconds : float64 (e,); parallel : int;
    level, limit : float64 (r, n); usage : float64 (r, e).
    """

    source: np.ndarray
    target: np.ndarray
    seconds: np.ndarray
    parallel: int
    level: np.ndarray
    usage: np.ndarray
    limit: np.ndarray


@njit(cache=True, nogil=True)
def fits(p: Transfers, level: np.ndarray, j: int) -> bool:
    """Whether the target of a transfer has room for it."""
    i = p.target[j]
    for r in range(level.shape[0]):  # noqa: SIM110  # compiled: a loop is faster than a generator
        if level[r, i] + p.usage[r, j] > p.limit[r, i] * (1 + EPSILON):
            return False
    return True


@njit(cache=True, nogil=True)
def by_node(order: np.ndarray, p: Transfers) -> tuple[np.ndarray, np.ndarray]:
    """The transfers of each node, first in the list first: positions, and where each node's begin."""
    nodes = p.level.shape[1]
    first = np.zeros(nodes + 1, np.int64)
    for j in order:
        first[p.source[j] + 1] += 1
        first[p.target[j] + 1] += 1
    for i in range(nodes):
        first[i + 1] += first[i]
    fill = first[:-1].copy()
    held = np.empty(2 * order.size, np.int64)
    for position in range(order.size):
        j = order[position]
        for i in (p.source[j], p.target[j]):
            held[fill[i]] = position
            fill[i] += 1
    return held, first


@njit(cache=True, nogil=True)
def list_schedule(order: np.ndarray, p: Transfers, starts: np.ndarray) -> float:
    """Never let a transfer wait that could start; among those that could, the first in the list goes first.

    Returns
    -------
    float
        The end of the last transfer; infinite where the limits leave every waiting transfer without room.
    """
    nodes, count = p.level.shape[1], order.size
    held, first = by_node(order, p)
    head = first[:-1].copy()
    free = np.full(nodes, p.parallel)
    level = p.level.copy()
    waiting = np.ones(count, np.bool_)
    active = np.empty(count, np.int64)
    fresh = np.arange(nodes)
    running, begun, now, last = 0, 0, 0.0, 0.0
    while begun < count:
        while True:  # start what can, first in the list first; only at nodes where something has changed
            best = count
            for i in fresh:
                if free[i] == 0:
                    continue
                while head[i] < first[i + 1] and not waiting[held[head[i]]]:
                    head[i] += 1
                for at in range(head[i], first[i + 1]):
                    position = held[at]
                    if position >= best:
                        break
                    j = order[position]
                    if waiting[position] and free[p.source[j]] > 0 and free[p.target[j]] > 0 and fits(p, level, j):
                        best = position
                        break
            if best == count:
                break
            j = order[best]
            waiting[best] = False
            starts[j] = now
            last = max(last, now + p.seconds[j])
            free[p.source[j]] -= 1
            free[p.target[j]] -= 1
            level[:, p.target[j]] += p.usage[:, j]
            active[running] = j
            running += 1
            begun += 1
        if running == 0:
            return np.inf
        now = _next_end(active[:running], starts, p.seconds)
        left, changed = 0, 0
        touched = np.empty(2 * running, np.int64)
        for a in range(running):
            j = active[a]
            if starts[j] + p.seconds[j] <= now * (1 + EPSILON):
                free[p.source[j]] += 1
                free[p.target[j]] += 1
                level[:, p.source[j]] -= p.usage[:, j]
                touched[changed], touched[changed + 1] = p.source[j], p.target[j]
                changed += 2
            else:
                active[left] = j
                left += 1
        running = left
        fresh = np.unique(touched[:changed])
    return last


@njit(cache=True, nogil=True)
def _next_end(active: np.ndarray, starts: np.ndarray, seconds: np.ndarray) -> float:
    earliest = np.inf
    for j in active:
        earliest = min(earliest, starts[j] + seconds[j])
    return earliest


@njit(cache=True, nogil=True)
def ordered_schedule(order: np.ndarray, p: Transfers, starts: np.ndarray) -> float:
    """Start the transfers in exactly this order, each as early as the ones before it allow.

    Some order gives a schedule of least length, with limits or without; an order that meets the limits one transfer
    at a time always ends.

    Returns
    -------
    float
        The end of the last transfer; infinite where the order does not meet the limits.
    """
    nodes = p.level.shape[1]
    free = np.full(nodes, p.parallel)
    level = p.level.copy()
    active = np.empty(order.size, np.int64)
    running, now, last = 0, 0.0, 0.0
    for j in order:
        while free[p.source[j]] == 0 or free[p.target[j]] == 0 or not fits(p, level, j):
            if running == 0:
                return np.inf
            now = _next_end(active[:running], starts, p.seconds)
            left = 0
            for a in range(running):
                k = active[a]
                if starts[k] + p.seconds[k] <= now * (1 + EPSILON):
                    free[p.source[k]] += 1
                    free[p.target[k]] += 1
                    level[:, p.source[k]] -= p.usage[:, k]
                else:
                    active[left] = k
                    left += 1
            running = left
        starts[j] = now
        last = max(last, now + p.seconds[j])
        free[p.source[j]] -= 1
        free[p.target[j]] -= 1
        level[:, p.target[j]] += p.usage[:, j]
        active[running] = j
        running += 1
    return last

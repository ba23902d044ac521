"""The partitioners' inner loops, compiled. One message at a time, in arrival order.

Every loop keeps `tally`: the highest relative load, its sum over time, the load and its sum over time. Messages
without weights on equal workers are counted in int64, everything else in float64. ``None`` for `speeds`, and in
`greedy` for `weights`, `source` and `loads`, compiles the question away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint64

from keyshift.heuristics.splitting.space_saving import add, choices_for_head
from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.splitting.hashing import hash_word, worker_of
from keyshift.models.workload import IntArray


class WorkerBooks(NamedTuple):
    """The load estimates of the sources."""

    estimates: np.ndarray
    """A row for each source, or - not `apart` - one row, which is the truth and takes the place of `loads`."""
    loads: np.ndarray
    apart: bool


class HashedWorkers(NamedTuple):
    """Where the candidates of a key come from."""

    seed: np.uint64
    workers: np.uint64


class Probes(NamedTuple):
    """When sources learn the true loads: every so many messages, 0 for never; `begun` messages were sent before."""

    begun: int
    every: int


class HeadRules(NamedTuple):
    """Which keys D-Choices and W-Choices count to the head, and how many candidates these get."""

    seen: IntArray
    """Messages of each source so far."""
    chosen: IntArray
    """Candidates of a head key at each source, and after how many messages that was found, shape (S, 2)."""
    threshold: float
    slack: float
    refresh: int
    """It is found anew after this many messages at the latest."""
    all_workers: bool


@njit(inline="always")
def _after(estimates, row, w, weight, speeds):
    """Estimated load of a worker with one more message on it. Equal workers keep the order of their loads."""
    return estimates[row, w] if speeds is None else (estimates[row, w] + weight) / speeds[w]


@njit(inline="always")
def _least(estimates, row, weight, speeds):
    """The least loaded of all workers, the lowest number on ties."""
    best, lowest = 0, _after(estimates, row, 0, weight, speeds)
    for w in range(1, estimates.shape[1]):
        load = _after(estimates, row, w, weight, speeds)
        if load < lowest:
            best, lowest = w, load
    return best


@njit(inline="always")
def _choose(key, estimates, row, weight, speeds, hashed, choices):
    """The least loaded of a key's candidates, the earlier hash function on ties."""
    seed, workers = hashed
    one, two = hash_word(uint64(key), seed)
    best = worker_of(one, workers)
    if choices == 1:
        return best
    other = worker_of(two, workers)
    lowest = _after(estimates, row, best, weight, speeds)
    load = _after(estimates, row, other, weight, speeds)
    # Which of two balanced workers is less loaded cannot be predicted: arithmetic, not a branch.
    best += (other - best) * np.int64(load < lowest)
    for j in range(2, choices, 2):
        lowest = min(load, lowest)
        one, two = hash_word(uint64(key), seed + uint64(j // 2))
        other = worker_of(one, workers)
        load = _after(estimates, row, other, weight, speeds)
        if load < lowest:
            best, lowest = other, load
        if j + 1 < choices:
            other = worker_of(two, workers)
            load = _after(estimates, row, other, weight, speeds)
            if load < lowest:
                best, lowest = other, load
    return best


@njit(inline="always")
def _send(w, weight, estimates, row, loads, apart, speeds):
    """Book a message; returns the worker's relative load."""
    now = estimates[row, w] + weight
    estimates[row, w] = now
    if apart:
        now = loads[w] + weight
        loads[w] = now
    return now if speeds is None else now / speeds[w]


@njit(inline="always")
def _book(tally, relative, weight):
    """Follow the imbalance."""
    tally[0] = max(tally[0], relative)
    tally[1] += tally[0]
    tally[2] += weight
    tally[3] += tally[2]


@njit(inline="always")
def _probe(estimates, loads, probes, i):
    """L_S P_T: every T messages all sources learn the true loads (section 6.2, Q2)."""
    if probes.every > 0 and (probes.begun + i) % probes.every == 0:
        for s in range(estimates.shape[0]):
            for w in range(loads.size):
                estimates[s, w] = loads[w]


@njit(inline="always")
def _chosen(key, estimates, row, weight, speeds, hashed, choices):
    """The least loaded of the first candidates of a key; ``choices = 0`` opens all workers."""
    if choices == 0:
        return _least(estimates, row, weight, speeds)
    return _choose(key, estimates, row, weight, speeds, hashed, choices)


@njit(**LEAF)
def greedy(keys, weights, source, books, speeds, hashed, choices, probes, numbers, place_of, tally, out):
    """Greedy-d: the least loaded of d candidates (PKG with d = 2, hashing with d = 1), for each message.

    With `numbers` of the keys a key stays where its first message went: static PoTC and On-Greedy.
    """
    estimates, loads, apart = books
    for i in range(keys.size):
        row = 0
        if apart:
            _probe(estimates, loads, probes, i)
            row = source[i]
        w = place_of[numbers[i]] if numbers.size else -1
        if w < 0:
            w = _chosen(keys[i], estimates, row, weights[i], speeds, hashed, choices)
            if numbers.size:
                place_of[numbers[i]] = w
        _book(tally, _send(w, weights[i], estimates, row, loads, apart, speeds), weights[i])
        out[i] = w


@njit(**LEAF)
def in_turn(weights, source, turns, loads, speeds, tally, out):
    """Shuffle grouping: every source deals its messages round robin, source s beginning with worker s."""
    workers = loads.shape[1]
    for i in range(out.size):
        s = source[i]
        w = np.int64((turns[s] + s) % workers)
        turns[s] += 1
        _book(tally, _send(w, weights[i], loads, 0, loads[0], False, speeds), weights[i])
        out[i] = w


@njit(cache=True)
def head_and_tail(keys, weights, source, books, speeds, hashed, probes, sketch, rules, tally, out):
    """D-Choices and W-Choices: two candidates for a key of the tail, more - or all workers - for one of the head."""
    estimates, loads, apart = books
    key, often, hand, table = sketch
    seen, chosen, threshold, slack, refresh, all_workers = rules
    workers = np.int64(hashed.workers)
    for i in range(keys.size):
        s = source[i]
        row = 0
        if apart:
            _probe(estimates, loads, probes, i)
            row = s
        seen[s] += 1
        count = add(keys[i], s, key, often, hand, table)
        d = 2
        if count >= threshold * seen[s]:
            if not all_workers and (seen[s] >= 2 * chosen[s, 1] or seen[s] - chosen[s, 1] >= refresh):
                chosen[s, 0] = choices_for_head(often[s], seen[s], threshold, workers, slack)
                chosen[s, 1] = seen[s]
            d = 0 if all_workers or chosen[s, 0] >= workers else chosen[s, 0]
        w = _chosen(keys[i], estimates, row, weights[i], speeds, hashed, d)
        _book(tally, _send(w, weights[i], estimates, row, loads, apart, speeds), weights[i])
        out[i] = w


@njit(cache=True)
def offline_order(weight, order, options, speeds):
    """Keys in the given order, each to the worker least loaded after it, among its options or - if none - all."""
    place_of = np.empty(weight.size, dtype=np.int32)
    loads = np.zeros((1, speeds.size))
    for k in order:
        if options.shape[1] == 0:
            w = _least(loads, 0, weight[k], speeds)
        else:
            w, lowest = np.int64(options[k, 0]), np.inf
            for j in range(options.shape[1]):
                after = _after(loads, 0, options[k, j], weight[k], speeds)
                if after < lowest:
                    w, lowest = np.int64(options[k, j]), after
        loads[0, w] += weight[k]
        place_of[k] = w
    return place_of

"""The partitioners' inner loops, compiled. One message at a time, in arrival order.

Every loop keeps `tally`: the highest relative load, its sum over time, and - where messages have weights - the load
and its sum over time. Unit messages on equal workers are counted in int64, everything else in float64; ``None`` for
`weights`, `speeds`, `source` or `loads` compiles the question away.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from keyshift.heuristics.splitting import space_saving
from keyshift.models.splitting.hashing import hash_word, worker_of


@njit(inline="always")
def _after(estimate, w, weight, speeds):  # pragma: no cover - compiled
    """Estimated load of a worker with one more message on it. Equal workers keep the order of their loads."""
    return estimate[w] if speeds is None else (estimate[w] + weight) / speeds[w]


@njit(inline="always")
def _least(estimate, weight, speeds):  # pragma: no cover - compiled
    """The least loaded of all workers, the lowest number on ties."""
    best, lowest = 0, _after(estimate, 0, weight, speeds)
    for w in range(1, estimate.size):
        load = _after(estimate, w, weight, speeds)
        if load < lowest:
            best, lowest = w, load
    return best


@njit(inline="always")
def _choose(key, estimate, weight, speeds, seed, workers, choices):  # pragma: no cover - compiled
    """The least loaded of a key's candidates, the earlier hash function on ties."""
    one, two = hash_word(uint64(key), seed)
    best = worker_of(one, workers)
    if choices == 1:
        return best
    lowest = _after(estimate, best, weight, speeds)
    other = worker_of(two, workers)
    load = _after(estimate, other, weight, speeds)
    if load < lowest:
        best, lowest = other, load
    for j in range(2, choices, 2):
        one, two = hash_word(uint64(key), seed + uint64(j // 2))
        other = worker_of(one, workers)
        load = _after(estimate, other, weight, speeds)
        if load < lowest:
            best, lowest = other, load
        if j + 1 < choices:
            other = worker_of(two, workers)
            load = _after(estimate, other, weight, speeds)
            if load < lowest:
                best, lowest = other, load
    return best


@njit(inline="always")
def _send(w, weight, estimate, loads, speeds):  # pragma: no cover - compiled
    """Book a message; returns the worker's relative load. `loads` is None where the estimate is the truth."""
    estimate[w] += weight
    if loads is None:
        return estimate[w] if speeds is None else estimate[w] / speeds[w]
    loads[w] += weight
    return loads[w] if speeds is None else loads[w] / speeds[w]


@njit(inline="always")
def _probe(now, every, estimates, loads):  # pragma: no cover - compiled
    """L_S P_T: every T messages all sources learn the true loads (section 6.2, Q2)."""
    if loads is not None and every > 0 and now % every == 0:
        for s in range(estimates.shape[0]):
            estimates[s, :] = loads


@njit(cache=True)
def greedy(
    keys, weights, source, estimates, loads, speeds, seed, workers, choices, begun, probe_every, tally, out
):  # pragma: no cover - compiled
    """Greedy-d with key splitting: the least loaded of d candidates (PKG with d = 2, hashing with d = 1)."""
    peak, over_time = tally[0], tally[1]
    for i in range(keys.size):
        weight = 1 if weights is None else weights[i]
        estimate = estimates[0] if source is None else estimates[source[i]]
        _probe(begun + i, probe_every, estimates, loads)
        w = _choose(keys[i], estimate, weight, speeds, seed, workers, choices)
        peak = max(peak, _send(w, weight, estimate, loads, speeds))
        over_time += peak
        if weights is not None:
            tally[2] += weight
            tally[3] += tally[2]
        out[i] = w
    tally[0], tally[1] = peak, over_time


@njit(cache=True)
def anywhere(keys, weights, source, estimates, loads, speeds, begun, probe_every, tally, out):  # pragma: no cover
    """The least loaded of all workers, whatever the key: greedy-d where every worker is a candidate."""
    for i in range(keys.size):
        weight = 1 if weights is None else weights[i]
        estimate = estimates[0] if source is None else estimates[source[i]]
        _probe(begun + i, probe_every, estimates, loads)
        w = _least(estimate, weight, speeds)
        tally[0] = max(tally[0], _send(w, weight, estimate, loads, speeds))
        tally[1] += tally[0]
        if weights is not None:
            tally[2] += weight
            tally[3] += tally[2]
        out[i] = w


@njit(cache=True)
def in_place(
    keys,
    weights,
    source,
    estimates,
    loads,
    speeds,
    seed,
    workers,
    choices,
    begun,
    probe_every,
    numbers,
    home,
    tally,
    out,
):  # pragma: no cover - compiled
    """Static PoTC and On-Greedy: a key stays where its first message went. ``choices = 0`` opens all workers."""
    for i in range(keys.size):
        weight = 1 if weights is None else weights[i]
        estimate = estimates[0] if source is None else estimates[source[i]]
        _probe(begun + i, probe_every, estimates, loads)
        if home[numbers[i]] < 0:
            if choices == 0:
                home[numbers[i]] = _least(estimate, weight, speeds)
            else:
                home[numbers[i]] = _choose(keys[i], estimate, weight, speeds, seed, workers, choices)
        w = home[numbers[i]]
        tally[0] = max(tally[0], _send(w, weight, estimate, loads, speeds))
        tally[1] += tally[0]
        if weights is not None:
            tally[2] += weight
            tally[3] += tally[2]
        out[i] = w


@njit(cache=True)
def in_turn(weights, source, turns, estimates, speeds, workers, tally, out):  # pragma: no cover - compiled
    """Shuffle grouping: every source deals its messages round robin, source s beginning with worker s."""
    for i in range(out.size):
        weight = 1 if weights is None else weights[i]
        s = 0 if source is None else source[i]
        w = np.int64((turns[s] + s) % workers)
        turns[s] += 1
        tally[0] = max(tally[0], _send(w, weight, estimates[0], None, speeds))
        tally[1] += tally[0]
        if weights is not None:
            tally[2] += weight
            tally[3] += tally[2]
        out[i] = w


@njit(cache=True)
def head_and_tail(
    keys, weights, source, estimates, loads, speeds, seed, workers, begun, probe_every, sketch, seen, chosen,
    threshold, slack, refresh, all_workers, tally, out,
):  # fmt: skip  # pragma: no cover - compiled
    """D-Choices and W-Choices: two candidates for a key of the tail, more - or all workers - for one of the head."""
    for i in range(keys.size):
        weight = 1 if weights is None else weights[i]
        s = 0 if source is None else source[i]
        estimate = estimates[min(s, estimates.shape[0] - 1)]  # one row if all sources know the truth
        _probe(begun + i, probe_every, estimates, loads)
        seen[s] += 1
        often = space_saving.add(keys[i], s, sketch)
        if often < threshold * seen[s]:
            w = _choose(keys[i], estimate, weight, speeds, seed, workers, 2)
        else:
            if not all_workers and (seen[s] >= 2 * chosen[s, 1] or seen[s] - chosen[s, 1] >= refresh):
                chosen[s, 0] = space_saving.choices_for_head(s, sketch, seen[s], threshold, np.int64(workers), slack)
                chosen[s, 1] = seen[s]
            if all_workers or chosen[s, 0] >= np.int64(workers):
                w = _least(estimate, weight, speeds)
            else:
                w = _choose(keys[i], estimate, weight, speeds, seed, workers, chosen[s, 0])
        tally[0] = max(tally[0], _send(w, weight, estimate, loads, speeds))
        tally[1] += tally[0]
        if weights is not None:
            tally[2] += weight
            tally[3] += tally[2]
        out[i] = w


@njit(cache=True)
def offline_order(weight, order, options, speeds):  # pragma: no cover - compiled
    """Keys in the given order, each to the worker least loaded after it, among its options or - if none - all."""
    home = np.empty(weight.size, dtype=np.int32)
    loads = np.zeros(speeds.size)
    for k in order:
        if options.shape[1] == 0:
            w = _least(loads, weight[k], speeds)
        else:
            w, lowest = np.int64(options[k, 0]), np.inf
            for j in range(options.shape[1]):
                after = (loads[options[k, j]] + weight[k]) / speeds[options[k, j]]
                if after < lowest:
                    w, lowest = np.int64(options[k, j]), after
        loads[w] += weight[k]
        home[k] = w
    return home

"""Counts made message by message, in compiled code. Loads are counts or sums of weights, per unit of speed."""

from __future__ import annotations

from numpy import uint8, uint64

from keyshift.models.base.compiling import njit
from keyshift.models.splitting.hashing import hash_word, worker_of


@njit(cache=True)
def follow(assignment, weights, speeds, loads, state, total_speed, series, every, begun):
    """Add a chunk to the loads, and up the imbalance after each message.

    `state` holds the highest relative load, the load so far, and the sum over time of the imbalance; every
    `every`-th imbalance goes to `series`. `begun` messages were sent before.
    """
    peak, load, total = state[0], state[1], state[2]
    at, left = begun // every, every - begun % every  # counted down: dividing took a quarter of the time
    for i in range(assignment.size):
        w = assignment[i]
        weight = 1.0 if weights is None else weights[i]
        loads[w] += weight
        load += weight
        relative = loads[w] if speeds is None else loads[w] / speeds[w]
        peak = max(peak, relative)
        imbalance = peak - load / total_speed
        total += imbalance
        left -= 1
        if left == 0:
            series[at] = imbalance
            at, left = at + 1, every
    state[0], state[1], state[2] = peak, load, total


@njit(inline="always")
def _candidate(key, worker, seed, workers, choices):
    """Whether a worker is one of a key's candidates."""
    known = False
    for j in range(0, choices, 2):
        a, b = hash_word(uint64(key), seed + uint64(j // 2))
        known = known or worker_of(a, workers) == worker
        known = known or (j + 1 < choices and worker_of(b, workers) == worker)
    return known


@njit(cache=True)
def meet(keys, assignment, met, counters, tally, hashed):
    """Set bit `worker` of met[key] for every message up to the first whose key is no row; which one that is.

    `counters` counts the keys of each worker, `tally` the pairs, the keys, and the pairs whose worker is no candidate
    of the key, by `hashed`: seed, workers and choices, 0 where every worker is one.
    """
    seed, workers, choices = hashed
    for i in range(keys.size):
        key, worker = keys[i], assignment[i]
        if key < 0 or key >= met.shape[0]:
            return i
        byte, bit = met[key, worker >> 3], uint8(1) << uint8(worker & 7)
        if not byte & bit:  # hot keys are met again and again: no store has to wait for the one before
            counters[worker] += 1
            tally[0] += 1
            tally[1] += not met[key].any()
            tally[2] += choices > 0 and not _candidate(key, worker, seed, workers, choices)
            met[key, worker >> 3] = byte | bit
    return keys.size


@njit(cache=True)
def list_met(words, width, workers, pairs):
    """key * workers + worker of every bit that is set; a key has so many bytes."""
    at = 0
    for i in range(words.size):
        left, bit = words[i], 64 * i
        while left:
            if left & uint64(1):
                pairs[at] = bit // (8 * width) * workers + bit % (8 * width)
                at += 1
            left, bit = left >> uint64(1), bit + 1


@njit(cache=True)
def count_flushes(pairs, last, period, begun):
    """Count the (key, worker) pairs that are new in their aggregation period; `last` remembers each pair's period."""
    count = 0
    for i in range(pairs.size):
        now = (begun + i) // period
        if last[pairs[i]] != now:
            last[pairs[i]] = now
            count += 1
    return count


@njit(cache=True)
def spread(numbers, options, share, given, seen, out):
    """Deal the messages of each class to its workers, in proportion to their shares at every moment.

    The j-th message of a class goes to the worker furthest behind its share of the first j, among those with share
    left. `options[c]` lists the workers of class c (-1 fills up), `share[c]` how many messages each is to get.
    """
    for i in range(numbers.size):
        c = numbers[i]
        seen[c] += 1
        best, most, total = -1, 0.0, 0
        for j in range(options.shape[1]):
            total += share[c, j]
        for j in range(options.shape[1]):
            if given[c, j] < share[c, j]:
                behind = share[c, j] * seen[c] / total - given[c, j]
                if best < 0 or behind > most:
                    best, most = j, behind
        given[c, best] += 1
        out[i] = options[c, best]

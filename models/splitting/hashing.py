"""64-bit Murmur hashing of keys in compiled code: MurmurHash3, the 128-bit variant for 64-bit machines.

The paper asks for "a 64-bit Murmur hash" (section 6.2). Its published code, and the version in Apache Storm, take one
64-bit half of MurmurHash3_x64_128 under two seeds. Here both halves of one value serve, as two functions: candidate
2j of a key comes from the first half under ``seed + j``, candidate 2j + 1 from the second. A departure, for speed.
"""

from __future__ import annotations

import numpy as np
from numpy import uint8, uint64

from keyshift.models.base.compiling import njit
from keyshift.models.workload import IntArray

C1, C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
M1, M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
FIVE, N1, N2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)
EIGHT, HALF = np.uint64(8), np.uint64(32)
R27, R31, R33 = np.uint64(27), np.uint64(31), np.uint64(33)
BITS = np.uint64(64)


@njit(inline="always")
def _rotate(x, r):
    return (x << r) | (x >> (BITS - r))


@njit(inline="always")
def _finish(k):
    k ^= k >> R33
    k *= M1
    k ^= k >> R33
    k *= M2
    return k ^ (k >> R33)


@njit(inline="always")
def _end(h1, h2, length):
    """Both halves, once all bytes are mixed in."""
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    h1 = _finish(h1)
    h2 = _finish(h2)
    h1 += h2
    return h1, h2 + h1


@njit(inline="always")
def hash_word(word, seed):
    """Both halves of the hash of eight bytes, given as one little-endian unsigned word."""
    h1 = seed ^ (_rotate(word * C1, R31) * C2)
    return _end(h1, seed, EIGHT)


@njit(inline="always")
def worker_of(half, workers):
    """A 64-bit hash as a worker, 0..workers-1: its upper 32 bits scaled down, which needs no division."""
    return np.int64(((half >> HALF) * workers) >> HALF)


@njit
def _hash_bytes(data, start, stop, seed):
    """Both halves of the hash of ``data[start:stop]``."""
    h1 = h2 = seed
    length = stop - start
    blocks = length // 16
    for b in range(blocks):
        k1, k2 = uint64(0), uint64(0)
        for i in range(8):
            k1 |= uint64(data[start + 16 * b + i]) << uint64(8 * i)
            k2 |= uint64(data[start + 16 * b + 8 + i]) << uint64(8 * i)
        h1 = (_rotate(h1 ^ (_rotate(k1 * C1, R31) * C2), R27) + h2) * FIVE + N1
        h2 = (_rotate(h2 ^ (_rotate(k2 * C2, R33) * C1), R31) + h1) * FIVE + N2
    k1, k2 = uint64(0), uint64(0)
    for i in range(length - 16 * blocks):
        byte = uint64(data[start + 16 * blocks + i])
        if i < 8:
            k1 |= byte << uint64(8 * i)
        else:
            k2 |= byte << uint64(8 * (i - 8))
    h2 ^= _rotate(k2 * C2, R33) * C1
    h1 ^= _rotate(k1 * C1, R31) * C2
    return _end(h1, h2, uint64(length))


@njit(cache=True)
def _hash_texts(data, offsets, seed, out):
    for i in range(offsets.size - 1):
        out[i, 0], out[i, 1] = _hash_bytes(data, offsets[i], offsets[i + 1], seed)


@njit(cache=True)
def _candidates(words, seed, workers, out):
    for i in range(words.size):
        for j in range(0, out.shape[1], 2):
            first, second = hash_word(words[i], seed + uint64(j // 2))
            out[i, j] = worker_of(first, workers)
            if j + 1 < out.shape[1]:
                out[i, j + 1] = worker_of(second, workers)


def murmur_texts(data: np.ndarray, offsets: np.ndarray, seed: int = 0) -> np.ndarray:
    """Both 64-bit halves of MurmurHash3_x64_128 of byte strings, shape (strings, 2).

    They are laid end to end in `data`; string i is ``data[offsets[i]:offsets[i + 1]]``.
    """
    out = np.empty((offsets.size - 1, 2), dtype=np.uint64)
    _hash_texts(data, offsets, np.uint64(seed), out)
    return out


def candidates(keys: IntArray, workers: int, choices: int, seed: int = 0) -> np.ndarray:
    """The `choices` workers to which each key hashes, in order, repeats possible; shape (keys, choices).

    A key is hashed as eight little-endian bytes, by MurmurHash3_x64_128.
    """
    out = np.empty((keys.size, choices), dtype=np.int32)
    _candidates(keys.view(np.uint64), np.uint64(seed), np.uint64(workers), out)
    return out


# Counts made message by message, in compiled code. Loads are counts or sums of weights, per unit of speed -------------


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

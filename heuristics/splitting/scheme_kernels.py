"""The partitioners' inner loops and their sketches of heavy keys, compiled. One message at a time, in arrival order.

Every loop keeps `tally`: the highest relative load, its sum over time, the load and its sum over time. Messages
without weights on equal workers are counted in int64, everything else in float64. ``None`` for `speeds`, and in
`greedy` for `weights`, `source` and `loads`, compiles the question away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint64

from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.splitting.hashing import hash_word, worker_of
from keyshift.models.workload import IntArray


class Sketch(NamedTuple):
    """Arrays of S sketches of C counters: SpaceSaving [Metwally2005], the heavy keys of a stream in so many counters.

    Counters hold a key and a count each. A key without a counter takes over one of least count, and counts on from
    there; so a count is at most messages / counters too high, and never too low. A hand goes round the counters and stops
    at each of least count; counts only grow, so it goes round at most once for each least count, and of those there are at
    most messages / counters. A hash table with linear probing finds a key. Constant time a message, on average; one sketch
    for each source.
    """

    key: np.ndarray  # (S, C): the key of a counter
    often: np.ndarray  # (S, C): its count, 0 while it is free
    hand: np.ndarray  # (S, 2): no counter before this one has the least count; the least count
    table: np.ndarray  # (S, power of two): counters by hash of their key, -1 for none


def empty_sketch(sources: int, counters: int) -> Sketch:
    """Sketches that have seen nothing: all counters free."""
    slots = 1 << (2 * counters - 1).bit_length()
    key, often = np.zeros((2, sources, counters), np.int64)
    return Sketch(key, often, np.zeros((sources, 2), np.int64), np.full((sources, slots), -1, np.int64))


@njit(inline="always")
def _first_slot(key, mask):
    mixed = (uint64(key) ^ (uint64(key) >> uint64(32))) * uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> uint64(32)) & mask


@njit(inline="always")
def _slot_of(wanted, s, key, table):
    """Where the table of source s has the key, or the empty slot where it would be."""
    mask = table.shape[1] - 1
    at = _first_slot(wanted, mask)
    while table[s, at] >= 0 and key[s, table[s, at]] != wanted:
        at = (at + 1) & mask
    return at


@njit(inline="always")
def _forget(gap, s, key, table):
    """Empty a slot of the table and close the gap: followers that may, move up."""
    mask = table.shape[1] - 1
    table[s, gap] = -1
    at = (gap + 1) & mask
    while table[s, at] >= 0:
        first = _first_slot(key[s, table[s, at]], mask)
        if ((at - first) & mask) >= ((at - gap) & mask):
            table[s, gap] = table[s, at]
            table[s, at] = -1
            gap = at
        at = (at + 1) & mask


@njit(inline="always")
def _rarest(s, often, hand):
    """The counter of least count at which the hand stops."""
    while often[s, hand[s, 0]] > hand[s, 1]:
        hand[s, 0] += 1
        if hand[s, 0] == often.shape[1]:
            hand[s, 0], hand[s, 1] = 0, often[s].min()
    return hand[s, 0]


@njit(inline="always")
def add(wanted, s, key, often, hand, table):
    """Count a key at source s; returns its estimated count. The arrays are those of a `Sketch`, in order."""
    slot = _slot_of(wanted, s, key, table)
    item = table[s, slot]
    if item < 0:
        item = _rarest(s, often, hand)
        if often[s, item] > 0:
            _forget(_slot_of(key[s, item], s, key, table), s, key, table)
            slot = _slot_of(wanted, s, key, table)
        key[s, item] = wanted
        table[s, slot] = item
    often[s, item] += 1
    return often[s, item]


@njit(cache=True)
def choices_for_head(often, seen, threshold, workers, slack):
    """The d of D-Choices for the counts of a sketch; `workers` when none below will do."""
    head = np.sort(often[often >= threshold * seen])[::-1] / seen
    return find_choices(head, workers, slack)


@njit(cache=True)
def find_choices(head, workers, slack):
    r"""The least d with which no prefix of the head must overload the workers it expects to reach.

    For head frequencies p_1 >= p_2 >= ... and every h, with :math:`b_h = n - n (1 - 1/n)^{hd}` the expected number of
    workers that the first h keys reach with d choices each,

    .. math:: \sum_{i \le h} p_i + (b_h / n)^d \sum_{h < i \le |H|} p_i + (b_h / n)^2 \sum_{i \notin H} p_i
              \le b_h (1/n + \epsilon).

    Returns `workers` if no d below does. Source: [Nasir2016], section IV, as we remember it: the text was not at
    hand when this was written.
    """
    if head.size == 0:
        return 2
    total = min(1.0, head.sum())
    first = max(2, int(np.ceil(head[0] * workers)))
    for d in range(first, workers):
        prefix, fits = 0.0, True
        for h in range(head.size):
            prefix += head[h]
            reached = workers - workers * (1.0 - 1.0 / workers) ** ((h + 1) * d)
            share = reached / workers
            carried = prefix + share**d * (total - prefix) + share * share * (1.0 - total)
            if carried > reached * (1.0 / workers + slack):
                fits = False
                break
        if fits:
            return d
    return workers


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

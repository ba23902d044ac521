"""SpaceSaving (Metwally et al. 2005), compiled: the heavy keys of a stream in a fixed number of counters.

Counters hold a key and a count each. A key without a counter takes over the one of least count, and counts on from
there; so a count is at most messages / counters too high, and never too low. A heap finds the least, a hash
table with linear probing finds a key. One sketch for each source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, uint64


class Sketch(NamedTuple):
    """The arrays of S sketches of C counters, as the kernels take them."""

    key: np.ndarray  # (S, C): the key of a counter
    often: np.ndarray  # (S, C): its count
    heap: np.ndarray  # (S, C): counters, least count first
    place: np.ndarray  # (S, C): where in the heap a counter is
    table: np.ndarray  # (S, power of two): counters by hash of their key, -1 for none
    size: np.ndarray  # (S,): counters in use


def empty_sketch(sources: int, counters: int) -> Sketch:
    """Sketches that have seen nothing."""
    slots = 1 << (2 * counters - 1).bit_length()
    shape = (sources, counters)
    return Sketch(
        np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64),
        np.full((sources, slots), -1, np.int64), np.zeros(sources, np.int64),
    )  # fmt: skip


@njit(inline="always")
def _home(key, mask):  # pragma: no cover - compiled
    mixed = (uint64(key) ^ (uint64(key) >> uint64(32))) * uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> uint64(32)) & mask


@njit(cache=True)
def _slot_of(key, keys, table):  # pragma: no cover - compiled
    """Where the table has the key, or the empty slot where it would be."""
    mask = table.size - 1
    at = _home(key, mask)
    while table[at] >= 0 and keys[table[at]] != key:
        at = (at + 1) & mask
    return at


@njit(cache=True)
def _forget(key, keys, table):  # pragma: no cover - compiled
    """Take a key out of the table and close the gap: followers that may, move up."""
    mask = table.size - 1
    gap = _slot_of(key, keys, table)
    table[gap] = -1
    at = (gap + 1) & mask
    while table[at] >= 0:
        home = _home(keys[table[at]], mask)
        if ((at - home) & mask) >= ((at - gap) & mask):
            table[gap] = table[at]
            table[at] = -1
            gap = at
        at = (at + 1) & mask


@njit(cache=True)
def _sink(item, count, heap, place, size):  # pragma: no cover - compiled
    """Restore the heap below a counter that grew."""
    at = place[item]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and count[heap[child + 1]] < count[heap[child]]:
            child += 1
        if count[heap[child]] >= count[item]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = item
    place[item] = at


@njit(cache=True)
def _rise(item, count, heap, place):  # pragma: no cover - compiled
    """Restore the heap above a new counter."""
    at = place[item]
    while at > 0 and count[heap[(at - 1) // 2]] > count[item]:
        heap[at] = heap[(at - 1) // 2]
        place[heap[at]] = at
        at = (at - 1) // 2
    heap[at] = item
    place[item] = at


@njit(cache=True)
def add(key, s, sketch):  # pragma: no cover - compiled
    """Count a key at source s; returns its estimated count."""
    keys, count, heap, place, table = sketch.key[s], sketch.often[s], sketch.heap[s], sketch.place[s], sketch.table[s]
    at = _slot_of(key, keys, table)
    item = table[at]
    if item >= 0:
        count[item] += 1
        _sink(item, count, heap, place, sketch.size[s])
    elif sketch.size[s] < keys.size:
        item = sketch.size[s]
        sketch.size[s] += 1
        keys[item], count[item], place[item], table[at] = key, 1, item, item
        _rise(item, count, heap, place)
    else:
        item = heap[0]
        _forget(keys[item], keys, table)
        keys[item] = key
        table[_slot_of(key, keys, table)] = item
        count[item] += 1
        _sink(item, count, heap, place, sketch.size[s])
    return count[item]


@njit(cache=True)
def choices_for_head(s, sketch, seen, threshold, workers, slack):  # pragma: no cover - compiled, see find_choices
    """The d of D-Choices for what source s has seen; `workers` when none below will do."""
    count = sketch.often[s][: sketch.size[s]]
    head = np.sort(count[count >= threshold * seen])[::-1] / seen
    return find_choices(head, workers, slack)


@njit(cache=True)
def find_choices(head, workers, slack):  # pragma: no cover - compiled
    r"""The least d with which no prefix of the head must overload the workers it expects to reach.

    For head frequencies p_1 >= p_2 >= ... and every h, with :math:`b_h = n - n (1 - 1/n)^{hd}` the expected number of
    workers that the first h keys reach with d choices each,

    .. math:: \sum_{i \le h} p_i + (b_h / n)^d \sum_{h < i \le |H|} p_i + (b_h / n)^2 \sum_{i \notin H} p_i
              \le b_h (1/n + \epsilon).

    Returns `workers` if no d below does. Source: Nasir et al. 2016, section IV.
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

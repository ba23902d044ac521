"""SpaceSaving [Metwally2005], compiled: the heavy keys of a stream in a fixed number of counters.

Counters hold a key and a count each. A key without a counter takes over one of least count, and counts on from
there; so a count is at most messages / counters too high, and never too low. A hand goes round the counters and stops
at each of least count; counts only grow, so it goes round at most once for each least count, and of those there are at
most messages / counters. A hash table with linear probing finds a key. Constant time a message, on average; one sketch
for each source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint64

from keyshift.models.base.compiling import njit


class Sketch(NamedTuple):
    """The arrays of S sketches of C counters, as the kernels take them."""

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

"""For every partition of a class the best partner in another: a min-plus product without touching all pairs.

For each partition P of the source class, find the largest ``match(P, P') + value(P')`` over the rows P' of a table.
The cuts of P' are eliminated from left to right: what is left in between is indexed by a prefix of P (a trie
node) and a suffix of P' (a range of rows that share their last cuts), about the square root of the number of pairs.

A suffix that begins at t keeps four values for every prefix b, whose last cut c <= t begins the current old
interval; the current new interval ends at t:

* N0, N1: the new interval is unmatched so far, and the old one is still available, or may be taken (N1 >= N0);
* C: the new interval is matched to the current old one, less the weight before the overlap's start;
* M: the new interval is matched to an earlier old one, and the current one is available.

Values are packed: ``(value << bits) | row``, so that a maximum carries the row that attains it. Each of the four has an
array of its own, and loops write to one or two of them, so that a processor does several at once even where they are short:
before a loop it has to be sure that what is written is not read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint64

from keyshift.models.base.compiling import LEAF, njit
from keyshift.solvers.intervals.band_kernels import NEVER


class Trie(NamedTuple):
    """Prefixes of cuts in groups k, in each numbered by their last cut t, then by their parents.

    In a class of all partitions a group are the prefixes of k cuts. The parents of those whose last cut is t are then
    the prefixes of k - 1 cuts whose last one is at ``starts[t]`` or later, in order: no list of parents is read. Else all
    prefixes are group 1, and their parents are listed.
    """

    first: np.ndarray  # (groups, m + 1): the first number of every group and last cut
    low: np.ndarray  # (m,): prefixes whose last cut is t or later are in this group or a later one
    high: np.ndarray  # (m,): those whose last cut is t or before are in a group before this one
    starts: np.ndarray  # (m + 1,): leftmost start of an interval for every end
    parent: np.ndarray  # (prefixes,), or empty


@njit(cache=True, nogil=True)
def frame_need(first: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> int:
    """How many slots the nested suffixes of a table need at once, by walking through them as `sweep` does."""
    depths = rows.shape[1] + 1
    end, top = np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    tasks = starts.size - 1
    top[0] = first[tasks] - first[starts[rows[0, 0]]]
    largest = top[0]
    end[0] = rows.shape[0]
    at = d = 0
    while at < rows.shape[0]:
        if at == end[d]:
            d -= 1
            continue
        u = rows[at, d]
        if u == 0:
            at += 1
            continue
        e = at + 1
        while e < end[d] and rows[e, d] == u:
            e += 1
        d += 1
        end[d] = e
        top[d] = top[d - 1] + first[u] - first[starts[rows[at, d]]]
        largest = max(largest, top[d])
    return largest


@njit(**LEAF, nogil=True)
def _take_over(slots, parent, at, shift, to, size, weight):
    """Old intervals that begin where so much weight is before them take over: in the slots `to`, .. from parents in `at`, .."""
    _, n1, c, m = slots
    a, b, size = uint64(at), uint64(to), uint64(size)
    if parent.size:
        for i in range(size):
            above = uint64(parent[i] + shift)
            n1[b + i], m[b + i] = n1[above], max(c[above] + weight, m[above])
    else:
        for i in range(size):
            m[b + i] = max(c[a + i] + weight, m[a + i])
        for i in range(size):
            n1[b + i] = n1[a + i]
    for i in range(size):
        c[b + i] = n1[b + i] - weight


@njit(**LEAF, nogil=True)
def _advance(slots, trie, prefix, shift, low, high, kept):
    """Let the old intervals that begin at low, .., high - 1 take over from their parents; N0 = N1 is written where it is kept."""
    first, fewest, most, starts, parent = trie
    n0, n1 = slots[0], slots[1]
    for p in range(max(low, 1), high):
        for k in range(max(fewest[p], 1), most[p]):
            begin, end = first[k, p], first[k, p + 1]
            if begin < end:
                to, size = begin + shift[k], end - begin
                if parent.size:
                    _take_over(slots, parent[begin:end], 0, shift[k], to, size, prefix[p])
                else:
                    _take_over(slots, parent, first[k - 1, starts[p]] + shift[k - 1], 0, to, size, prefix[p])
                if kept:
                    for i in range(uint64(size)):
                        n0[uint64(to) + i] = n1[uint64(to) + i]


@njit(**LEAF, nogil=True)
def _finish(slots, free, fresh, at, to, size, weight):
    """End a new interval where so much weight is before it, and hand the suffix that is left to the one that it extends."""
    n0, n1, c, m = slots
    a, b, size = uint64(at), uint64(to), uint64(size)
    if fresh:
        for i in range(size):
            n1[b + i] = max(c[a + i] + weight, max(n1[a + i], m[a + i]))
        for i in range(size):
            ended = max(free[a + i], m[a + i])
            n0[b + i], c[b + i] = ended, ended - weight
        for i in range(size):
            m[b + i] = NEVER
    else:
        for i in range(size):
            n1[b + i] = max(n1[b + i], max(c[a + i] + weight, max(n1[a + i], m[a + i])))
        for i in range(size):
            ended = max(free[a + i], m[a + i])
            n0[b + i], c[b + i] = max(n0[b + i], ended), max(c[b + i], ended - weight)


@njit(**LEAF, nogil=True)
def _hand_over(slots, trie, shifts, d, began, t, weight, fresh):
    """The suffix of depth d + 1, which begins at t, into that of depth d; from `began` on its N0 is its N1."""
    first, low, high, starts, _ = trie
    begin = starts[t]
    middle = min(max(began, begin), t)
    for k in range(low[begin], high[t - 1]):
        at, between, end = first[k, begin], first[k, middle], first[k, t]
        inner, outer = shifts[d + 1, k], shifts[d, k]
        if at < between:
            _finish(slots, slots[0], fresh, at + inner, at + outer, between - at, weight)
        if between < end:
            _finish(slots, slots[1], fresh, between + inner, between + outer, end - between, weight)


@njit(**LEAF, nogil=True)
def _lay_out(trie, shift, begin, low, high):
    """Slots from `begin` on for the prefixes whose last cut is low, .., high - 1; returns where they end."""
    for k in range(trie.low[low], trie.high[high - 1]):
        shift[k] = begin - trie.first[k, low]
        begin += trie.first[k, high] - trie.first[k, low]
    return begin


@njit(cache=True, nogil=True)
def sweep(
    trie: Trie, prefix: np.ndarray, rows: np.ndarray, value: np.ndarray, out: np.ndarray, slots: np.ndarray
) -> None:
    """Best partner of every source partition.

    Parameters
    ----------
    trie : Trie
        The source class.
    prefix : int64 array, shape (m + 1,)
        Prefix sums of the weights, shifted like the values.
    rows : int32 array, shape (partners, columns)
        The table of partners, last cut first, sorted, its last column all zeros.
    value : int64 array, shape (partners,)
        Packed values.
    out : int64 array, shape (source partitions,)
        Receives the packed maxima, in the order of the trie.
    slots : int64 array, shape (4, at least `frame_need`)
        Scratch.
    """
    frames = (slots[0], slots[1], slots[2], slots[3])
    n0, n1, c, m = frames
    starts, tasks, depths = trie.starts, trie.starts.size - 1, rows.shape[1] + 1
    cut, end, at = np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    shift, top, done = (
        np.zeros((depths, trie.first.shape[0]), np.int64),
        np.zeros(depths, np.int64),
        np.zeros(depths, np.int64),
    )
    fresh = np.ones(depths, np.bool_)
    d = 0
    cut[0], end[0], done[0] = tasks, rows.shape[0], rows[0, 0]
    top[0] = _lay_out(trie, shift[0], 0, starts[rows[0, 0]], tasks)
    while True:
        if at[d] < end[d]:
            u = rows[at[d], d]
            if u == 0:  # a complete partner; always the first of its range
                root = trie.first[trie.low[0], 0] + shift[d, trie.low[0]]
                n0[root] = n1[root] = c[root] = value[at[d]]
                m[root] = NEVER
                fresh[d], done[d] = False, 1
                at[d] += 1
                continue
            e = at[d] + 1
            while e < end[d] and rows[e, d] == u:
                e += 1
            cut[d + 1], at[d + 1], end[d + 1], fresh[d + 1] = u, at[d], e, True
            at[d] = e
            d += 1
            done[d] = rows[at[d], d]
            top[d] = _lay_out(trie, shift[d], top[d - 1], starts[done[d]], u)
            continue
        # all partners with this suffix are in: finish the current new interval at t
        t, began = cut[d], done[d]
        _advance(frames, trie, prefix, shift[d], began, t, d == 0)
        if d == 0:
            break
        d -= 1
        if not fresh[d]:
            _advance(frames, trie, prefix, shift[d], done[d], t, True)
        _hand_over(frames, trie, shift, d, began, t, prefix[t], fresh[d])
        fresh[d], done[d] = False, t
    found = 0
    for k in range(trie.low[starts[tasks]], trie.high[tasks - 1]):
        for i in range(trie.first[k, starts[tasks]] + shift[0, k], trie.first[k, tasks] + shift[0, k]):
            out[found] = max(max(n1[i], c[i] + prefix[tasks]), m[i])
            found += 1

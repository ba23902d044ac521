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


class Sketch(NamedTuple):
    """Arrays of S sketches, one for each source: the heavy keys of a stream in few counters [Misra1982], [Anderson2017].

    Every key is counted, at most 2 C of them. Where a key more comes, the C-th largest count is taken off all counts, and
    what is at 0 then leaves. Each time at least C counters lose it, so that what is taken off a key in all is at most
    messages / C; with it a count is never too low, and at most so much too high, as with C counters of SpaceSaving
    [Metwally2005]. Constant time a message, on average. Keys and counts are lists; a sparse hash table with linear probing
    holds places in them, so that most keys are found, or found to be new, at the first look.
    """

    place: np.ndarray  # (S, power of two): a key's place in the lists, 0 for none
    key: np.ndarray  # (S, 2 C + 2), from place 1 on
    often: np.ndarray  # (S, 2 C + 2): its count, 0 where there is no key
    used: np.ndarray  # (S, 2): keys, what is taken off


def empty_sketch(sources: int, counters: int) -> Sketch:
    """Sketches that have seen nothing."""
    slots = 1 << (16 * counters - 1).bit_length()
    place = np.zeros((sources, slots), np.int16 if 2 * counters + 2 < 1 << 15 else np.int32)
    key, often = np.zeros((2, sources, 2 * counters + 2), np.int64)
    return Sketch(place, key, often, np.zeros((sources, 2), np.int64))


ONE, HALF = uint64(1), uint64(32)


@njit(inline="always")
def _first_slot(key, mask):
    return (((uint64(key) ^ (uint64(key) >> HALF)) * uint64(0x9E3779B97F4A7C15)) >> HALF) & mask


@njit(**LEAF)
def _take_off(place, key, often, used):
    """Take the C-th largest count off all, and drop what is at 0 then."""
    low, high, most, mask = 1, 1, key.size // 2 - 1, uint64(place.size - 1)
    while _above(often, high) >= most:
        low, high = high + 1, 2 * high
    while low < high:  # the least number that fewer than C counts are above
        middle = (low + high) >> 1
        if _above(often, middle) < most:
            high = middle
        else:
            low = middle + 1
    for i in range(place.size):
        place[i] = 0
    left = 1
    for i in range(1, key.size):  # no branch, since none could be foreseen
        count = often[i] - low
        key[left], often[left] = key[i], count
        left += count > 0
    for i in range(left, key.size):
        often[i] = 0
    used[0] = left - 1
    used[1] += low
    for i in range(1, left):
        at = _first_slot(key[i], mask)
        while place[at] > 0:
            at = (at + ONE) & mask
        place[at] = i


@njit(inline="always")
def _above(often, least):
    above = 0
    for i in range(often.size):  # not "for count in often", which no processor does for eight at once
        above += often[i] > least
    return above


@njit(inline="always")
def _place_of(wanted, place, key, last):
    """A key's place in the lists, the one after the last where it is new, written down either way: that cannot be foreseen."""
    mask = uint64(place.size - 1)
    at = _first_slot(wanted, mask)
    i = np.int64(place[at])
    while (i > 0) & (key[i] != wanted):  # one branch that is mostly foreseen
        at = (at + ONE) & mask
        i = np.int64(place[at])
    i += np.int64(i == 0) * (last + 1)
    place[at], key[i] = i, wanted
    return i


@njit(**LEAF)
def add(wanted, place, key, often, used):
    """Count a key; returns its estimated count. The arrays are one source's of a `Sketch`, in order."""
    i = _place_of(wanted, place, key, used[0])
    often[i] += 1
    estimate = often[i] + used[1]
    used[0] = max(used[0], i)
    if used[0] >= key.size - 1:
        _take_off(place, key, often, used)
    return estimate


@njit(cache=True)
def choices_for_head(often, taken, seen, threshold, workers, slack):
    """The d of D-Choices for the counts of a sketch; `workers` when none below will do."""
    counts = often[often > 0] + taken
    return find_choices(np.sort(counts[counts >= threshold * seen])[::-1] / seen, workers, slack)


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


class Own(NamedTuple):
    """Which messages are a source's: the first and every so many-th from there on."""

    first: int
    every: int


@njit(**LEAF, nogil=True)
def count_choices(keys, own, sketch, threshold, seen, chosen, due, begin, choices):
    """How many candidates a source's messages have, from the `begin`-th on: two in the tail, `chosen` in the head.

    `seen` messages were counted before. Ends at a key of the head that is at least the `due`-th message, which is counted:
    other candidates may do by then. Returns which message it is.
    """
    place, key, often, used = sketch
    last, taken, stop = used[0], used[1], choices.size
    for i in range(begin, choices.size):  # as `add` does, without a look at `used`
        seen += 1
        wanted = keys[uint64(own.first + i * own.every)]
        at = _place_of(wanted, place, key, last)
        count = often[at] + 1
        often[at], last = count, max(last, at)
        head = count + taken >= threshold * seen
        if last >= key.size - 1:
            used[0] = last
            _take_off(place, key, often, used)
            last, taken = used[0], used[1]
        if head and seen >= due:
            stop = i
            break
        choices[i] = chosen if head else 2
    used[0] = last
    return stop


@njit(inline="always")
def _after(own, w, weight, speeds):
    """Estimated load of a worker with one more message on it. Equal workers keep the order of their loads."""
    return own[w] if speeds is None else (own[w] + weight) / speeds[w]


@njit(inline="always")
def _least(own, weight, speeds):
    """The least loaded of all workers, the lowest number on ties."""
    best, lowest = 0, _after(own, 0, weight, speeds)
    for w in range(1, own.size):
        load = _after(own, w, weight, speeds)
        if load < lowest:
            best, lowest = w, load
    return best


@njit(inline="always")
def _choose(key, own, weight, speeds, hashed, choices):
    """The least loaded of a key's candidates, the earlier hash function on ties."""
    seed, workers = hashed
    one, two = hash_word(uint64(key), seed)
    best = worker_of(one, workers)
    if choices == 1:
        return best
    other = worker_of(two, workers)
    lowest = _after(own, best, weight, speeds)
    load = _after(own, other, weight, speeds)
    # Which of two balanced workers is less loaded cannot be predicted: arithmetic, not a branch.
    best += (other - best) * np.int64(load < lowest)
    for j in range(2, choices, 2):
        lowest = min(load, lowest)
        one, two = hash_word(uint64(key), seed + uint64(j // 2))
        other = worker_of(one, workers)
        load = _after(own, other, weight, speeds)
        if load < lowest:
            best, lowest = other, load
        if j + 1 < choices:
            other = worker_of(two, workers)
            load = _after(own, other, weight, speeds)
            if load < lowest:
                best, lowest = other, load
    return best


@njit(inline="always")
def _send(w, weight, own, loads, apart, speeds):
    """Book a message; returns the worker's relative load."""
    now = own[w] + weight
    own[w] = now
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
def _chosen(key, own, weight, speeds, hashed, choices):
    """The least loaded of the first candidates of a key; ``choices = 0`` opens all workers."""
    if choices == 0:
        return _least(own, weight, speeds)
    return _choose(key, own, weight, speeds, hashed, choices)


@njit(**LEAF)
def greedy(keys, weights, source, books, speeds, hashed, choices, probes, numbers, place_of, tally, out):
    """Greedy-d: the least loaded of each message's so many candidates (PKG with 2, hashing with 1).

    With `numbers` of the keys a key stays where its first message went: static PoTC and On-Greedy.
    """
    estimates, loads, apart = books
    for i in range(keys.size):
        row = 0
        if apart:
            _probe(estimates, loads, probes, i)
            row = source[i]
        own = estimates[row]
        w = place_of[numbers[i]] if numbers.size else -1
        if w < 0:
            w = _chosen(keys[i], own, weights[i], speeds, hashed, choices[i])
            if numbers.size:
                place_of[numbers[i]] = w
        _book(tally, _send(w, weights[i], own, loads, apart, speeds), weights[i])
        out[i] = w


@njit(**LEAF)
def in_turn(weights, source, turns, loads, speeds, tally, out):
    """Shuffle grouping: every source deals its messages round robin, source s beginning with worker s."""
    workers = loads.size
    for i in range(out.size):
        s = source[i]
        w = np.int64((turns[s] + s) % workers)
        turns[s] += 1
        _book(tally, _send(w, weights[i], loads, loads, False, speeds), weights[i])
        out[i] = w


BLOCK = 4096
"""Messages whose keys are hashed in one go."""


class Room(NamedTuple):
    """Room for a block of messages, and for the candidates of keys of the head, which come again soon."""

    first: np.ndarray  # (block,): the two candidates of every message
    second: np.ndarray
    candidates: np.ndarray  # (power of two, workers)
    known: np.ndarray  # (power of two, 4): whose, how many, before which none has the least count, and that count


def room(workers: int) -> Room:
    """Room without anything in it."""
    first, second = np.empty((2, BLOCK), dtype=np.uint32)
    return Room(first, second, np.empty((512, workers), dtype=np.uint32), np.zeros((512, 4), dtype=np.int64))


@njit(**LEAF, nogil=True)
def send_counted(keys, own, choices, hashed, counts, hand, room, tally, out):
    """`greedy` for one source's messages that all weigh the same, to equal workers; `choices` may be empty: two.

    `hand` has a worker before which none has the least count, and that count.
    """
    messages = (keys.size - own.first + own.every - 1) // own.every
    for begin in range(0, messages, BLOCK):
        size = min(BLOCK, messages - begin)
        at = own.first + begin * own.every
        _hash_block(keys, at, own.every, room.first[:size], room.second, hashed)
        if choices.size:
            _send_block(keys, at, own.every, choices[begin : begin + size], hashed, counts, hand, room, tally, out)
        else:
            _send_to_two(counts, room.first[:size], room.second, tally, out, at, own.every)
    _add_load(tally, messages)


@njit(**LEAF)
def _hash_block(keys, at, every, first, second, hashed):
    """A loop of its own, which processors do for eight keys at once."""
    seed, workers = hashed
    for i in range(first.size):
        one, two = hash_word(uint64(keys[uint64(at + i * every)]), seed)
        first[i], second[i] = worker_of(one, workers), worker_of(two, workers)


@njit(inline="always")
def _to_one_of_two(v, w, counts):
    """Book a message at the less loaded of two workers, the first on ties; returns which, and its load before.

    Both are written back, the one that is not chosen as it was: so it is known ahead where to write, and a processor need
    not wait for one decision to begin with the next.
    """
    one, two = counts[v], counts[w]
    other = np.int64(two < one)
    counts[v] = one + 1 - other
    counts[w] = two + (other | np.int64(v == w))
    return (w if two < one else v), min(one, two)


@njit(**LEAF)
def _send_to_two(counts, first, second, tally, out, at, every):
    peak, peaks = tally[0], 0
    for i in range(first.size):
        w, before = _to_one_of_two(first[i], second[i], counts)
        out[uint64(at + i * every)] = w
        peak = max(peak, before + 1)
        peaks += peak
    tally[0] = peak
    tally[1] += peaks


@njit(**LEAF)
def _send_block(keys, at, every, choices, hashed, counts, hand, room, tally, out):
    peak, peaks = tally[0], 0
    for i in range(choices.size):
        if choices[i] == 2:
            w, before = _to_one_of_two(room.first[i], room.second[i], counts)
        else:
            if choices[i] == 0:
                w = _at_hand(counts, hand)
            else:
                w = _of_many(keys[uint64(at + i * every)], counts, hashed, choices[i], room.candidates, room.known)
            before = counts[w]
            counts[w] += 1
        out[uint64(at + i * every)] = w
        peak = max(peak, before + 1)
        peaks += peak
    tally[0] = peak
    tally[1] += peaks


@njit(inline="always")
def _of_many(key, counts, hashed, choices, candidates, known):
    """`_choose` for counts. A hand goes round the candidates of a key of the head, as `_at_hand` round all workers."""
    slot = _first_slot(key, uint64(known.shape[0] - 1))
    of, (seed, workers) = candidates[slot], hashed
    at, least = known[slot, 2], known[slot, 3]
    if known[slot, 0] != key or known[slot, 1] != choices:
        known[slot, 0], known[slot, 1] = key, choices
        for j in range(0, choices, 2):
            one, two = hash_word(uint64(key), seed + uint64(j // 2))
            of[j] = worker_of(one, workers)
            if j + 1 < choices:
                of[j + 1] = worker_of(two, workers)
        at, least = 0, -1
    last = min(at + 4, choices - 1)
    while counts[of[at]] > least and at < last:
        at += 1
    if counts[of[at]] > least:
        at = _first_least(counts, of, choices)
        least = counts[of[at]]
    known[slot, 2], known[slot, 3] = at, least
    return of[at]


@njit(inline="always")
def _first_least(counts, of, choices):
    least = counts[of[0]] * choices
    for j in range(1, choices):  # a count and its place in one number: which is least cannot be foreseen
        least = min(least, counts[of[j]] * choices + j)
    return least % choices


@njit(inline="always")
def _at_hand(counts, hand):
    """The first worker of least count. Counts only grow, so the hand goes round once for each least count at most."""
    while counts[hand[0]] > hand[1]:
        hand[0] += 1
        if hand[0] == counts.size:
            hand[0], hand[1] = 0, counts[0]
            for w in range(counts.size):
                hand[1] = min(hand[1], counts[w])
    return hand[0]


@njit(**LEAF)
def follow_counts(sent, loads, tally):
    """Book messages that sources have sent by estimates of their own."""
    peak, peaks = tally[0], 0
    for i in range(sent.size):
        w = np.uint32(sent[i])
        loads[w] += 1
        peak = max(peak, loads[w])
        peaks += peak
    tally[0] = peak
    tally[1] += peaks
    _add_load(tally, sent.size)


@njit(inline="always")
def _add_load(tally, messages):
    tally[3] += messages * tally[2] + messages * (messages + 1) // 2
    tally[2] += messages


@njit(cache=True)
def offline_order(weight, order, options, speeds):
    """Keys in the given order, each to the worker least loaded after it, among its options or - if none - all."""
    place_of = np.empty(weight.size, dtype=np.int32)
    loads = np.zeros(speeds.size)
    for k in order:
        if options.shape[1] == 0:
            w = _least(loads, weight[k], speeds)
        else:
            w, lowest = np.int64(options[k, 0]), np.inf
            for j in range(options.shape[1]):
                after = _after(loads, options[k, j], weight[k], speeds)
                if after < lowest:
                    w, lowest = np.int64(options[k, j]), after
        loads[w] += weight[k]
        place_of[k] = w
    return place_of

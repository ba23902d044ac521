"""All partitions of a class: at most n non-empty intervals, none heavier than the limit for n nodes.

A partition is its set of inner cuts. Counting needs no enumeration; enumeration builds the trie of cut prefixes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy import uint64

from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.band_kernels import NEVER, weights
from keyshift.solvers.intervals.owners import match


@dataclass(frozen=True, eq=False)
class PartitionClass:
    """The trie of all partitions of one class, and their table.

    A trie node is a prefix of cuts; its cut is the last of them (0 for the root). Nodes are numbered by cut, then by
    parent, so that the prefixes on which a next cut may follow at t are the consecutive numbers from
    ``first[starts[t]]`` to ``first[t]``, and the complete partitions those for t = m, in the order of `rows`.

    Attributes
    ----------
    nodes : int
        n, the most intervals.
    starts : ndarray, shape (m + 1,)
        Leftmost start of an interval within the limit, for every end.
    first : ndarray of int64, shape (m + 1,)
        First trie node of every cut; ``first[m]`` is the number of trie nodes.
    parent : ndarray of int32
    rows : ndarray of int32, shape (partitions, n)
        Inner cuts of every partition, last cut first, filled with zeros; in lexicographic order.
    """

    nodes: int
    starts: IntArray
    first: IntArray
    parent: np.ndarray
    rows: np.ndarray

    @property
    def size(self) -> int:
        """Number of partitions."""
        return int(self.rows.shape[0])

    @property
    def tasks(self) -> int:
        """Number of tasks, m."""
        return int(self.starts.size - 1)

    def cuts(self, index: int) -> IntArray:
        """The cuts of a partition, from 0 to m."""
        row = self.rows[index]
        return np.concatenate(([0], row[row > 0][::-1], [self.tasks])).astype(np.int64)

    def index(self, cuts: IntArray) -> int | None:
        """The number of a partition by binary search; None if it is not in the class."""
        inner = tuple(reversed(cuts[1:-1].tolist()))
        width = self.rows.shape[1]
        if len(inner) >= width:
            return None
        wanted = inner + (0,) * (width - len(inner))
        place = bisect_left(self.rows, wanted, key=lambda row: tuple(row.tolist()))  # type: ignore[call-overload]  # a sequence of rows
        return place if place < self.size and tuple(self.rows[place].tolist()) == wanted else None


def count_partitions(starts: IntArray, nodes: int, most: int = 1 << 62) -> tuple[int, int]:
    """Numbers of partitions and of trie nodes of a class, in O(m n) steps.

    Prefixes with the same last cut are continued to different partitions. So as soon as there are more than `most` of them,
    counting ends with numbers that are only known to be larger than `most`.
    """
    tasks = starts.size - 1
    depth, longest = min(nodes, tasks), int((np.arange(tasks + 1) - starts).max())
    sums = np.zeros((longest + 2, depth + 1), dtype=np.int64)
    most = min(most, (1 << 62) // (tasks + 1))  # sums over so many cuts fit 64 bits
    partitions, prefixes = _counted(starts, fewest_after(starts), depth, most, sums)
    return int(partitions), int(prefixes)


MOST_BYTES = 4_000_000_000
"""What partitions and sweeps over them may take; where they would take more, none is enumerated."""


def bytes_of(counted: Mapping[int, tuple[int, int]]) -> int:
    """About what enumeration and sweeps take: rows, values and a trie, for numbers of partitions and trie nodes by node count."""
    return sum(partitions * (4 * n + 40) + 44 * nodes for n, (partitions, nodes) in counted.items())


@njit(cache=True, nogil=True)
def _counted(starts: np.ndarray, rest: np.ndarray, nodes: int, most: int, sums: np.ndarray) -> tuple[int, int]:
    """Row c of the sums, modulo their number: prefixes of k intervals whose cut is below c."""
    tasks, rows = starts.size - 1, sums.shape[0]
    prefixes, found = 1, 0  # the root
    sums[1 % rows, 0] = 1
    for cut in range(1, tasks + 1):
        below, here, above = starts[cut] % rows, cut % rows, (cut + 1) % rows
        found = 0
        for k in range(nodes + 1):
            ways = sums[here, k - 1] - sums[below, k - 1] if k > 0 and k + rest[cut] <= nodes else 0
            sums[above, k] = sums[here, k] + ways
            found += ways
        if found > most or cut == tasks:
            break
        prefixes += found
    return found, max(prefixes, found) if found > most else prefixes


@njit(cache=True, nogil=True)
def fewest_after(starts: np.ndarray) -> np.ndarray:
    """The least number of intervals that cover the tasks after every position, shape (m + 1,)."""
    tasks = end = starts.size - 1
    rest = np.zeros(tasks + 1, np.int64)
    for cut in range(tasks - 1, -1, -1):
        while starts[end] > cut:
            end -= 1
        rest[cut] = tasks + 1 if end == cut else rest[end] + 1
    return rest


def enumerate_class(starts: IntArray, nodes: int, trie_nodes: int | None = None) -> PartitionClass:
    """Build the trie and the table of a class; count first, it may be large, and hand the number of trie nodes on."""
    prefixes = count_partitions(starts, nodes)[1] if trie_nodes is None else trie_nodes
    first, parent = _trie(starts, fewest_after(starts), nodes, prefixes)
    rows = _rows(starts, first, parent, nodes)
    return PartitionClass(nodes, starts, first, parent, rows)


def some_of_class(starts: IntArray, nodes: int, chosen: Iterable[IntArray]) -> PartitionClass:
    """The trie and the table of some partitions of a class, given by their cuts.

    What is left of one of them without its last intervals comes with it where the last that stays may reach the end.
    """
    tasks = int(starts.size - 1)
    met: dict[tuple[int, int], int] = {}  # parent and cut, both as they are met; the root is number 0
    cut_of, above = [0], [0]
    for cuts in chosen:
        at = 0
        for cut in cuts[1:-1].tolist():
            if (after := met.setdefault((at, cut), len(cut_of))) == len(cut_of):
                cut_of.append(cut)
                above.append(at)
            at = after
    number, parent = np.zeros(len(cut_of), dtype=np.int64), [0]
    first = np.searchsorted(np.sort(cut_of), np.arange(tasks + 1)).astype(np.int64)
    by_cut = np.argsort(cut_of, kind="stable")
    for cut in np.unique(cut_of[1:]).tolist():
        here = by_cut[first[cut] : first[cut + 1] if cut < tasks else None].tolist()
        for i in sorted(here, key=lambda i: number[above[i]]):
            number[i] = len(parent)
            parent.append(int(number[above[i]]))
    parents = np.array(parent, dtype=np.int32)
    return PartitionClass(nodes, starts, first, parents, _rows(starts, first, parents, nodes))


@njit(cache=True, nogil=True)
def _trie(starts: np.ndarray, rest: np.ndarray, nodes: int, prefixes: int) -> tuple[np.ndarray, np.ndarray]:
    tasks = starts.size - 1
    first = np.zeros(tasks + 1, np.int64)
    parent = np.zeros(max(prefixes, 1), np.int32)
    count = np.zeros(max(prefixes, 1), np.int32)
    made = 1  # the root
    for cut in range(1, tasks):
        first[cut] = made
        for b in range(first[starts[cut]], first[cut]):
            if count[b] + 1 + rest[cut] <= nodes:
                parent[made] = b
                count[made] = count[b] + 1
                made += 1
    first[tasks] = made
    return first, parent


@njit(cache=True, nogil=True)
def _rows(starts: np.ndarray, first: np.ndarray, parent: np.ndarray, nodes: int) -> np.ndarray:
    tasks = starts.size - 1
    begin, end = first[starts[tasks]], first[tasks]
    if starts[tasks] == tasks:
        end = begin
    cut_of = np.zeros(end, np.int32)
    for cut in range(1, tasks):
        cut_of[first[cut] : min(first[cut + 1], end)] = cut
    rows = np.zeros((end - begin, nodes), np.int32)
    for b in range(begin, end):
        node, column = b, 0
        while node > 0:
            rows[b - begin, column] = cut_of[node]
            node = parent[node]
            column += 1
    return rows


# Sweeps in whole numbers: from values of a class to the best partner, and its value, of every partition of another ---


@dataclass(frozen=True)
class Best:
    """For every source partition: the least cost + value over the partners, the partner that attains it, and its cost.

    All in whole units of the ruler that made it.
    """

    total: IntArray
    partner: np.ndarray
    cost: IntArray


class Ruler:
    """State and values in whole numbers that leave room for a partner's number beside them.

    Parameters
    ----------
    state : ndarray, shape (m,)
    partners : int
        Size of the largest table of partners.

    Attributes
    ----------
    unit : float
        What one whole unit stands for, a power of two.
    error : float
        How far a cost can be from the truth, in units of state: 0 where the states are exact.
    """

    def __init__(self, state: FloatArray, partners: int) -> None:
        self.row_bits = max(1, int(partners).bit_length())
        room = 58 - self.row_bits
        self.weights = weights(state, bits=room).finer(room - 1)
        self.unit, self.total = self.weights.unit, self.weights.total
        self.error = self.weights.error * state.size
        self.prefix = self.weights.prefix

    def whole(self, value: FloatArray) -> IntArray:
        """Values in whole units, to the nearest."""
        return np.rint(value / self.unit).astype(np.int64)

    def need(self, source: PartitionClass, rows: np.ndarray) -> int:
        """Slots of 32 bytes that a sweep takes."""
        return int(frame_need(source.first, source.starts, rows))

    def sweep(self, source: PartitionClass, rows: np.ndarray, value: IntArray, slots: np.ndarray | None = None) -> Best:
        """The best partner among the rows for every partition of the source class.

        `value` has one whole number for each row. A row whose value exceeds the least by more than all the state can be
        no row's best partner, whatever its cost, and is capped there: so values of any spread fit beside row numbers.
        """
        if slots is None:
            slots = np.empty((4, self.need(source, rows)), dtype=np.int64)
        base = int(value.min())
        capped = np.minimum(value, base + self.total + 1)
        packed = ((base - capped) << self.row_bits) + np.arange(value.size)
        out = np.empty(source.size, dtype=np.int64)
        sweep(source.parent, source.first, source.starts, self.prefix << self.row_bits, rows, packed, out, slots)
        partner = (out & ((1 << self.row_bits) - 1)).astype(np.int32)
        out >>= self.row_bits
        total = (self.total + base) - out
        return Best(total, partner, total - value[partner])

    def from_one(self, cuts: IntArray, target: PartitionClass, prefix: IntArray | None = None) -> IntArray:
        """The cost from one partition, of any kind, to all of a class, in whole units.

        `prefix` replaces the weights where some tasks must move anyway.
        """
        return self.total - matches(cuts, target.rows, target.tasks, self.prefix if prefix is None else prefix)


@njit(cache=True, nogil=True)
def matches(cuts: np.ndarray, rows: np.ndarray, tasks: int, prefix: np.ndarray) -> np.ndarray:
    """Largest common weight of one partition with every row of a table."""
    weight = np.empty(rows.shape[0], np.int64)
    buffer = np.empty(rows.shape[1] + 2, np.int64)
    for i in range(rows.shape[0]):
        inner = 0
        while inner < rows.shape[1] and rows[i, inner] > 0:
            inner += 1
        buffer[0], buffer[inner + 1] = 0, tasks
        for column in range(inner):
            buffer[inner - column] = rows[i, column]
        weight[i] = match(cuts, buffer[: inner + 2], prefix)[0]
    return weight


# For every partition of a class the best partner in another: a min-plus product without touching all pairs.
#
# For each partition P of the source class, find the largest ``match(P, P') + value(P')`` over the rows P' of a table.
# The cuts of P' are eliminated from left to right: what is left in between is indexed by a prefix of P (a trie
# node) and a suffix of P' (a range of rows that share their last cuts), about the square root of the number of pairs.
#
# A suffix that begins at t keeps four values for every prefix b, whose last cut c <= t begins the current old
# interval; the current new interval ends at t:
#
# * N0, N1: the new interval is unmatched so far, and the old one is still available, or may be taken (N1 >= N0);
# * C: the new interval is matched to the current old one, less the weight before the overlap's start;
# * M: the new interval is matched to an earlier old one, and the current one is available.
#
# Values are packed: ``(value << bits) | row``, so that a maximum carries the row that attains it.


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


# Each of the four has an array of its own, and loops go over slices of them, so that a processor does eight at once.


@njit(**LEAF, nogil=True)
def _take_over(slots, parent, shift, weight, low, high):
    """The old intervals numbered low, .., high - 1, which begin where so much weight is before them, take over."""
    n0, n1, c, m = slots
    own0, own1, own_c, own_m = (n0[low:high], n1[low:high], c[low:high], m[low:high])
    for i in range(parent.size):
        a = uint64(parent[i] + shift)
        unmatched, matched = n1[a], max(c[a] + weight, m[a])
        own0[i] = own1[i] = unmatched
        own_c[i], own_m[i] = unmatched - weight, matched


@njit(**LEAF, nogil=True)
def _advance(slots, parent, first, prefix, shift, low, high):
    """Let the old intervals that begin at low, .., high - 1 take over from their parents."""
    for p in range(max(low, 1), high):
        if first[p] < first[p + 1]:
            _take_over(slots, parent[first[p] : first[p + 1]], shift, prefix[p], first[p] + shift, first[p + 1] + shift)


@njit(**LEAF, nogil=True)
def _finish(n0, n1, c, m, weight, fresh, outer0, outer1, outer_c, outer_m):
    """End a new interval where so much weight is before it, and hand the suffix that is left to the one that it extends."""
    for i in range(n0.size):
        end0 = max(n0[i], m[i])
        end1 = max(max(n1[i], c[i] + weight), m[i])
        if fresh:
            outer0[i], outer1[i], outer_c[i], outer_m[i] = end0, end1, end0 - weight, NEVER
        else:
            outer0[i], outer1[i] = max(outer0[i], end0), max(outer1[i], end1)
            outer_c[i] = max(outer_c[i], end0 - weight)


@njit(cache=True, nogil=True)
def sweep(  # a compiled loop is one function
    parent: np.ndarray, first: np.ndarray, starts: np.ndarray, prefix: np.ndarray,
    rows: np.ndarray, value: np.ndarray, out: np.ndarray, slots: np.ndarray,
) -> None:  # fmt: skip
    """Best partner of every source partition.

    Parameters
    ----------
    parent, first, starts
        The source class, see `PartitionClass`.
    prefix : int64 array, shape (m + 1,)
        Prefix sums of the weights, shifted like the values.
    rows : int32 array, shape (partners, columns)
        The table of partners, last cut first, sorted, its last column all zeros.
    value : int64 array, shape (partners,)
        Packed values.
    out : int64 array, shape (source partitions,)
        Receives the packed maxima.
    slots : int64 array, shape (4, at least `frame_need`)
        Scratch.
    """
    frames = (slots[0], slots[1], slots[2], slots[3])
    n0, n1, c, m = frames
    tasks = starts.size - 1
    depths = rows.shape[1] + 1
    cut, end, at = np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    shift, top, done = np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    fresh = np.ones(depths, np.bool_)
    d = 0
    cut[0], end[0] = tasks, rows.shape[0]
    done[0] = rows[0, 0]
    shift[0] = -first[starts[rows[0, 0]]]
    top[0] = first[tasks] + shift[0]
    while True:
        if at[d] < end[d]:
            u = rows[at[d], d]
            if u == 0:  # a complete partner; always the first of its range
                n0[shift[d]] = n1[shift[d]] = c[shift[d]] = value[at[d]]
                m[shift[d]] = NEVER
                fresh[d], done[d] = False, 1
                at[d] += 1
                continue
            e = at[d] + 1
            while e < end[d] and rows[e, d] == u:
                e += 1
            cut[d + 1], at[d + 1], end[d + 1], fresh[d + 1] = u, at[d], e, True
            at[d] = e
            d += 1
            leftmost = rows[at[d], d]
            low = first[starts[leftmost]]
            shift[d], top[d], done[d] = top[d - 1] - low, top[d - 1] + first[u] - low, leftmost
            continue
        # all partners with this suffix are in: finish the current new interval at t
        t, s = cut[d], shift[d]
        _advance(frames, parent, first, prefix, s, done[d], t)
        low, high, weight = first[starts[t]], first[t], prefix[t]
        mine0, mine1, mine_c, mine_m = (
            n0[low + s : high + s],
            n1[low + s : high + s],
            c[low + s : high + s],
            m[low + s : high + s],
        )
        if d == 0:
            _finish(mine0, mine1, mine_c, mine_m, weight, True, mine0, out, mine_c, mine_m)
            return
        d -= 1
        s = shift[d]
        if not fresh[d]:
            _advance(frames, parent, first, prefix, s, done[d], t)
        _finish(
            mine0, mine1, mine_c, mine_m, weight, fresh[d],
            n0[low + s : high + s], n1[low + s : high + s], c[low + s : high + s], m[low + s : high + s],
        )  # fmt: skip
        fresh[d], done[d] = False, t

"""All partitions of a class: at most n non-empty intervals, none heavier than the limit for n nodes.

A partition is its set of inner cuts. Counting needs no enumeration; enumeration builds the trie of cut prefixes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keyshift.models.base.compiling import njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.band_kernels import weights
from keyshift.solvers.intervals.owners import match
from keyshift.solvers.intervals.sweep_kernels import Trie, frame_need, sweep


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

    @cached_property
    def for_sweeps(self) -> tuple[Trie, IntArray]:
        """The trie as sweeps take it, and the place in `rows` of each partition there."""
        first, tasks, starts = self.first, self.tasks, self.starts
        if self.nodes * tasks <= first[-1]:
            count = np.zeros(int(first[-1]), dtype=np.int16)
            held = np.zeros((self.nodes, tasks), dtype=np.int64)
            held[0, 0] = 1  # the root
            for t in range(1, tasks):
                here = slice(first[t], first[t + 1])
                count[here] = count[self.parent[here]] + 1
                held[:, t] = np.bincount(count[here], minlength=self.nodes)
            ends = np.concatenate(([0], np.cumsum(held)))
            begins = np.stack([ends[k * tasks : (k + 1) * tasks + 1] for k in range(self.nodes)])
            above = begins[:-1, :-1] - np.take(begins[:-1], starts[:-1], axis=1)
            if ((held[1:] == 0) | (held[1:] == above)).all():  # all parents that there may be
                depths = np.arange(self.nodes)[:, None]
                low = np.minimum.accumulate(np.where(held > 0, depths, self.nodes).min(axis=0)[::-1])[::-1]
                high = np.maximum.accumulate(np.where(held > 0, depths + 1, 0).max(axis=0))
                places = np.argsort(count[first[starts[tasks]] :], kind="stable").astype(np.int32)
                return Trie(begins, np.ascontiguousarray(low), high, starts, np.zeros(0, dtype=np.int32)), places
        ones, places = np.ones(tasks, dtype=np.int64), np.arange(self.size, dtype=np.int32)
        return Trie(np.stack([np.zeros_like(first), first]), ones, 2 * ones, starts, self.parent), places

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
        (trie, places), found, out = source.for_sweeps, *np.empty((2, source.size), dtype=np.int64)
        sweep(trie, self.prefix << self.row_bits, rows, packed, found, slots)
        out[places] = found
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

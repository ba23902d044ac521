"""All partitions of a class: at most n non-empty intervals, none heavier than the limit for n nodes.

A partition is its set of inner cuts. Counting needs no enumeration; enumeration builds the trie of cut prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from keyshift.models.compiling import njit
from keyshift.models.workload import IntArray


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
    rows : ndarray of int16, shape (partitions, n)
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
        low, high = 0, self.size
        while low < high:
            middle = (low + high) // 2
            if tuple(self.rows[middle].tolist()) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < self.size and tuple(self.rows[low].tolist()) == wanted else None


def count_partitions(starts: IntArray, nodes: int) -> tuple[int, int]:
    """Numbers of partitions and of trie nodes of a class, as exact Python integers, in O(m n) steps.

    Returns
    -------
    partitions, trie_nodes : int
    """
    tasks = starts.size - 1
    rest = fewest_after(starts)
    sums = [[0] * (tasks + 1) for _ in range(nodes + 1)]  # sums[k][c] = prefixes of k intervals with cut below c
    prefixes = 0
    partitions = 0
    for cut in range(tasks + 1):
        lowest = int(starts[cut])
        for k in range(nodes + 1):
            if cut == 0:
                ways = int(k == 0)
            else:
                ways = sums[k - 1][cut] - sums[k - 1][lowest] if k > 0 and k + rest[cut] <= nodes else 0
            if cut < tasks:
                sums[k][cut + 1] = sums[k][cut] + ways
                prefixes += ways
            else:
                partitions += ways
    return partitions, prefixes


def fewest_after(starts: IntArray) -> list[int]:
    """The least number of intervals that cover the tasks after every position, shape (m + 1,)."""
    tasks = starts.size - 1
    rest = [0] * (tasks + 1)
    end = tasks
    for cut in range(tasks - 1, -1, -1):
        while starts[end] > cut:
            end -= 1
        rest[cut] = tasks + 1 if end == cut else rest[end] + 1
    return rest


def enumerate_class(starts: IntArray, nodes: int, trie_nodes: int | None = None) -> PartitionClass:
    """Build the trie and the table of a class; count first, it may be large, and hand the number of trie nodes on."""
    prefixes = count_partitions(starts, nodes)[1] if trie_nodes is None else trie_nodes
    rest = np.array(fewest_after(starts), dtype=np.int64)
    first, parent = _trie(starts, rest, nodes, prefixes)
    rows = _rows(starts, first, parent, nodes)
    return PartitionClass(nodes, starts, first, parent, rows)


def some_of_class(starts: IntArray, nodes: int, chosen: Iterable[IntArray]) -> PartitionClass:
    """The trie and the table of some partitions of a class, given by their cuts.

    What is left of one of them without its last intervals comes with it where the last that stays may reach the end.
    """
    tasks = int(starts.size - 1)
    prefixes: list[set[tuple[int, ...]]] = [set() for _ in range(tasks + 1)]
    prefixes[0].add(())
    for cuts in chosen:
        prefix = tuple(cuts[1:-1].tolist())
        while prefix and prefix not in prefixes[prefix[-1]]:
            prefixes[prefix[-1]].add(prefix)
            prefix = prefix[:-1]
    number: dict[tuple[int, ...], int] = {}
    first, parent = np.zeros(tasks + 1, dtype=np.int64), [0]
    for cut, found in enumerate(prefixes):
        first[cut] = len(number)
        order = sorted((number[prefix[:-1]] if prefix else 0, prefix) for prefix in found)
        parent += [before for before, prefix in order if prefix]
        number |= {prefix: first[cut] + i for i, (_, prefix) in enumerate(order)}
    parents = np.array(parent, dtype=np.int32)
    return PartitionClass(nodes, starts, first, parents, _rows(starts, first, parents, nodes))


@njit(cache=True, nogil=True)
def _trie(starts: np.ndarray, rest: np.ndarray, nodes: int, prefixes: int) -> tuple[np.ndarray, np.ndarray]:
    tasks = starts.size - 1
    first = np.zeros(tasks + 1, np.int64)
    parent = np.zeros(max(prefixes, 1), np.int32)
    count = np.zeros(max(prefixes, 1), np.int16)
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
    cut_of = np.zeros(end, np.int16)
    for cut in range(1, tasks):
        cut_of[first[cut] : min(first[cut + 1], end)] = cut
    rows = np.zeros((end - begin, nodes), np.int16)
    for b in range(begin, end):
        node, column = b, 0
        while node > 0:
            rows[b - begin, column] = cut_of[node]
            node = parent[node]
            column += 1
    return rows

"""What the statements of intervals share: the steps, the nodes that are open, and the way from cuts back to an assignment."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from keyshift.models.intervals.partition import cuts_of, spread
from keyshift.models.intervals.sequence import MigrationSequence
from keyshift.models.intervals.step import IntervalMigration
from keyshift.models.workload import FloatArray, IntArray


def steps_of(problem: IntervalMigration | MigrationSequence) -> list[tuple[int, int]]:
    """For each step: the number of nodes, and the whole load that each may carry."""
    return [(n, problem.prefix.limit(Fraction(problem.tau), n)) for n in problem.certain_counts]


def open_nodes(problem: IntervalMigration | MigrationSequence) -> list[int]:
    """(5) The node numbers that may carry tasks: all but the draining ones."""
    w = problem.workload
    return [i for i in range(problem.node_numbers) if i >= w.nodes or not w.draining[i]]


def partners(before: IntArray, cuts: IntArray, state: FloatArray) -> IntArray:
    """For each interval the old node that it stays on, so that most state stays in all; -1 for none.

    Parameters
    ----------
    before : ndarray, shape (m,)
        The node of each task, each node one interval.
    cuts : ndarray
        The new intervals' ends, from 0 to m.
    state : ndarray, shape (m,)
        What a task is worth that stays; 0 where it has to leave.
    """
    old = cuts_of(before)
    new, stays, overlap = heaviest_matching(cuts, old, state)
    found = np.full(cuts.size - 1, -1, dtype=np.int64)
    found[new[overlap > 0]] = before[old[stays[overlap > 0]]]
    return found


def heaviest_matching(one: ArrayLike, other: ArrayLike, state: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Intervals of two partitions matched for the most state in common, by the Hungarian method; and how much each pair has."""
    one, other = np.asarray(one), np.asarray(other)
    sums = np.concatenate(([0.0], np.cumsum(state)))
    left = np.maximum.outer(one[:-1], other[:-1])
    overlap = sums[np.maximum(np.minimum.outer(one[1:], other[1:]), left)] - sums[left]
    first, second = linear_sum_assignment(overlap, maximize=True)
    return first, second, overlap[first, second]


def labelled(before: IntArray, cuts: IntArray, state: FloatArray, open_nodes: Iterable[int]) -> IntArray:
    """The assignment to a partition that keeps most state in place; intervals that keep nothing take the lowest free nodes."""
    nodes = partners(before, cuts, state)
    taken = set(nodes.tolist())
    free = [i for i in open_nodes if i not in taken]
    lost = np.flatnonzero(nodes < 0)
    nodes[lost] = free[: lost.size]
    return spread(cuts, nodes)

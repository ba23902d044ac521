"""Which node takes which interval: how the statements get from cuts back to an assignment."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.optimize import linear_sum_assignment

from keyshift.models.intervals.partition import cuts_of, spread
from keyshift.models.intervals.sequence import MigrationSequence
from keyshift.models.intervals.step import IntervalMigration
from keyshift.models.workload import FloatArray, IntArray


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
    sums = np.concatenate(([0.0], np.cumsum(state)))
    left = np.maximum.outer(cuts[:-1], old[:-1])
    right = np.maximum(np.minimum.outer(cuts[1:], old[1:]), left)
    overlap = sums[right] - sums[left]
    new, stays = linear_sum_assignment(overlap, maximize=True)
    found = np.full(cuts.size - 1, -1, dtype=np.int64)
    worth = overlap[new, stays] > 0
    found[new[worth]] = before[old[stays[worth]]]
    return found


def labelled(before: IntArray, cuts: IntArray, state: FloatArray, open_nodes: Iterable[int]) -> IntArray:
    """The assignment to a partition that keeps most state in place; intervals that keep nothing take the lowest free nodes."""
    nodes = partners(before, cuts, state)
    taken = set(nodes.tolist())
    free = [i for i in open_nodes if i not in taken]
    lost = np.flatnonzero(nodes < 0)
    nodes[lost] = free[: lost.size]
    return spread(cuts, nodes)

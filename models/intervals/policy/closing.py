"""From decisions to the closed policy table that `MigrationPolicy` checks and values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models.intervals.labels import labelled
from keyshift.models.intervals.partition import cuts_of, spread
from keyshift.models.intervals.policy.dense import DensePolicyModel
from keyshift.models.intervals.policy.problem import NOT_ASKED, MigrationPolicy
from keyshift.models.workload import FloatArray, IntArray

Decide = Callable[[int, IntArray, int], IntArray]
"""(nodes, cuts, next node count) -> cuts."""
Relabel = Callable[[MigrationPolicy, tuple[int, IntArray] | None, int, IntArray], IntArray]
"""(problem, (nodes, cuts) before or None for now, next node count, its cuts) -> the node of each task."""


def least_moved(problem: MigrationPolicy, before: tuple[int, IntArray] | None, after: int, cuts: IntArray) -> IntArray:
    """Label a decision's intervals so that least state moves."""
    w = problem.workload
    if before is None:
        kept, most = int(w.kept.sum()), w.nodes
        free = [*np.flatnonzero(w.kept).tolist(), *range(most, most + max(0, after - kept))]
        return labelled(w.current, cuts, np.where(w.draining[w.current], 0.0, w.state), free)
    nodes, old = before
    return labelled(spread(old, np.arange(old.size - 1)), cuts, w.state, range(max(nodes, after)))


def close(
    problem: MigrationPolicy,
    first: Callable[[int], IntArray],
    decide: Decide,
    relabel: Relabel = least_moved,
    leave: Callable[[int], bool] = lambda states: False,
) -> np.ndarray | None:
    """Follow the decisions from now through all that can happen, state by state in the order they are met.

    Parameters
    ----------
    first : callable
        Next node count -> cuts, for the first step.
    decide : callable
        Called once for every state and next count.
    relabel : callable
        Which node takes which interval.
    leave : callable
        Number of states so far -> whether to give up, with None.
    """
    w = problem.workload
    blank = np.full((len(problem.counts), w.key_groups), NOT_ASKED, dtype=np.int32)
    column = {n: j for j, n in enumerate(problem.counts)}
    states: list[tuple[int, IntArray]] = [(problem.nodes_now, cuts_of(w.current))]
    met: set[tuple[int, bytes]] = set()
    table: list[np.ndarray] = []
    while len(table) < len(states):
        if leave(len(states)):
            return None
        row, before = blank.copy(), states[len(table)]
        for after in problem.transitions[before[0]] if table else problem.first_row:
            new = decide(*before, after) if table else first(after)
            row[column[after]] = relabel(problem, before if table else None, after, new)
            key = (after, new.tobytes())
            if key not in met:
                met.add(key)
                states.append((after, new))
        table.append(row)
    return np.stack(table)


def greedy(data: DensePolicyModel, value: dict[int, FloatArray]) -> np.ndarray:
    """The closed table of the decisions that are cheapest if the partitions have some values."""
    gamma = data.problem.discount

    def cuts(after: int, cost: FloatArray) -> IntArray:
        return np.array(data.partitions[after][int(np.argmin(cost + gamma * value[after]))], dtype=np.int64)

    def decide(nodes: int, now: IntArray, after: int) -> IntArray:
        return cuts(after, data.cost[nodes, after][data.number[nodes][tuple(now.tolist())]])

    table = close(data.problem, lambda after: cuts(after, data.first[after]), decide)
    assert table is not None
    return table

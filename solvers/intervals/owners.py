"""Which node takes which interval: matched intervals stay, the others go to spare nodes, then to new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from keyshift.models import Budget
from keyshift.models.base.compiling import njit
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.partition import cuts_of, spread
from keyshift.models.intervals.policy import dense
from keyshift.models.workload import IntArray, Workload
from keyshift.solvers.intervals.band_kernels import NEVER, weights


@dataclass
class Owners:
    """The nodes alive between migrations: nodes keep their numbers, new ones take the next.

    Attributes
    ----------
    assignment : ndarray, shape (m,)
        The node of each task.
    alive : list of int
        Nodes that may carry tasks, ascending. Nodes with tasks that are not alive are draining.
    next_number : int
        The number of the next new node.
    """

    assignment: IntArray
    alive: list[int]
    next_number: int
    gained: int = field(default=0, init=False)

    @classmethod
    def now(cls, workload: Workload) -> Owners:
        """The nodes and the assignment before anything migrates."""
        return cls(workload.current, np.flatnonzero(workload.kept).tolist(), workload.nodes)

    def migrate(self, cuts: IntArray, nodes_after: int, prefix: IntArray) -> IntArray:
        """Move to a partition, keep as much weight in place as it allows, and return the new assignment.

        `prefix` are prefix sums of the weights, in which the tasks of draining nodes weigh nothing; `gained` is
        then the weight kept.
        """
        old_cuts = cuts_of(self.assignment)
        old_nodes = self.assignment[old_cuts[:-1]]
        self.gained, partner = match(old_cuts, cuts, prefix)
        labels = np.where(partner >= 0, old_nodes[partner], -1)
        if (labels < 0).any():
            self._keep_where_free(labels, cuts, old_cuts, old_nodes)
        used = set(labels[labels >= 0].tolist())
        spare = [node for node in self.alive if node not in used]
        if nodes_after >= len(self.alive):
            new = range(self.next_number, self.next_number + nodes_after - len(self.alive))
            self.next_number += len(new)
            spare += new
            self.alive = [*self.alive, *new]
        else:
            spare = spare[: nodes_after - len(used)]
            self.alive = sorted([*used, *spare])
        missing = np.flatnonzero(labels < 0)
        labels[missing] = spare[: missing.size]
        self.assignment = spread(cuts, labels)
        return self.assignment

    def _keep_where_free(self, labels: IntArray, cuts: IntArray, old_cuts: IntArray, old_nodes: IntArray) -> None:
        """Give an unmatched interval a free node that already has its first tasks: nothing more moves."""
        free = set(self.alive).difference(labels.tolist())
        places = np.searchsorted(old_cuts, cuts[:-1], side="right") - 1
        for j in np.flatnonzero(labels < 0):
            node = int(old_nodes[places[j]])
            if node in free:
                labels[j] = node
                free.discard(node)


# The heaviest matching of new intervals with old ones, in one pass over their merged cuts.
#
# Pairs that overlap never cross, so the matching that keeps most state keeps the order, and a pass that remembers
# whether the current old and the current new interval are taken finds it.


@njit(cache=True, nogil=True)
def match(old: np.ndarray, new: np.ndarray, prefix: np.ndarray) -> tuple[int, np.ndarray]:
    """Match the intervals of two partitions for the largest common weight.

    Parameters
    ----------
    old, new : int64 arrays
        Cuts, from 0 to m.
    prefix : int64 array, shape (m + 1,)
        Prefix sums of the weights.

    Returns
    -------
    weight : int
    partner : int64 array, shape (new.size - 1,)
        The old interval that each new one is matched with, -1 for none. Pairs without weight are left unmatched.
    """
    pieces = old.size + new.size - 3 if old.size + new.size > 3 else 1
    previous = np.empty((pieces, 4), np.int8)  # state = 2 * old taken + new taken
    owners = np.empty((pieces, 2), np.int64)
    value = np.array([0, NEVER, NEVER, NEVER])
    after = np.empty(4, np.int64)
    i = j = t = 0
    start = 0
    while i < old.size - 1 and j < new.size - 1:
        end = min(old[i + 1], new[j + 1])
        weight = prefix[end] - prefix[start]
        owners[t, 0], owners[t, 1] = i, j
        next_old, next_new = end == old[i + 1], end == new[j + 1]
        after[:] = NEVER
        for state in range(5):  # 4 = take this pair from state 0
            gained = value[0] + weight if state == 4 else value[state]
            held = 3 if state == 4 else state
            if (state == 4 and weight == 0) or gained < 0:
                continue
            if next_old:
                held &= 1
            if next_new:
                held &= 2
            if gained > after[held]:
                after[held] = gained
                previous[t, held] = state
        value[:] = after
        i, j, start, t = i + next_old, j + next_new, end, t + 1
    partner = np.full(new.size - 1, -1, np.int64)
    state = int(np.argmax(value))
    best = value[state]
    for piece in range(t - 1, -1, -1):
        state = previous[piece, state]
        if state == 4:
            partner[owners[piece, 1]] = owners[piece, 0]
            state = 0
    return best, partner


# From decisions to the closed policy table, within a budget and with the compiled matching -----------------------------


def close(
    problem: MigrationPolicy, first: Callable[[int], IntArray], decide: dense.Decide, budget: Budget, most: int
) -> np.ndarray | None:
    """As `dense.close`, but None above this many states, or 2 GB of them, and when the budget ends."""
    w = problem.workload
    most = min(most, 500_000_000 // (len(problem.counts) * w.key_groups))  # nodes of 32 bits
    kept_first = weights(np.where(w.draining[w.current], 0.0, w.state)).prefix
    kept = weights(w.state).prefix

    def relabel(_: MigrationPolicy, before: tuple[int, IntArray] | None, after: int, new: IntArray) -> IntArray:
        if before is None:
            return Owners.now(w).migrate(new, after, kept_first)
        nodes, cuts = before
        now = Owners(spread(cuts, np.arange(cuts.size - 1)), list(range(nodes)), nodes)
        return now.migrate(new, after, kept)

    return dense.close(problem, first, decide, relabel, lambda states: states > most or budget.expired)

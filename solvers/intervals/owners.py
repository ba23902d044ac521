"""Which node takes which interval: matched intervals stay, the others go to spare nodes, then to new ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from keyshift.models.intervals.partition import cuts_of, spread
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.matching_kernels import match


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

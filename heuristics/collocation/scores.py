"""ALBIC, step 1: which pairs of key groups talk enough to be worth a common node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True)
class Scored:
    """Directed pairs (sender, receiver, tuples) above the threshold, in lexicographic order."""

    sender: IntArray
    receiver: IntArray
    traffic: FloatArray

    def select(self, which: BoolArray) -> Scored:
        """Some of the pairs."""
        return Scored(self.sender[which], self.receiver[which], self.traffic[which])

    def __len__(self) -> int:
        return int(self.traffic.size)


def downstream_key_groups(workload: Workload) -> IntArray:
    """For each key group, how many key groups its operator's downstream operators have, shape (p,).

    An operator is downstream of another when any tuple flows from the one to the other. Without operators in the
    workload, every key group that receives anything is downstream of every other.
    """
    traffic = _between(workload)
    if workload.operator is None:
        receivers = np.unique(traffic.col)
        return receivers.size - np.isin(np.arange(workload.key_groups), receivers).astype(np.int64)
    operators = int(workload.operator.max()) + 1
    size = np.bincount(workload.operator, minlength=operators)
    edge = np.zeros((operators, operators), dtype=bool)
    edge[workload.operator[traffic.row], workload.operator[traffic.col]] = True
    np.fill_diagonal(edge, False)  # the operator network has no cycles
    return (edge @ size)[workload.operator].astype(np.int64)


def score(workload: Workload, score_factor: float = 1.5) -> Scored:
    """Pairs with ``out(g, h) > score_factor * out(g) / (downstream key groups of g)`` (Algorithm 2, lines 2-8).

    Parameters
    ----------
    workload : Workload
        With `traffic`; `operator` tells who is downstream of whom.
    score_factor : float, default 1.5
        sF: 1 takes pairs above the sender's average, 2 those above twice the average.
    """
    traffic = _between(workload)
    output = np.bincount(traffic.row, traffic.data, workload.key_groups)
    average = output / np.maximum(downstream_key_groups(workload), 1)
    worth = traffic.data > average[traffic.row] * score_factor
    order = np.lexsort((traffic.col[worth], traffic.row[worth]))
    return Scored(
        traffic.row[worth][order].astype(np.int64),
        traffic.col[worth][order].astype(np.int64),
        traffic.data[worth][order],
    )


def split_by_place(pairs: Scored, assignment: IntArray) -> tuple[Scored, Scored]:
    """Return colGrps and toBeColGrps: the pairs on one node, and those on two (lines 9-12)."""
    together = assignment[pairs.sender] == assignment[pairs.receiver]
    return pairs.select(together), pairs.select(~together)


def _between(workload: Workload) -> sp.coo_array:
    traffic = workload.traffic.tocoo()  # type: ignore[union-attr]
    apart = traffic.row != traffic.col
    return sp.coo_array((traffic.data[apart], (traffic.row[apart], traffic.col[apart])), shape=traffic.shape)

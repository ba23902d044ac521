"""ALBIC, step 2: collocated sets, and their split into partitions small enough to move. METIS does the cutting."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pymetis
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from keyshift.models.base.disk import descriptors_to
from keyshift.models.collocation.load_model import traffic_between
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


def collocated_sets(pairs: Scored, key_groups: int) -> list[IntArray]:
    """Merge pairs that share a key group until none do (calcSets, line 14): connected components, by first member."""
    graph = sp.coo_array((np.ones(len(pairs)), (pairs.sender, pairs.receiver)), shape=(key_groups, key_groups))
    _, label = connected_components(graph, directed=False)
    members = np.zeros(key_groups, dtype=bool)
    members[pairs.sender] = members[pairs.receiver] = True
    return [np.flatnonzero(members & (label == c)) for c in dict.fromkeys(label[members].tolist())]


def graph_parts(vertices: IntArray, traffic: sp.csr_array, weight: FloatArray, parts: int, seed: int) -> list[IntArray]:
    """Cut a set of key groups into even parts with little traffic between them (graphPart, line 18).

    Parameters
    ----------
    vertices : ndarray of int
        The set; the parts hold these numbers.
    traffic : sparse array, shape (p, p)
        Symmetric: tuples both ways.
    weight : ndarray, shape (p,)
        What is to be even.
    parts : int
        How many parts; some may come back empty, and are left out.
    seed : int
        METIS's own random numbers.
    """
    if parts <= 1 or vertices.size <= 1:
        return [vertices]
    if parts >= vertices.size:
        return [vertices[j : j + 1] for j in range(vertices.size)]
    local = sp.csr_array(traffic[vertices][:, vertices])
    local.setdiag(0)
    local.eliminate_zeros()
    adjacency = pymetis.CSRAdjacency(local.indptr.astype(np.int64), local.indices.astype(np.int64))
    with _silent():
        _, part = pymetis.part_graph(
            parts,
            adjacency=adjacency,
            vweights=whole_weights(weight[vertices], least=0).tolist(),
            eweights=whole_weights(local.data, least=1).tolist(),
            options=pymetis.Options(seed=seed % 2**31),
        )
    label = np.asarray(part)
    cut = [vertices[label == j] for j in range(parts) if (label == j).any()]
    return cut if len(cut) > 1 else list(np.array_split(vertices, parts))  # METIS may leave all but one part empty


@contextmanager
def _silent() -> Iterator[None]:
    """Keep METIS's remarks on halves without vertices, which it prints itself, out of what a script reads."""
    if os.name != "posix" or sys.stdout is None:
        yield
        return
    flush = ctypes.CDLL(None).fflush
    try:
        sys.stdout.flush()
        os.fstat(1)
    except OSError:  # closed: it is not read
        yield
        return
    flush(None)
    with descriptors_to(os.devnull, 1):
        yield
        flush(None)


def whole_weights(values: FloatArray, least: int) -> IntArray:
    """Numbers as METIS wants them: whole, none below `least`."""
    largest = float(values.max(initial=0.0))
    if largest == 0.0:
        return np.ones(values.size, dtype=np.int64)
    # METIS takes whole weights only; the largest one becomes this.
    return np.maximum(np.rint(values / largest * 10_000).astype(np.int64), least)


def split_set(
    members: IntArray, traffic: sp.csr_array, limited: Sequence[tuple[FloatArray, float]], seed: int
) -> list[IntArray]:
    """Split a collocated set into partitions that keep every limit, cutting little traffic (lines 16-20).

    The number of parts is the greatest ``ceil(sum / limit)``; the vertex weight is the measure that is tightest
    against its limit. A part that still breaks a limit is split again; a single key group cannot be.

    Parameters
    ----------
    members : ndarray of int
    traffic : sparse array, shape (p, p)
        Symmetric.
    limited : sequence of (measure of shape (p,), limit)
        Migration cost against maxMigrCost, load against maxPL. A limit of 0 leaves single key groups.
    seed : int

    Returns
    -------
    list of ndarray
        Sorted by their first member. Every one keeps the limits, or is a single key group.

    Notes
    -----
    Departure: [Madsen2016] breaks a tie between the two vertex weights at random; here the first one listed wins.
    """
    use = [_share(float(measure[members].sum()), limit) for measure, limit in limited]
    tightest = max(use, default=0.0)
    if members.size <= 1 or tightest <= 1.0 + 1e-9:
        return [members]
    weight = limited[use.index(tightest)][0]
    parts = members.size if math.isinf(tightest) else min(math.ceil(tightest - 1e-9), members.size)
    cut = graph_parts(members, traffic, weight, parts, seed)
    pieces = [piece for part in cut for piece in split_set(part, traffic, limited, seed)]
    return sorted(pieces, key=lambda piece: int(piece[0]))


def _share(total: float, limit: float) -> float:
    """A total against its limit; infinite where the limit is 0 and the total is not."""
    return total / limit if limit > 0 else math.inf if total > 0 else 0.0


# ALBIC, step 1: which pairs of key groups talk enough to be worth a common node ----------------------------------------


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
    traffic = traffic_between(workload)
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
    traffic = traffic_between(workload)
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

"""ALBIC, step 2: collocated sets, and their split into partitions small enough to move. METIS does the cutting."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pymetis
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from keyshift.heuristics.collocation.scores import Scored
from keyshift.models.workload import FloatArray, IntArray

WEIGHT_UNITS = 10_000
"""METIS takes whole weights only; the largest one becomes this."""


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
        kept = os.dup(1)
    except OSError:  # closed: nobody reads it
        yield
        return
    flush(None)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
        flush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def whole_weights(values: FloatArray, least: int) -> IntArray:
    """Numbers as METIS wants them: whole, none below `least`."""
    largest = float(values.max(initial=0.0))
    if largest == 0.0:
        return np.ones(values.size, dtype=np.int64)
    return np.maximum(np.rint(values / largest * WEIGHT_UNITS).astype(np.int64), least)


def split_set(
    members: IntArray,
    traffic: sp.csr_array,
    limited: Sequence[tuple[FloatArray, float]],
    seed: int,
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

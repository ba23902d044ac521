"""METIS, the one program for graphs that is always there: partitions of the traffic within a second for 300,000 key groups."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pymetis
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.answer import STEP
from keyshift.models.base.disk import descriptors_to
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.collocation.arrays import Arrays


def by_metis(problem: CollocatedAllocation, data: Arrays, budget: Budget) -> IntArray | None:
    """METIS's partition onto the nodes that do not drain, by capacity and without limits; None if there is no time for it."""
    nodes, p = np.flatnonzero(problem.workload.kept), data.key_groups
    graph = sp.csr_array((data.mean_weight, data.neighbour, data.indptr), shape=(p, p))
    capacity = problem.workload.capacity[nodes]
    part = parted(graph, data.remote_load.mean(axis=0), capacity / capacity.sum(), budget)
    return None if part is None else np.asarray(nodes[part])


def parted(graph: sp.csr_array, load: FloatArray, shares: FloatArray, budget: Budget) -> IntArray | None:
    """A partition with little traffic between the parts, which have these shares of the load.

    None without the time for it, or with more parts than vertices.
    """
    steps = 5.0 * graph.nnz
    if budget.remaining < steps * STEP or shares.size > load.size:
        return None
    budget.spend(steps)
    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices)
    with silent():
        _, part = pymetis.part_graph(
            shares.size, adjacency=adjacency, eweights=_whole(graph.data), vweights=_whole(load), tpwgts=shares.tolist()
        )
    return np.array(part)


def _whole(values: FloatArray) -> IntArray:
    """Numbers as METIS reads them: whole, of a thousand on average; less where their sum would not fit 32 bits."""
    total = float(values.sum()) or 1.0
    return np.maximum(1, np.rint(values * (min(1e3 * values.size, 1e9) / total))).astype(np.int64)


@contextmanager
def silent() -> Iterator[None]:
    """Keep METIS's remarks, which it prints itself, out of what a script reads."""
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

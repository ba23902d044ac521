"""COLA ([Khandekar2009]), as [Madsen2016] describes and compares it."""

from __future__ import annotations

import heapq

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from keyshift.heuristics.collocation.partitions import graph_parts
from keyshift.models import Answer, Budget, Workload
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import FloatArray, IntArray

A_SECOND = 1_000_000
"""Entries of the traffic that METIS cuts in a second or less."""
TOO_LARGE = "the next cut would take longer than the limit allows"


def cola(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0, relabel: bool = False) -> Answer:
    """Cut all key groups into ever smaller parts, evenly and with little traffic cut, until they balance.

    It begins with one part. While the parts, dealt out to the nodes, break the load distance, the heaviest part is cut
    in two. Parts are dealt out heaviest first, each to the node that is least loaded.

    A cut that METIS cannot make (all in one half) falls back to halves by number.

    A static optimizer: it knows nothing of where key groups run now, so nearly all of them move and a migration limit
    is mostly broken; `solve` then refuses its plan. No guarantee. At most p - 1 cuts by METIS, each followed
    by a deal in O(parts log parts + parts log n).

    Parameters
    ----------
    problem : CollocatedAllocation
    budget : Budget
    seed : int
        Seeds METIS.
    relabel : bool, default False
        Give the finished groups to the nodes such that the fewest key groups move: not in the paper, where it would
        spare COLA part of its migrations.

    Notes
    -----
    Source: [Madsen2016], section 2.1 and 5, after [Khandekar2009]. Departure: capacities weigh the
    deal, and draining nodes get nothing.
    """
    problem = problem.averaged()
    w = problem.workload
    load = problem.load_model.measured(w).last_load
    traffic = sp.csr_array(w.traffic + w.traffic.T)  # type: ignore[union-attr]
    parts = _Parts(load)
    parts.add(np.arange(w.key_groups))
    cuts, best, least = 0, None, np.inf
    while not budget.expired:
        plan = deal(parts.all, load, w.capacity, np.flatnonzero(w.kept))
        distance = problem.metrics(plan)["load_distance"]
        if distance < least:
            best, least = plan, distance
        if not problem.broken_load_distance(plan) or not parts.heap:
            break
        part = parts.pop()
        entries = int((traffic.indptr[part + 1] - traffic.indptr[part]).sum())
        if entries > A_SECOND and entries > A_SECOND * budget.remaining:  # METIS knows no limit
            return Answer(best, termination="completed", message=TOO_LARGE, details={"cuts": cuts})
        for half in graph_parts(part, traffic, load, 2, seed):
            parts.add(half)
        cuts += 1
    if best is not None and relabel:
        best = fewest_moves(best, w)
    return Answer(best, termination=budget.why if budget.expired else "completed", details={"cuts": cuts})


class _Parts:
    """The parts so far; those that can be cut, heaviest first."""

    def __init__(self, load: FloatArray) -> None:
        self.load = load
        self.heap: list[tuple[float, int, IntArray]] = []  # (-load, first member, members)
        self.single: list[IntArray] = []

    @property
    def all(self) -> list[IntArray]:
        return self.single + [part for _, _, part in self.heap]

    def add(self, part: IntArray) -> None:
        if part.size == 1:
            self.single.append(part)
        else:
            heapq.heappush(self.heap, (-float(self.load[part].sum()), int(part[0]), part))

    def pop(self) -> IntArray:
        return heapq.heappop(self.heap)[2]


def deal(parts: list[IntArray], load: FloatArray, capacity: FloatArray, kept: IntArray) -> IntArray:
    """Deal parts out, heaviest first, each to the kept node that is least loaded for its capacity, shape (p,)."""
    weight = [float(load[part].sum()) for part in parts]
    waiting = [(0.0, int(i)) for i in kept]
    heapq.heapify(waiting)
    plan = np.empty(load.size, dtype=np.int64)
    for j in sorted(range(len(parts)), key=lambda j: (-weight[j], int(parts[j][0]))):
        full, i = heapq.heappop(waiting)
        plan[parts[j]] = i
        heapq.heappush(waiting, (full + weight[j] / capacity[i], i))
    return plan


def fewest_moves(plan: IntArray, workload: Workload) -> IntArray:
    """The same groups on other nodes of the same capacity, so that the fewest key groups move."""
    n = workload.nodes
    stay = np.zeros((n, n))
    np.add.at(stay, (plan, workload.current), 1.0)  # group i, were it on node j
    alike = (workload.capacity[:, None] == workload.capacity) & (workload.kept[:, None] == workload.kept)
    group, node = linear_sum_assignment(np.where(alike, -stay, workload.key_groups + 1.0))
    name = np.empty(n, dtype=np.int64)
    name[group] = node
    return name[plan]

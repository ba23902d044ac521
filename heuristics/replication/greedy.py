"""Replication and packing as expert-parallel load balancing does it: copies for the hottest, then the heaviest copy first."""

from __future__ import annotations

import heapq

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.replication.problem import ReplicatedAllocation
from keyshift.models.workload import IntArray

LOOK = 1000
"""Copies placed between two looks at the clock."""


def eplb(problem: ReplicatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """Greedy replication, then balanced packing, from scratch; it keeps no limit on migrations.

    Copy after copy goes to the key group whose copies carry most, O(copies log p); then the heaviest copy first goes to the
    least loaded node that has room and no copy of that key group, O(copies n). No guarantee.

    Notes
    -----
    Source: [DeepSeek2024], the global policy of its balancer, where nodes are GPUs of equal room. Capacities, draining nodes
    and keeping copies of one key group apart are ours; a copy that finds no node is left out, unless it is the only one.
    """
    count = replicated(problem, min(problem.copies, int(problem.slots.sum())))
    return Answer(packed(problem, count, budget), termination=budget.why if budget.expired else "completed")


def packs_quickly(problem: ReplicatedAllocation) -> bool:
    """Whether all copies are placed within half a second or so, for who begins from them."""
    return problem.copies <= 150_000


def replicated(problem: ReplicatedAllocation, copies: int) -> IntArray:
    """How many copies each key group gets, shape (p,): the next one where copies carry most."""
    count = np.ones(problem.workload.key_groups, dtype=np.int64)
    most = int(problem.workload.kept.sum())
    heap = [(-load, k) for k, load in enumerate(problem.load.tolist())] if most > 1 else []
    heapq.heapify(heap)
    for _ in range(copies - count.size):
        if not heap or heap[0][0] == 0:
            break
        k = heap[0][1]
        count[k] += 1
        if count[k] < most:
            heapq.heapreplace(heap, (-float(problem.load[k]) / int(count[k]), k))
        else:
            heapq.heappop(heap)
    return count


def packed(problem: ReplicatedAllocation, count: IntArray, budget: Budget) -> IntArray | None:
    """The heaviest copy first to the least loaded node with room and no copy of its key group, shape (p, n); None if too late."""
    w, room = problem.workload, problem.slots.copy()
    made, load = np.zeros((w.key_groups, w.nodes), dtype=np.int8), np.where(room > 0, 0.0, np.inf)
    copies = np.repeat(np.arange(count.size), count)
    first = np.arange(copies.size) == np.searchsorted(copies, copies)
    share = problem.load[copies] / count[copies]
    spare, met = int(room.sum()) - count.size, np.zeros(count.size, dtype=bool)
    # Of equal copies the first of a key group, which has to be somewhere.
    for number, at in enumerate(np.lexsort((copies, ~first, -share)), start=1):
        if number % LOOK == 0 and budget.expired:
            return None
        k = copies[at]
        if met[k] and spare <= 0:  # the room that is left is for key groups without any copy
            continue
        filled = (load + share[at]) / w.capacity
        if met[k]:
            filled[made[k] > 0] = np.inf
        i = int(filled.argmin())
        if filled[i] < np.inf:
            made[k, i], load[i], room[i] = 1, load[i] + share[at] if room[i] > 1 else np.inf, room[i] - 1
            spare, met[k] = spare - int(met[k]), True
    return made

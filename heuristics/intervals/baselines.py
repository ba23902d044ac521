"""The baselines of [Ding2015]'s experiments: Storm's default, consistent hashing, Redist. None looks at the state sizes.

They do not promise to keep the load limit, and consistent hashing and Redist do not keep intervals. As methods of
`IntervalMigration` they return what they find; `solve` drops it where it breaks a rule. The functions of the
same names without "solve" are for comparing costs, as the paper does.
"""

from __future__ import annotations

import heapq

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.intervals import IntervalMigration
from keyshift.models.workload import IntArray


def nodes_alive(problem: IntervalMigration) -> IntArray:
    """The nodes after the migration when the highest numbers leave first: kept ones, then new ones."""
    kept = np.flatnonzero(problem.workload.kept)
    new = np.arange(problem.workload.nodes, problem.places)
    return np.concatenate((kept, new))[: problem.nodes_after]


def storm(problem: IntervalMigration) -> IntArray:
    """Give every node the same number of consecutive tasks, the i-th node the i-th interval, whichever node had them before.

    O(m). Source: Storm's default scheduler, as [Ding2015], section 6, describes it.
    """
    alive = nodes_alive(problem)
    m = problem.workload.key_groups
    return alive[np.arange(m) * alive.size // m]


def consistent_hashing(problem: IntervalMigration, rng: np.random.Generator) -> IntArray:
    """Even out the numbers of tasks by moving as few tasks as possible, chosen at random.

    O(m n). Source: [Ding2015], section 6: "CH aims to have the same number of tasks on each node, and
    migrate the minimum number of tasks". This is the ideal that a ring of hashes approaches with many virtual nodes.
    """
    alive, w = nodes_alive(problem), problem.workload
    after = w.current.copy()
    target = np.full(alive.size, w.key_groups // alive.size)
    held = np.array([np.count_nonzero(after == node) for node in alive])
    # The nodes that hold most keep one more: fewest tasks move.
    target[np.argsort(-held, kind="stable")[: w.key_groups % alive.size]] += 1
    homeless = list(np.flatnonzero(~np.isin(after, alive)))
    for node, most in zip(alive, target, strict=True):
        mine = np.flatnonzero(after == node)
        homeless += list(rng.choice(mine, max(0, mine.size - most), replace=False))
    waiting = rng.permutation(np.array(homeless, dtype=np.int64)).tolist()
    for node, most, has in zip(alive, target, held, strict=True):
        for _ in range(max(0, most - has)):
            after[waiting.pop()] = node
    return after


def redist(problem: IntervalMigration) -> IntArray:
    """Place all tasks anew, heaviest first: on its node while that keeps the limit, else on the least loaded one.

    O(m log m). Source: [Gedik2014],
    known to us only from its abstract and from [Ding2015], section 2: load balance first, then few migrations, on
    the assumption that all states are alike. Its utility function, its compact routing function and its tracking of
    heavy hitters are not reproduced.
    """
    alive, w = nodes_alive(problem), problem.workload
    load = dict.fromkeys(alive.tolist(), 0.0)
    limit = problem.prefix.in_units(problem.limit)
    after = np.empty(w.key_groups, dtype=np.int64)
    lightest = [(0.0, node) for node in load]  # a heap, in which older loads of a node stay until they are on top
    heapq.heapify(lightest)
    for k in np.argsort(-w.last_load, kind="stable"):
        node, weight = int(w.current[k]), float(w.last_load[k])
        if node not in load or load[node] + weight > limit:
            while load[lightest[0][1]] != lightest[0][0]:
                heapq.heappop(lightest)
            node = lightest[0][1]
        load[node] += weight
        heapq.heappush(lightest, (load[node], node))
        after[k] = node
    return after


def solve_storm(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Storm's default scheduler; see `storm`. No guarantee, not even of the load limit."""
    return Answer(storm(problem))


def solve_consistent_hashing(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Ideal consistent hashing; see `consistent_hashing`. No guarantee, not even of intervals."""
    return Answer(consistent_hashing(problem, np.random.default_rng(seed)))


def solve_redist(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Redist in outline; see `redist`. No guarantee, not even of intervals."""
    return Answer(redist(problem))

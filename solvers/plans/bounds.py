"""How long a plan must take at least: the longest transfer, the busiest node, the busiest set of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.workload import BoolArray, FloatArray

ALL_SETS_UP_TO = 10
"""Nodes up to which every odd set is looked at."""
TRIPLES_UP_TO = 30
"""Nodes up to which every triple is."""
SAFE = 1 - 1e-12
"""Sums of floats are off by less."""


def lower_bound(problem: TransferScheduling) -> float:
    r"""Seconds that no schedule goes below, limits on the way left out.

    At a node at most m transfers run at once, and among the nodes of a set I, with both ends in it, at most
    :math:`\lfloor m |I| / 2 \rfloor`. Transfers of which at most f run at once fit f machines, so that all bounds on
    the makespan of f parallel machines hold for them (`machine_bound`). Singletons give the busiest node, odd sets the
    bound of Edmonds for edge colouring; of large sets some are looked at: triples, and the busiest nodes.
    """
    if problem.transfers == 0:
        return 0.0
    m, p = problem.parallel, problem.seconds
    best = float(p.max())
    for i in range(problem.nodes):
        best = max(best, machine_bound(p[(problem.source == i) | (problem.target == i)], m))
    for inside in _sets(problem):
        best = max(best, machine_bound(p[inside[problem.source] & inside[problem.target]], m * int(inside.sum()) // 2))
    return best * SAFE


def machine_bound(seconds: FloatArray, machines: int) -> float:
    r"""A lower bound on the makespan of jobs on parallel machines.

    The total over the number of machines f; and for every h, of the :math:`h f + 1` longest jobs some machine gets
    h + 1, at least the h + 1 shortest of them.
    """
    if seconds.size == 0:
        return 0.0
    falling = np.sort(seconds)[::-1]
    sums = np.concatenate([[0.0], np.cumsum(falling)])
    h = np.arange((falling.size - 1) // machines + 1)
    jobs = h * machines + 1
    return max(float(sums[-1]) / machines, float((sums[jobs] - sums[jobs - h - 1]).max()))


def _sets(problem: TransferScheduling) -> Iterator[BoolArray]:
    """Sets of at least three nodes that may bound more than their nodes do."""
    n = problem.nodes
    work = np.bincount(problem.source, weights=problem.seconds, minlength=n)
    work += np.bincount(problem.target, weights=problem.seconds, minlength=n)
    busy = np.argsort(-work, kind="stable")[: int((work > 0).sum())]
    chosen: Iterator[tuple[int, ...]]
    if busy.size <= ALL_SETS_UP_TO:
        chosen = (s for size in range(3, busy.size + 1) for s in combinations(busy.tolist(), size))
    else:
        prefixes = (tuple(busy[:size].tolist()) for size in range(3, busy.size + 1))
        triples = combinations(busy.tolist(), 3) if busy.size <= TRIPLES_UP_TO else iter(())
        chosen = (s for group in (prefixes, triples) for s in group)
    for nodes in chosen:
        if problem.parallel % 2 == 0 and len(nodes) < busy.size:
            continue  # m |I| / 2 is whole: no more than the nodes' own bounds say
        inside = np.zeros(n, dtype=bool)
        inside[list(nodes)] = True
        yield inside

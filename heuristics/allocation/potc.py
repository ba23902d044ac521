"""The power of two choices, as a rebalancer within a migration limit."""

from __future__ import annotations

import numpy as np

from keyshift.heuristics.allocation.flux import Migrations
from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.guards import Count


def potc(
    problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, choices: Count = 2
) -> Answer:
    """Give every key group its node and another one, hashed, and let it take the less loaded.

    Key groups come in random order. One whose move lowers the higher of its two nodes moves, as long as the
    limits last. No guarantee on the objective; O(p * choices).

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
        Of the hashes and of the order.
    start : ndarray, optional
        Unused: it starts from the current nodes.
    choices : int, default 2
        Nodes to choose from, the current one included.

    Notes
    -----
    Source: [Azar1999]; compared with in [Madsen2016], section 5.2.1. Departures from the
    paper: there every key is split over both its nodes and merged again, whatever that costs; here a key group
    stays whole, one of the two nodes is where it is now, and the migration limits and rules hold. Over k windows a load is
    their mean.
    """
    state = Migrations(problem)
    rng = np.random.default_rng(seed)
    open_nodes = np.flatnonzero(problem.workload.kept)
    hashed = open_nodes[rng.integers(0, open_nodes.size, (problem.workload.key_groups, max(0, choices - 1)))]
    for k in rng.permutation(problem.workload.key_groups):
        if budget.expired:
            return Answer(state.assignment, termination=budget.why)
        source = int(problem.workload.current[k])
        others = [int(i) for i in hashed[k] if i != source]
        if others:
            target = min(others, key=lambda i: (state.relative[i], i))
            if state.lowers(int(k), source, target) and state.allowed(int(k), target):
                state.move(int(k), target)
    return Answer(state.assignment, termination="completed", details={"moves": state.moves})

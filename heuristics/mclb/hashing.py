"""The baselines of [Guo2018], section 5: UHLB, a fresh universal hash, and PKG without its splitting."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Count
from keyshift.models.mclb.problem import MCLB
from keyshift.models.workload import IntArray

PRIME = (1 << 61) - 1
"""A Mersenne prime above any number of key groups."""


def universal_hash(key_groups: int, nodes: int, rng: np.random.Generator) -> IntArray:
    """((a k + b) mod P) mod n with random a in 1..P-1 and b in 0..P-1, for k = 0..key_groups-1.

    Notes
    -----
    Source: [Carter1979]: two keys collide with
    probability at most 1/n.
    """
    a, b = int(rng.integers(1, PRIME)), int(rng.integers(0, PRIME))
    return np.array([((a * k + b) % PRIME) % nodes for k in range(key_groups)], dtype=np.int64)


def uhlb(problem: MCLB, *, budget: Budget, seed: int = 0) -> Answer:
    """A fresh 2-universal hash of the key groups onto the nodes; loads and current nodes play no part.

    No guarantee on one draw; in expectation two key groups share a node with probability at most 1/n. O(p).
    A fresh hash moves a share (n - 1)/n of the state in expectation.

    Notes
    -----
    Source: [Guo2018], section 5. An answer over the budget is dropped.
    """
    core = problem.core
    return Answer(core.lift(universal_hash(core.load.shape[0], core.nodes, np.random.default_rng(seed))))


def pkg(problem: MCLB, *, budget: Budget, seed: int = 0, choices: Count = 2) -> Answer:
    """Each key group, in order, to the less loaded of the nodes that two hashes give it.

    No guarantee in MCLB's terms. O(p * choices).

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Draws the hash functions.
    choices : int, default 2
        Number of hash functions.

    Notes
    -----
    Source: [Guo2018], section 5, after [Nasir2015]. Departure: partial key grouping splits a key over both its
    nodes, tuple by tuple, which a stateful key group cannot be: here it goes as a whole, by its load over all windows.
    `KeySplitting` has the method itself. An answer over the budget is dropped.
    """
    core = problem.core
    rng = np.random.default_rng(seed)
    candidates = np.stack([universal_hash(core.load.shape[0], core.nodes, rng) for _ in range(choices)])
    size, loads = core.load.sum(axis=1), np.zeros(core.nodes)
    chosen = np.empty(size.size, dtype=np.int64)
    for k in range(size.size):
        chosen[k] = min(candidates[:, k].tolist(), key=lambda i: loads[i])
        loads[chosen[k]] += size[k]
    return Answer(core.lift(chosen))

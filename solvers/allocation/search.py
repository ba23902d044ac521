r"""Annealed descent over moves, swaps and ejection chains.

The largest deviation alone says nothing about which step helps; :math:`\sum_i |dev_i|^8` does. A step is a move, a
swap, a chain of two, or any of them after sending a moved key group home; it is taken when the sum does not
rise, or with a probability that falls as the search cools. No guarantee on the objective; a step takes O(1).
"""

from __future__ import annotations

import numpy as np

from keyshift.models.workload import IntArray
from keyshift.solvers.allocation import search_kernels as kernels
from keyshift.solvers.allocation.instance import Instance


def generator(seed: int, stream: int) -> np.ndarray:
    """State of a kernel's random generator, shape (1,): one for each seed and stream."""
    return np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64) | np.uint64(1)


def anneal(
    instance: Instance,
    start: IntArray,
    value: float,
    *,
    iterations: int,
    hot: float,
    cold: float,
    seed: int,
    stream: int,
    doublings: int = 3,
) -> IntArray | None:
    """Search from an assignment for one whose load distance is below `value`.

    Parameters
    ----------
    instance : Instance
    start : ndarray, shape (p,)
        Within the migration limits; capacities may be broken, which the search then mends.
    value : float
        Load distance to beat, in units of the mean; `inf` takes the first assignment within all capacities.
    iterations : int
    hot, cold : float
        Relative rise of the sum accepted on average, first and last.
    seed, stream : int
    doublings : int, default 3
        The exponent is 2 to this power.

    Returns
    -------
    ndarray or None
        The best assignment found, None when none is below `value`.
    """
    it = instance
    place = start.copy()
    count = np.bincount(place, minlength=it.nodes)
    limit = (count + max(64, 4 * it.key_groups // it.nodes)).astype(np.int64)  # room in each node's list
    begin = np.concatenate([[0], np.cumsum(limit)[:-1]]).astype(np.int64)
    order = np.argsort(place, kind="stable")
    within = np.arange(it.key_groups) - np.concatenate([[0], np.cumsum(count)[:-1]])[place[order]]
    slot = np.empty(it.key_groups, np.int64)
    slot[order] = begin[place[order]] + within
    items = np.zeros(int(limit.sum()), np.int64)
    items[slot] = np.arange(it.key_groups)
    away = np.flatnonzero(place != it.home)
    moved, moved_at = np.zeros(it.key_groups, np.int64), np.zeros(it.key_groups, np.int64)
    moved[: away.size], moved_at[away] = away, np.arange(away.size)
    tally = np.array([float(away.size), float(it.cost[away].sum())])
    bump = 1.0 + max(it.distance(start), it.distance(it.home))
    found = np.full(it.key_groups, -1, np.int64)
    kernels.anneal(
        generator(seed, stream), iterations, doublings, hot, cold, found, min(value, bump), bump,
        it.load, it.weight, it.mean, it.draining, it.open_to_all, it.home, it.use, it.room, it.cost,
        float(it.max_moves), it.max_cost, place, it.deviations(start), it.used(start),
        slot, begin, count.astype(np.int64), limit, items, moved, moved_at, tally,
    )  # fmt: skip
    return None if found[0] < 0 else found

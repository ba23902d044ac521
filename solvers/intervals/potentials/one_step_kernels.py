"""The best next partition from a known one, when every interval of the next has a value: single-step migration with a future."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit

NONE = 1e300


@njit(cache=True, nogil=True)
def best_next(
    starts: np.ndarray, cuts: np.ndarray, kept: np.ndarray, value: np.ndarray, intervals: int
) -> tuple[float, np.ndarray]:
    """The partition of least value less state kept.

    Layer k holds, for the end x of k intervals, the least cost with the old node at x still free (0) or taken (1); on a
    cut of the old partition a new node is at hand. O(m w n) for windows of w tasks.

    Parameters
    ----------
    starts : int64 array, shape (m + 1,)
        Leftmost start of an interval within the load limit, for every end.
    cuts : int64 array
        The known partition, from 0 to m.
    kept : float64 array, shape (m + 1,)
        Prefix sums of the state that can stay.
    value : float64 array, shape (m + 1, m + 1)
        By start and end of an interval.
    intervals : int
        At most this many.

    Returns
    -------
    cost : float
    next cuts : int64 array
    """
    tasks = starts.size - 1
    left, right = np.zeros(tasks + 2, np.int64), np.full(tasks + 2, tasks, np.int64)
    for z in range(cuts.size - 1):
        left[cuts[z] + 1 : cuts[z + 1] + 1], right[cuts[z] + 1 : cuts[z + 1] + 1] = cuts[z], cuts[z + 1]
    cost = np.full((intervals + 1, tasks + 1, 2), NONE)
    back = np.zeros((intervals + 1, tasks + 1, 2), np.int64)
    cost[0, 0, 0] = 0.0
    for k in range(intervals):
        for y in range(tasks):
            if cost[k, y, 0] >= NONE and cost[k, y, 1] >= NONE:
                continue
            either = min(cost[k, y, 0], cost[k, y, 1])
            cheaper = 0 if cost[k, y, 0] <= cost[k, y, 1] else 1
            whole = 0.0
            for x in range(y + 1, tasks + 1):
                if starts[x] > y:
                    break
                v = value[y, x]
                over = x == right[x]  # the old interval ends here
                if x <= right[y + 1]:
                    for taken in range(2):
                        s = 0 if over else taken
                        if cost[k, y, taken] + v < cost[k + 1, x, s]:
                            cost[k + 1, x, s], back[k + 1, x, s] = cost[k, y, taken] + v, 2 * y + taken
                    c = cost[k, y, 0] + v - (kept[x] - kept[y])
                    if c < cost[k + 1, x, 0 if over else 1]:
                        cost[k + 1, x, 0 if over else 1], back[k + 1, x, 0 if over else 1] = c, 2 * y
                    continue
                if left[x] != left[x - 1] and left[x - 1] >= right[y + 1]:
                    whole = max(whole, kept[left[x]] - kept[left[x - 1]])
                c, previous = either + v - whole, 2 * y + cheaper
                begun = cost[k, y, 0] + v - (kept[right[y + 1]] - kept[y])
                if begun < c:
                    c, previous = begun, 2 * y
                if c < cost[k + 1, x, 0]:
                    cost[k + 1, x, 0], back[k + 1, x, 0] = c, previous
                c, s = either + v - (kept[x] - kept[left[x]]), 0 if over else 1
                if c < cost[k + 1, x, s]:
                    cost[k + 1, x, s], back[k + 1, x, s] = c, 2 * y + cheaper
    k = int(np.argmin(cost[:, tasks, 0]))
    best = cost[k, tasks, 0]
    found = np.empty(k + 1, np.int64)
    x, s = tasks, 0
    for layer in range(k, -1, -1):
        found[layer] = x
        previous = back[layer, x, s]
        x, s = previous // 2, previous % 2
    return best, found

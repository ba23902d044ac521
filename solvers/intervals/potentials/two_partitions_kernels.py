"""The cheapest pair of partitions when every interval of both has a weight, and the same with a temperature.

Tasks are read from left to right. A cell (a, b) is what is open: an old interval that began at a, a new one that
began at b; it is entered at max(a, b), and the state that has moved by then is all that the past says. Three kinds:

* free: both nodes may still be matched;
* used: the interval that began earlier has been matched to one that has ended, so that the other may still be;
* matched: with each other; what both cover stays.

Where one interval ends at t and the other goes on, the cell is left for (t, b) or (a, t): from `matched`, the one that
goes on is used; from `used`, it is used where it began earlier. A pair that overlaps and is both unused may be matched
at once or never. Cuts at the same place are an old one, then a new one. Each end t of an interval looks at all cells
(a, b) with both intervals within their load limits: O(m w w') steps for windows of w and w' tasks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.band_kernels import cells

NEVER = -1e300
FAR = 1 << 61


class Couple(NamedTuple):
    """An old and a new class, and what their intervals weigh.

    For `least` whole numbers; for `soft` and `shares` less weight over temperature, that is logarithms.
    """

    old_starts: IntArray
    """Leftmost start of an old interval within the limit, for every end, shape (m + 1,)."""
    new_starts: IntArray
    old: np.ndarray
    """Weight of the old interval [a, t), shape (m + 1, m + 1)."""
    new: np.ndarray
    moved: np.ndarray
    """Prefix sums of what a task costs that is not matched, shape (m + 1,)."""
    kept: np.ndarray
    """The same of a task that is: what must move anyway."""


class Cells(NamedTuple):
    """One number for each cell and kind, shape (m + 1, m + 1), as if entered at 0."""

    free: np.ndarray
    used: np.ndarray
    matched: np.ndarray


@njit(nogil=True, **LEAF)
def power(x):
    """exp(x), or 0 where that is less than rounding beside 1: most of them, when it is cold; NumPy rounds otherwise."""
    return math.exp(x) if x > -36.0 else 0.0


@njit(nogil=True, **LEAF)
def cheapest(c, cells, t, y, old_ends):
    """The least cost of all ways to (t, y), or (y, t): both unused, and the one that goes on used."""
    free, used, matched = cells
    moved, kept = c.moved[t], c.kept[t]
    weight = c.old if old_ends else c.new
    open_, shut = FAR, FAR
    for x in range(c.old_starts[t] if old_ends else c.new_starts[t], t):
        a, b = (x, y) if old_ends else (y, x)
        w = weight[x, t]
        open_ = min(open_, free[a, b] + moved + w)
        if y > x:
            open_ = min(open_, used[a, b] + moved + w)
        else:
            shut = min(shut, used[a, b] + moved + w)
        shut = min(shut, matched[a, b] + kept + w)
    return open_, shut


@njit(cache=True, nogil=True)
def least(c: Couple, cells: Cells) -> int:
    """The least cost of a pair, weights included, in whole numbers; `FAR` or so where there is none."""
    free, used, matched = cells
    tasks = c.moved.size - 1
    free[0, 0] = matched[0, 0] = 0
    used[0, 0] = FAR
    for t in range(1, tasks):
        moved, kept = c.moved[t], c.kept[t]
        for b in range(c.new_starts[t], t):
            open_, shut = cheapest(c, cells, t, b, True)
            free[t, b], matched[t, b], used[t, b] = open_ - moved, open_ - kept, shut - moved
        for a in range(c.old_starts[t], t):
            open_, shut = cheapest(c, cells, t, a, False)
            free[a, t], matched[a, t], used[a, t] = open_ - moved, open_ - kept, shut - moved
        both = FAR
        for b in range(c.new_starts[t], t):
            both = min(both, min(free[t, b], used[t, b]) + moved + c.new[b, t])
        free[t, t], matched[t, t], used[t, t] = both - moved, both - kept, FAR
    best = FAR
    for a in range(c.old_starts[tasks], tasks):
        for b in range(c.new_starts[tasks], tasks):
            held = min(min(free[a, b], used[a, b]) + c.moved[tasks], matched[a, b] + c.kept[tasks])
            best = min(best, held + c.old[a, tasks] + c.new[b, tasks])
    return best


@njit(nogil=True, **LEAF)
def ended(c, cells, t, y, old_ends):
    """Logarithms of all ways to (t, y), or (y, t): both unused, and the one that goes on used."""
    free, used, matched = cells
    moved, kept = c.moved[t], c.kept[t]
    weight = c.old if old_ends else c.new
    first = c.old_starts[t] if old_ends else c.new_starts[t]
    open_ = shut = NEVER
    for x in range(first, t):
        a, b = (x, y) if old_ends else (y, x)
        w = weight[x, t]
        open_ = max(open_, free[a, b] - moved + w)
        if y > x:
            open_ = max(open_, used[a, b] - moved + w)
        else:
            shut = max(shut, used[a, b] - moved + w)
        shut = max(shut, matched[a, b] - kept + w)
    more = most = 0.0
    for x in range(first, t):
        a, b = (x, y) if old_ends else (y, x)
        w = weight[x, t]
        if open_ > 0.1 * NEVER:
            more += power(free[a, b] - moved + w - open_)
            if y > x:
                more += power(used[a, b] - moved + w - open_)
        if shut > 0.1 * NEVER:
            if y <= x:
                most += power(used[a, b] - moved + w - shut)
            most += power(matched[a, b] - kept + w - shut)
    return (open_ + math.log(more) if more > 0 else NEVER), (shut + math.log(most) if most > 0 else NEVER)


@njit(cache=True, nogil=True)
def soft(c: Couple, cells: Cells) -> float:
    """The logarithm of the sum of exp(-cost) over all pairs."""
    free, used, matched = cells
    tasks = c.moved.size - 1
    free[0, 0] = matched[0, 0] = 0.0
    used[0, 0] = NEVER
    for t in range(1, tasks):
        moved, kept = c.moved[t], c.kept[t]
        for b in range(c.new_starts[t], t):
            open_, shut = ended(c, cells, t, b, True)
            free[t, b], matched[t, b], used[t, b] = open_ + moved, open_ + kept, shut + moved
        for a in range(c.old_starts[t], t):
            open_, shut = ended(c, cells, t, a, False)
            free[a, t], matched[a, t], used[a, t] = open_ + moved, open_ + kept, shut + moved
        both = NEVER
        for b in range(c.new_starts[t], t):
            both = max(both, max(free[t, b], used[t, b]) - moved + c.new[b, t])
        total = 0.0
        if both > 0.1 * NEVER:
            for b in range(c.new_starts[t], t):
                w = c.new[b, t] - moved - both
                total += power(free[t, b] + w) + power(used[t, b] + w)
        both = both + math.log(total) if total > 0 else NEVER
        free[t, t], matched[t, t], used[t, t] = both + moved, both + kept, NEVER
    best, total = NEVER, 0.0
    moved, kept = c.moved[tasks], c.kept[tasks]
    for add in range(2):
        for a in range(c.old_starts[tasks], tasks):
            for b in range(c.new_starts[tasks], tasks):
                w = c.old[a, tasks] + c.new[b, tasks]
                x, y, z = free[a, b] - moved + w, used[a, b] - moved + w, matched[a, b] - kept + w
                if add:
                    total += power(x - best) + power(y - best) + power(z - best)
                else:
                    best = max(best, max(x, max(y, z)))
    return best + math.log(total) if total > 0 else NEVER


@njit(nogil=True, **LEAF)
def hand_back(c, cells, mass, t, y, old_ends):
    """Share the probability of (t, y), or (y, t), among the cells it came from; the ended interval of each gets it."""
    free, used, matched = cells
    moved, kept = c.moved[t], c.kept[t]
    weight = c.old if old_ends else c.new
    first = c.old_starts[t] if old_ends else c.new_starts[t]
    i, j = (t, y) if old_ends else (y, t)
    more, most = mass[0][i, j] + mass[2][i, j], mass[1][i, j]
    if more + most < 1e-15:  # so little of the probability is not followed back
        return
    open_, shut = free[i, j], used[i, j]
    for x in range(first, t):
        a, b = (x, y) if old_ends else (y, x)
        w, gone = weight[x, t], 0.0
        if more > 1e-15:
            p = more * power(free[a, b] + w - open_)
            mass[0][a, b] += p
            gone += p
            if y > x:
                p = more * power(used[a, b] + w - open_)
                mass[1][a, b] += p
                gone += p
        if most > 1e-15:
            if y <= x:
                p = most * power(used[a, b] + w - shut)
                mass[1][a, b] += p
                gone += p
            p = most * power(matched[a, b] - kept + moved + w - shut)
            mass[2][a, b] += p
            gone += p
        mass[3 if old_ends else 4][x, t] += gone


@njit(cache=True, nogil=True)
def shares(c: Couple, cells: Cells, log_total: float, mass: np.ndarray) -> None:
    """After `soft`: how probable every interval is when a pair has probability exp(-cost), in ``mass[3]`` and ``mass[4]``.

    `mass` has shape (5, m + 1, m + 1); the first three planes are those of the cells.
    """
    free, used, matched = cells
    tasks = c.moved.size - 1
    mass[:] = 0.0
    moved, kept = c.moved[tasks], c.kept[tasks]
    for a in range(c.old_starts[tasks], tasks):
        for b in range(c.new_starts[tasks], tasks):
            w = c.old[a, tasks] + c.new[b, tasks] - log_total
            x, y, z = power(free[a, b] - moved + w), power(used[a, b] - moved + w), power(matched[a, b] - kept + w)
            mass[0, a, b] += x
            mass[1, a, b] += y
            mass[2, a, b] += z
            mass[3, a, tasks] += x + y + z
            mass[4, b, tasks] += x + y + z
    for t in range(tasks - 1, 0, -1):
        both = mass[0, t, t] + mass[2, t, t]
        if both > 1e-15:
            for b in range(c.new_starts[t], t):
                w = c.new[b, t] - free[t, t]
                x, y = both * power(free[t, b] + w), both * power(used[t, b] + w)
                mass[0, t, b] += x
                mass[1, t, b] += y
                mass[4, b, t] += x + y
        for a in range(c.old_starts[t], t):
            hand_back(c, cells, mass, t, a, False)
        for b in range(c.new_starts[t], t):
            hand_back(c, cells, mass, t, b, True)


# The best next partition from a known one, when every interval of the next has a value: single-step migration with a future.


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
    left, right = cells(cuts, tasks)
    cost = np.full((intervals + 1, tasks + 1, 2), -NEVER)
    back = np.zeros((intervals + 1, tasks + 1, 2), np.int64)
    cost[0, 0, 0] = 0.0
    for k in range(intervals):
        for y in range(tasks):
            if cost[k, y, 0] >= -NEVER and cost[k, y, 1] >= -NEVER:
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

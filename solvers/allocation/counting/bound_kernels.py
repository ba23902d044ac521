"""Numba kernels of the pair-count bound: see `keyshift.solvers.allocation.counting.bound`."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit

UNREACHABLE = 1e300
EVEN = 1e-8
"""A deviation too small to matter for a bound, in units of the mean."""


@njit(cache=True)
def nearest_sum(out, into, excess):
    """Least |excess - out[i] + into[j]| over two ascending arrays."""
    best, j = UNREACHABLE, 0
    for i in range(out.size):
        want = out[i] - excess
        while j + 1 < into.size and abs(into[j + 1] - want) <= abs(into[j] - want):
            j += 1
        best = min(best, abs(into[j] - want))
    return best


@njit(cache=True)
def nearest_pair(out, singles, excess):
    """Least |excess - out[i] + singles[j] + singles[k]| over j < k, `singles` ascending; 0 once one is at most `EVEN`."""
    best, last = UNREACHABLE, singles.size - 1
    lowest, highest = (singles[0] + singles[1], singles[last - 1] + singles[last]) if last > 0 else (0.0, -1.0)
    for i in range(out.size if last > 0 else 0):
        want = out[(i + out.size // 2) % out.size] - excess  # the middle first: sums are dense there
        if want <= lowest or want >= highest:
            best = min(best, lowest - want if want <= lowest else want - highest)
            continue
        j, k = 0, last
        while j < k:
            over = singles[j] + singles[k] - want
            best = min(best, abs(over))
            if over > 0.0:
                k -= 1
            else:
                j += 1
        if best <= EVEN:
            return 0.0
    return best


@njit(cache=True)
def subset_sums(values, count):
    """Ascending sums of every subset of `count` values, count 0 to 3."""
    size = values.size
    if count == 0:
        return np.zeros(1)
    if count == 1:
        return np.sort(values)
    total = size * (size - 1) // 2 if count == 2 else size * (size - 1) * (size - 2) // 6
    sums = np.empty(total)
    at = 0
    for i in range(size):
        for j in range(i + 1, size):
            if count == 2:
                sums[at] = values[i] + values[j]
                at += 1
            else:
                for l in range(j + 1, size):
                    sums[at] = values[i] + values[j] + values[l]
                    at += 1
    return np.sort(sums)


@njit(cache=True)
def least_distances(own, foreign_low, foreign_high, excess, weight, upward_only, singles, paired, most_sums, table):
    """Fill table[a, b]: the least deviation of one node after a departures and b arrivals, others ignored.

    `own` ascending; `foreign_low`, `foreign_high` the smallest and the largest key groups elsewhere; `singles` the
    loads of all key groups, ascending (a relaxation: arrivals may then be anyone's), `paired` whether to look at their pairs.
    """
    size = own.size
    low_out, high_out, low_in, high_in = 0.0, 0.0, 0.0, 0.0
    for a in range(table.shape[0]):
        if a > size:
            table[a, :] = UNREACHABLE
            continue
        if a > 0:
            low_out += own[a - 1]
            high_out += own[size - a]
        low_in, high_in = 0.0, 0.0
        for b in range(table.shape[1]):
            if b > 0:
                if b > foreign_low.size:
                    table[a, b:] = UNREACHABLE
                    break
                low_in += foreign_low[b - 1]
                high_in += foreign_high[b - 1]
            least = excess - high_out + low_in
            most = excess - low_out + high_in
            table[a, b] = max(0.0, least * weight)
            if not upward_only:
                table[a, b] = max(table[a, b], -most * weight)
    if upward_only:
        return
    for a in range(min(4, table.shape[0], size + 1)):
        combinations = 1.0
        for step in range(a):
            combinations *= (size - step) / (step + 1)
        if combinations > most_sums:
            break
        out = subset_sums(own, a)
        table[a, 0] = max(table[a, 0], nearest_sum(out, np.zeros(1), excess) * weight)
        if table.shape[1] > 1 and table[a, 1] < UNREACHABLE:
            table[a, 1] = max(table[a, 1], nearest_sum(out, singles, excess) * weight)
        if a < 3 and table.shape[1] > 2 and paired and table[a, 2] == 0.0:
            table[a, 2] = max(table[a, 2], nearest_pair(out, singles, excess) * weight)


@njit(cache=True)
def fewest_moves(table, distance, most):
    """Fewest departures in all, when departures and arrivals must balance; above `most` when there are too many."""
    return fewest_by_tilt(table, distance, most)[most]


@njit(cache=True)
def fewest_by_tilt(table, distance, most):
    """Fewest departures of some nodes for each excess, from -most to most, of departures over arrivals.

    Of the pairs of a node that tilt the balance alike, only the one of fewest departures counts.
    """
    width = 2 * most + 1
    none = 1 << 40
    layer = np.full(width, none)
    layer[most] = 0
    reach_out, reach_in = table.shape[1] - 1, table.shape[2] - 1
    fewest = np.empty(reach_out + reach_in + 1, np.int64)
    for i in range(table.shape[0]):
        fewest[:] = none
        for a in range(reach_out, -1, -1):
            for b in range(reach_in + 1):
                if table[i, a, b] <= distance:
                    fewest[a - b + reach_in] = a
        following = np.full(width, none)
        for at in range(fewest.size):
            if fewest[at] > most:
                continue
            tilt = at - reach_in
            for t in range(max(0, -tilt), min(width, width - tilt)):
                if layer[t] + fewest[at] < following[t + tilt]:
                    following[t + tilt] = layer[t] + fewest[at]
        layer = following
    return layer


@njit(cache=True)
def least_weighted(table, distance, share):
    """Sum over the nodes of the least share * departures + (1 - share) * arrivals.

    Departures beyond the table cost at least their number, arrivals likewise: both edges are left open.
    """
    total = 0.0
    last_a, last_b = table.shape[1] - 1, table.shape[2] - 1
    for i in range(table.shape[0]):
        best = min(share * (last_a + 1), (1 - share) * (last_b + 1))
        for a in range(last_a + 1):
            if share * a >= best:
                break
            for b in range(last_b + 1):
                if table[i, a, b] <= distance:
                    best = min(best, share * a + (1 - share) * b)
                    break
        total += best
    return total

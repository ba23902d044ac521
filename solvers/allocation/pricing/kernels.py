"""Numba kernels of the price bound: see `keyshift.solvers.allocation.pricing.bound`.

Loads are in units of the mean. Prices are the arrivals' share of a move's price 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit, overwrite
from keyshift.models.workload import BoolArray, FloatArray, IntArray

NEVER = 1e300
GAIN = 1e-12
"""A lower cost counts when it is lower by more than rounding."""


class NodeTerms(NamedTuple):
    """One node's terms in the pricing of its columns."""

    own: FloatArray
    """Loads of its key groups."""
    leaving: FloatArray
    """The cost of each one's departure."""
    foreign: BoolArray
    """Which key groups, by ascending load, may come from elsewhere."""
    excess: float
    """By how much its load is above the mean."""
    reach: float
    """How far from the mean a column may leave it."""
    upward_only: bool
    """Whether it may come to any load below."""


class ArrivalPrices(NamedTuple):
    """Costs of arrivals."""

    load: FloatArray
    """Loads of all key groups, ascending, and the price of each."""
    price: FloatArray
    low: float
    """The least load, and the least price."""
    cheapest: float
    step: float
    """The width of a step of `sums`."""
    sums: FloatArray
    """The result of `arrival_costs`, and the cheapest key group of each step."""
    who: IntArray
    minima: FloatArray
    """The result of `window_minima`, for these widths."""
    widths: IntArray


class SubsetScratch(NamedTuple):
    """Room for the departures that are being tried, the sums of their loads and costs, and for the arrivals chosen."""

    leaving: IntArray
    sums: FloatArray
    costs: FloatArray
    chosen: IntArray
    looked: IntArray
    """How many choices were looked at, of work that is the same on any machine, (1,)."""


@njit(cache=True)
def arrival_costs(load, price, low, step, most):
    """f[b, g]: least price of b arrivals, repetition allowed, whose loads above `low`, each rounded down, sum to g.

    Also returns the cheapest key group of each step, -1 for none.
    """
    top = 0
    for k in range(load.size):
        top = max(top, int((load[k] - low) / step))
    who = np.full(top + 1, -1, np.int64)
    for k in range(load.size):
        cell = int((load[k] - low) / step)
        if who[cell] < 0 or price[k] < price[who[cell]]:
            who[cell] = k
    f = np.full((most + 1, most * top + 1), NEVER)
    f[0, 0] = 0.0
    for b in range(1, most + 1):
        last = (b - 1) * top + 1
        for cell in range(top + 1):
            if who[cell] < 0:
                continue
            extra = price[who[cell]]
            for g in range(last):
                value = f[b - 1, g] + extra
                if value < f[b, g + cell]:
                    f[b, g + cell] = value
    return f, who


@njit(cache=True)
def window_minima(f, widths):
    """F[b, y]: least of f[b, y - widths[b] .. y]."""
    levels, size = f.shape
    out = np.full((levels, size + widths.max()), NEVER)
    queue = np.empty(size, np.int64)
    for b in range(levels):
        head, tail = 0, 0
        for y in range(size + widths[b]):
            if y < size:
                while tail > head and f[b, queue[tail - 1]] >= f[b, y]:
                    tail -= 1
                queue[tail] = y
                tail += 1
            while queue[head] < y - widths[b]:
                head += 1
            out[b, y] = f[b, queue[head]]
    return out


@njit(**LEAF)
def last_step(b, least, prices):
    """Where in `window_minima` the sums of b arrivals from `least` on are found, whatever rounding took off."""
    return int(np.floor((least - b * prices.low) / prices.step)) - b - 1 + prices.widths[b]


@njit(**LEAF)
def one_arrival(least, most, load, price, node):
    """The cheapest foreign key group with a load in [least, most], -1 for none; `load` ascends."""
    best = -1
    for k in range(np.searchsorted(load, least), load.size):
        if load[k] > most:
            break
        if node.foreign[k] and (best < 0 or price[k] < price[best]):
            best = k
    return best


@njit(**LEAF)
def two_arrivals(least, most, limit, prices, node, pair):
    """The cheapest two foreign key groups with a sum in [least, most] below a cost; False for none."""
    load, price, found = prices.load, prices.price, False
    for j in range(load.size):
        if not node.foreign[j] or price[j] + prices.cheapest >= limit - GAIN:
            continue
        if most - load[j] < load[0] or least - load[j] > load[j]:
            continue
        for k in range(np.searchsorted(load, least - load[j]), j):
            if load[k] > most - load[j]:
                break
            if node.foreign[k] and price[j] + price[k] < limit - GAIN:
                limit = price[j] + price[k]
                pair[0], pair[1] = j, k
                found = True
    return found


@njit(**LEAF)
def trace(b, cell, f, who, price, chosen):
    """Which arrivals make up f[b, cell]."""
    while b > 0:
        for c in range(who.size):
            if who[c] >= 0 and c <= cell and f[b - 1, cell - c] + price[who[c]] == f[b, cell]:
                b -= 1
                cell -= c
                chosen[b] = who[c]
                break


@njit(**LEAF)
def with_arrivals(b, spent, best, least, most, node, prices, subset):
    """The cost of departures of cost `spent` and the cheapest b arrivals with a sum in [least, most].

    `NEVER` where it is not below `best`. One and two arrivals are found exactly, more of them by their sums in steps,
    that is: in [least, most] or a little beyond.
    """
    if b == 0:
        return spent if least <= 0.0 and spent < best - GAIN else NEVER
    price, minima, chosen = prices.price, prices.minima, subset.chosen
    at = last_step(b, least, prices)
    if at < 0 or at >= minima.shape[1] or spent + minima[b, at] >= best - GAIN:
        return NEVER
    subset.looked[0] += price.size
    if b == 1:
        k = chosen[0] = one_arrival(least, most, prices.load, price, node)
        return spent + price[k] if k >= 0 and spent + price[k] < best - GAIN else NEVER
    if b == 2:
        if two_arrivals(least, most, best - spent, prices, node, chosen):
            return spent + price[chosen[0]] + price[chosen[1]]
        return NEVER
    cell = max(0, at - prices.widths[b])
    subset.looked[0] += prices.who.size
    while prices.sums[b, cell] != minima[b, at]:
        cell += 1
    trace(b, cell, prices.sums, prices.who, price, chosen)
    return spent + minima[b, at]


@njit(**LEAF)
def next_departures(a, most_out, node, subset):
    """From a set of a departures to the next: one more, else the next of as many or of fewer; how many, -1 at the end."""
    index, own = subset.leaving, node.own
    following = index[a - 1] + 1 if a > 0 else 0
    if a < most_out and following < own.size:
        index[a] = following
        a += 1
    else:
        while a > 0 and index[a - 1] + 1 >= own.size:
            a -= 1
        if a == 0:
            return -1
        index[a - 1] += 1
    subset.sums[a] = subset.sums[a - 1] + own[index[a - 1]]
    subset.costs[a] = subset.costs[a - 1] + node.leaving[index[a - 1]]
    return a


@njit(**LEAF)
def cheapest_column(node, counts, prices, subset, column):
    """Least price of this many departures and arrivals that bring a node within its reach; `NEVER` when none do.

    `counts` = [least, most departures, least, most arrivals]. Departures are all tried, arrivals as `with_arrivals`
    says. `column` = [departures, arrivals, who leaves ..., who arrives ...] on return.
    """
    best, a = NEVER, 0
    while a >= 0:
        least = subset.sums[a] - node.excess - node.reach
        most = subset.sums[a] - node.excess + node.reach
        subset.looked[0] += counts[3] + 1
        for b in range(counts[2], counts[3] + 1 if a >= counts[0] else 0):
            if most < b * prices.low:
                break
            total = with_arrivals(b, subset.costs[a], best, least, most, node, prices, subset)
            if total == NEVER:
                continue
            best = total
            column[0], column[1] = a, b
            for t in range(a):
                column[2 + t] = subset.leaving[t]
            for t in range(b):
                column[2 + a + t] = subset.chosen[t]
        a = next_departures(a, counts[1], node, subset)
    return best


@njit(cache=True)
def columns_within(limit, node, counts, prices, subset, columns):
    """All of a node's columns of at most this price, as `cheapest_column` lays one out; how many, or -1 if there is no room.

    Arrivals from the heaviest down, each only where the rest can still be in the window at a price within the limit.
    """
    load, price, count, a, rows = prices.load, prices.price, 0, 0, counts[3] + 1
    at, held, paid = np.zeros(rows, np.int64), np.zeros(rows), np.zeros(rows)
    while a >= 0:
        least = subset.sums[a] - node.excess - node.reach
        most = subset.sums[a] - node.excess + node.reach
        for b in range(counts[2], rows if a >= counts[0] else 0):
            at[0], held[0], paid[0], depth = load.size, 0.0, subset.costs[a], 0
            while depth >= 0:
                left, k = b - depth, at[depth] - 1
                if left > 0:
                    at[depth] = k
                    subset.looked[0] += 1
                    if k < left - 1 or held[depth] + left * load[k] < least:
                        depth -= 1
                        continue
                    sum_, cost = held[depth] + load[k], paid[depth] + price[k]
                    cell = last_step(left - 1, least - sum_, prices)
                    if not node.foreign[k] or cell < 0 or cell >= prices.minima.shape[1]:
                        continue
                    if sum_ + (left - 1) * prices.low > most or cost + prices.minima[left - 1, cell] > limit:
                        continue
                    depth += 1
                    at[depth], held[depth], paid[depth] = k, sum_, cost
                    continue
                depth -= 1
                if held[b] < least or held[b] > most or paid[b] > limit:
                    continue
                if count == columns.shape[0]:
                    return -1
                columns[count, 0], columns[count, 1] = a, b
                for t in range(a):
                    columns[count, 2 + t] = subset.leaving[t]
                for t in range(b):
                    columns[count, 2 + a + t] = at[t]
                count += 1
        a = next_departures(a, counts[1], node, subset)
    return count


@njit(cache=True)
def beyond(node, counts, tried_out, tried_in, load, price, slopes, pick):
    """Lower bound on the price of a node's columns with more departures than `tried_out` or arrivals than `tried_in`.

    For any slope m the window on (arrivals less departures), in load, may be priced at m for a unit of load; what is
    left is the a cheapest departures and b times the cheapest arrival. The largest over the slopes counts for each
    (a, b) within `counts`, and the least of those is returned; `pick` = (a, b, slope) of it.
    """
    own, excess, reach = node.own, node.excess, node.reach
    most_a = min(counts[1], own.size)
    prefix = np.zeros((slopes.size, most_a + 1))
    arrival, window = np.empty(slopes.size), np.empty(slopes.size)
    for s in range(slopes.size):
        m = slopes[s]
        overwrite(prefix[s, 1:], np.cumsum(np.sort(node.leaving + m * own))[:most_a])
        arrival[s] = (price - m * load).min()
        window[s] = min(m * (-reach - excess), m * (reach - excess))
        if node.upward_only:
            window[s] = m * (reach - excess) if m <= 0 else -NEVER
    light = np.concatenate((np.zeros(1), np.cumsum(np.sort(own))))
    heavy = np.concatenate((np.zeros(1), np.cumsum(np.sort(own)[::-1])))
    low, high = load.min(), load.max()
    best = NEVER
    for a in range(counts[0], most_a + 1):
        for b in range(counts[2], counts[3] + 1):
            if a <= tried_out and b <= tried_in:
                continue
            too_low = not node.upward_only and b * high - light[a] < -reach - excess
            if too_low or b * low - heavy[a] > reach - excess:
                continue
            value, slope = -NEVER, 0
            for s in range(slopes.size):
                other = prefix[s, a] + b * arrival[s] + window[s]
                if other > value:
                    value, slope = other, s
            if value < best:
                best = value
                pick[0], pick[1], pick[2] = a, b, slope
    return best

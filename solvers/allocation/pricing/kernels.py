"""Numba kernels of the price bound: see `keyshift.solvers.allocation.pricing.bound`.

Loads are in units of the mean. Prices are the arrivals' share of a move's price 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NEVER = 1e300
GAIN = 1e-12
"""A lower cost counts when it is lower by more than rounding."""


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


@njit(cache=True)
def last_step(b, least, low, step, widths):
    """Where in `window_minima` the sums of b arrivals from `least` on are found, whatever rounding took off."""
    return int(np.floor((least - b * low) / step)) - b - 1 + widths[b]


@njit(cache=True)
def one_arrival(least, most, load, price, foreign):
    """The cheapest foreign key group with a load in [least, most], -1 for none; `load` ascends."""
    best = -1
    for k in range(np.searchsorted(load, least), load.size):
        if load[k] > most:
            break
        if foreign[k] and (best < 0 or price[k] < price[best]):
            best = k
    return best


@njit(cache=True)
def two_arrivals(least, most, limit, load, price, foreign, lowest, pair):
    """The cheapest two foreign key groups with a sum in [least, most] below a cost; False for none."""
    found = False
    for j in range(load.size):
        if not foreign[j] or price[j] + lowest >= limit - GAIN:
            continue
        if most - load[j] < load[0] or least - load[j] > load[j]:
            continue
        for k in range(np.searchsorted(load, least - load[j]), j):
            if load[k] > most - load[j]:
                break
            if foreign[k] and price[j] + price[k] < limit - GAIN:
                limit = price[j] + price[k]
                pair[0], pair[1] = j, k
                found = True
    return found


@njit(cache=True)
def trace(b, cell, f, who, price, chosen):
    """Which arrivals make up f[b, cell]."""
    while b > 0:
        for c in range(who.size):
            if who[c] >= 0 and c <= cell and f[b - 1, cell - c] + price[who[c]] == f[b, cell]:
                b -= 1
                cell -= c
                chosen[b] = who[c]
                break


@njit(cache=True)
def cheapest_column(
    own,
    leaving,
    excess,
    reach,
    least_out,
    most_out,
    least_in,
    most_in,
    load,
    price,
    foreign,
    low,
    step,
    f,
    minima,
    who,
    widths,
    column,
):
    """Least price of so many departures and arrivals that bring a node within `reach`; `NEVER` when none do.

    Departures are all tried, one and two arrivals exactly, more of them by `f`, that is: within `reach` or a little
    more. `leaving` prices departures. `column` = [departures, arrivals, who leaves ..., who arrives ...] on return.
    """
    best = NEVER
    lowest = price.min()
    index = np.zeros(most_out + 1, np.int64)
    sums, costs = np.zeros(most_out + 1), np.zeros(most_out + 1)
    chosen = np.zeros(most_in + 1, np.int64)
    a = 0
    while True:
        least, most = sums[a] - excess - reach, sums[a] - excess + reach
        for b in range(least_in, most_in + 1 if a >= least_out else 0):
            if most < b * low:
                break
            if b == 0:
                if least > 0.0 or costs[a] >= best - GAIN:
                    continue
                best = costs[a]
            else:
                at = last_step(b, least, low, step, widths)
                if at < 0 or at >= minima.shape[1] or costs[a] + minima[b, at] >= best - GAIN:
                    continue
                if b == 1:
                    chosen[0] = one_arrival(least, most, load, price, foreign)
                    if chosen[0] < 0 or costs[a] + price[chosen[0]] >= best - GAIN:
                        continue
                    best = costs[a] + price[chosen[0]]
                elif b == 2:
                    if not two_arrivals(least, most, best - costs[a], load, price, foreign, lowest, chosen):
                        continue
                    best = costs[a] + price[chosen[0]] + price[chosen[1]]
                else:
                    best = costs[a] + minima[b, at]
                    cell = max(0, at - widths[b])
                    while f[b, cell] != minima[b, at]:
                        cell += 1
                    trace(b, cell, f, who, price, chosen)
            column[0], column[1] = a, b
            for t in range(a):
                column[2 + t] = index[t]
            for t in range(b):
                column[2 + a + t] = chosen[t]
        following = index[a - 1] + 1 if a > 0 else 0
        if a < most_out and following < own.size:  # one more departure, else the next of as many or of fewer
            index[a] = following
            a += 1
        else:
            while a > 0 and index[a - 1] + 1 >= own.size:
                a -= 1
            if a == 0:
                return best
            index[a - 1] += 1
        sums[a] = sums[a - 1] + own[index[a - 1]]
        costs[a] = costs[a - 1] + leaving[index[a - 1]]


@njit(cache=True)
def beyond(
    own,
    leaving,
    excess,
    reach,
    upward_only,
    least_out,
    tried_out,
    most_out,
    least_in,
    tried_in,
    most_in,
    load,
    price,
    slopes,
    pick,
):
    """Lower bound on the price of a node's columns with more departures than `tried_out` or arrivals than `tried_in`.

    For any slope m the window on (arrivals less departures), in load, may be priced at m for a unit of load; what is
    left is the a cheapest departures and b times the cheapest arrival. The largest over the slopes counts for each
    (a, b), up to `most_out` and `most_in`, and the least of those is returned; `pick` = (a, b, slope) of it.
    """
    most_a = min(most_out, own.size)
    prefix = np.zeros((slopes.size, most_a + 1))
    arrival, window = np.empty(slopes.size), np.empty(slopes.size)
    for s in range(slopes.size):
        m = slopes[s]
        prefix[s, 1:] = np.cumsum(np.sort(leaving + m * own))[:most_a]
        arrival[s] = (price - m * load).min()
        window[s] = min(m * (-reach - excess), m * (reach - excess))
        if upward_only:
            window[s] = m * (reach - excess) if m <= 0 else -NEVER
    light = np.concatenate((np.zeros(1), np.cumsum(np.sort(own))))
    heavy = np.concatenate((np.zeros(1), np.cumsum(np.sort(own)[::-1])))
    low, high = load.min(), load.max()
    best = NEVER
    for a in range(least_out, most_a + 1):
        for b in range(least_in, most_in + 1):
            if a <= tried_out and b <= tried_in:
                continue
            if b * low - heavy[a] > reach - excess or (not upward_only and b * high - light[a] < -reach - excess):
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

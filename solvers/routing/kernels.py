"""The Lagrangian relaxation's loops, compiled: r records of keys alike, n nodes."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def _cost(load, state, current, home, d, price, entry):
    """Cost of one key of a record on node d, at the prices of load and of a table entry."""
    cost = price[d] * load
    if d != current:
        cost += state
    if d != home:
        cost += entry
    return cost


@njit(cache=True)
def _cheapest(load, state, current, home, price, entry, kept, by_price):
    """Cheapest node of a record and its cost; staying wins ties, then the hash, then the cheaper load."""
    best, least = -1, np.inf
    if kept[current]:
        best, least = current, _cost(load, state, current, home, current, price, entry)
    if home != current and kept[home]:
        cost = _cost(load, state, current, home, home, price, entry)
        if cost < least:
            best, least = home, cost
    for d in by_price:  # of the nodes that are neither, the first is the cheapest
        if d != current and d != home:
            cost = _cost(load, state, current, home, d, price, entry)
            if cost < least:
                best, least = d, cost
            break
    return best, least


@njit(cache=True)
def relax(load, state, count, current, home, price, entry, kept, by_price):
    """Minimise the Lagrangian record by record, and sum what a cut needs for each current node.

    Returns (state moved (n,), load on each node (n, n), entries (n,)) of the records now on each node.
    """
    n = price.size
    moved, onto, entries = np.zeros(n), np.zeros((n, n)), np.zeros(n)
    for r in range(load.size):
        i, h = current[r], home[r]
        d, _ = _cheapest(load[r], state[r], i, h, price, entry, kept, by_price)
        onto[i, d] += load[r] * count[r]
        if d != i:
            moved[i] += state[r] * count[r]
        if d != h:
            entries[i] += count[r]
    return moved, onto, entries


@njit(cache=True)
def choices(load, state, current, home, price, entry, kept, by_price):
    """Cheapest node of each record, its cost, and by how much the second best costs more."""
    r_count = load.size
    best, least, regret = np.empty(r_count, np.int64), np.empty(r_count), np.empty(r_count)
    for r in range(r_count):
        best[r], least[r] = _cheapest(load[r], state[r], current[r], home[r], price, entry, kept, by_price)
        second = np.inf
        for d in range(price.size):
            if kept[d] and d != best[r]:
                second = min(second, _cost(load[r], state[r], current[r], home[r], d, price, entry))
        regret[r] = second - least[r]
    return best, least, regret


@njit(cache=True)
def count_open(records, load, state, current, home, price, entry, kept, least, allowance):
    """How many (record, node) pairs cost at most `allowance` more than the record's cheapest."""
    total = 0
    for r in records:
        for d in range(price.size):
            if kept[d] and _cost(load[r], state[r], current[r], home[r], d, price, entry) <= least[r] + allowance:
                total += 1
    return total


@njit(cache=True)
def list_open(records, load, state, current, home, price, entry, kept, least, allowance, record, node):
    """Write those pairs, record by record."""
    at = 0
    for r in records:
        for d in range(price.size):
            if kept[d] and _cost(load[r], state[r], current[r], home[r], d, price, entry) <= least[r] + allowance:
                record[at], node[at] = r, d
                at += 1

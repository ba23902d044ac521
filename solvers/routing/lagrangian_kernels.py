"""The Lagrangian relaxation's loops, compiled: r records of keys alike, n nodes, k windows; loads (k, r), prices (k, n)."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import LEAF, njit


@njit(**LEAF)
def _cost(load, state, current, home, r, d, price, entry):
    """Cost of one key of record r on node d, at the prices of load and of a table entry."""
    cost = price[0, d] * load[0, r]
    for s in range(1, price.shape[0]):
        cost += price[s, d] * load[s, r]
    if d != current[r]:
        cost += state[r]
    if d != home[r]:
        cost += entry
    return cost


@njit(**LEAF)
def _cheapest(load, state, current, home, r, price, entry, kept, by_price):
    """Cheapest node of a record and its cost; staying wins ties, then the hash, then the cheaper load."""
    best, least = -1, np.inf
    i, h = current[r], home[r]
    if kept[i]:
        best, least = i, _cost(load, state, current, home, r, i, price, entry)
    if h != i and kept[h]:
        cost = _cost(load, state, current, home, r, h, price, entry)
        if cost < least:
            best, least = h, cost
    for d in by_price:  # of the nodes that are neither, the first is the cheapest in one window
        if d != i and d != h:
            cost = _cost(load, state, current, home, r, d, price, entry)
            if cost < least:
                best, least = d, cost
            if price.shape[0] == 1:
                break
    return best, least


@njit(cache=True)
def relax(load, state, count, current, home, price, entry, kept, by_price):
    """Minimise the Lagrangian record by record, and sum what a cut needs for each current node.

    Returns (state moved (n,), load on each node in each window (n, k, n), entries (n,)) of the records now on each node.
    """
    k, n = price.shape
    moved, onto, entries = np.zeros(n), np.zeros((n, k, n)), np.zeros(n)
    for r in range(load.shape[1]):
        i = current[r]
        d, _ = _cheapest(load, state, current, home, r, price, entry, kept, by_price)
        for s in range(k):
            onto[i, s, d] += load[s, r] * count[r]
        if d != i:
            moved[i] += state[r] * count[r]
        if d != home[r]:
            entries[i] += count[r]
    return moved, onto, entries


@njit(cache=True)
def choices(load, state, current, home, price, entry, kept, by_price):
    """Cheapest node of each record, its cost, and how clear it is: the lead over staying, going home or elsewhere.

    Which of other nodes a record goes to, equally cheap in one window, is not counted.
    """
    r_count = load.shape[1]
    best, least, regret = np.empty(r_count, np.int64), np.empty(r_count), np.full(r_count, np.inf)
    for r in range(r_count):
        i, h = current[r], home[r]
        best[r], least[r] = _cheapest(load, state, current, home, r, price, entry, kept, by_price)
        for d in (i, h):
            if kept[d] and d != best[r]:
                regret[r] = min(regret[r], _cost(load, state, current, home, r, d, price, entry) - least[r])
        if best[r] == i or best[r] == h:
            for d in by_price:
                if d != i and d != h:
                    regret[r] = min(regret[r], _cost(load, state, current, home, r, d, price, entry) - least[r])
                    if price.shape[0] == 1:
                        break
    return best, least, regret


@njit(cache=True)
def spread(records, load, count, current, home, price, by_price, limit, used, shares):
    """Send the units of some records, heaviest first, each to the emptiest of the nodes of least price.

    Staying and going home are no options here. Returns the shares written.
    """
    record, to, units = shares
    written = 0
    for r in records:
        for _ in range(count[r]):
            target, floor = -1, 0.0
            for d in by_price:
                if d == current[r] or d == home[r]:
                    continue
                if target >= 0 and price[d] > floor:
                    break
                if target < 0:
                    floor = price[d] + 1e-9
                    target = d
                elif limit[d] - used[d] > limit[target] - used[target]:
                    target = d
            used[target] += load[r]
            if written > 0 and record[written - 1] == r and to[written - 1] == target:
                units[written - 1] += 1
            else:
                record[written], to[written], units[written] = r, target, 1
                written += 1
    return written


@njit(cache=True)
def list_few(records, current, home, price, kept, by_price, others, record, node):
    """Write for each record its current node, its hash, and some others of least price; equal ones take turns."""
    at, equal = 0, 0
    while equal < by_price.size and price[by_price[equal]] <= price[by_price[0]] + 1e-9:
        equal += 1
    for r in records:
        if kept[current[r]]:
            record[at], node[at] = r, current[r]
            at += 1
        if home[r] != current[r] and kept[home[r]]:
            record[at], node[at] = r, home[r]
            at += 1
        wanted = others
        for step in range(by_price.size):
            d = by_price[(step + r) % equal] if step < equal else by_price[step]
            if wanted > 0 and d != current[r] and d != home[r]:
                record[at], node[at] = r, d
                at += 1
                wanted -= 1
    return at


@njit(cache=True)
def list_open(records, load, state, current, home, price, entry, kept, least, allowance, record, node):
    """Write the (record, node) pairs that cost at most `allowance` more than the record's cheapest, as far as there is room.

    Returns how many there are.
    """
    at = 0
    for r in records:
        for d in range(price.shape[1]):
            if kept[d] and _cost(load, state, current, home, r, d, price, entry) <= least[r] + allowance:
                if at < record.size:
                    record[at], node[at] = r, d
                at += 1
    return at

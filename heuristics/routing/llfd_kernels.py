"""The loops of mixed routing, compiled. One LLFD serves every algorithm, and keys and records of keys alike.

Arrays are over r records or n nodes. A record has `resident` units on its node `at` and `waiting` ones in C, the
candidate set; a key of the full key space is a record of one unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray


class RoutingRecords(NamedTuple):
    """The records, and the orders in which they are treated."""

    load: FloatArray
    at: IntArray
    home: IntArray
    by_load: IntArray
    """Records by falling load."""
    grouped: IntArray
    """Records in psi's order by node, and where each node's begin."""
    start: IntArray


class RoutingNodes(NamedTuple):
    """The load limits of the nodes."""

    limit: FloatArray
    capacity: FloatArray
    kept: BoolArray


class UnitsPlaced(NamedTuple):
    """Where the units are, while they are moved."""

    resident: IntArray
    waiting: IntArray
    used: FloatArray
    """Load of each node."""
    cursor: IntArray
    """How far psi's order of each node has been passed over."""


class RoutingShares(NamedTuple):
    """The decisions, one entry each: how many units of a record go to which node."""

    record: IntArray
    to: IntArray
    units: IntArray


@njit(cache=True)
def by_node(order, at, nodes):
    """Split an order of the records by node, keeping it within each: (records, where each node's begin)."""
    start = np.zeros(nodes + 1, np.int64)
    for r in at:
        start[r + 1] += 1
    start = np.cumsum(start)
    place = start[:-1].copy()
    grouped = np.empty(order.size, np.int64)
    for r in order:
        grouped[place[at[r]]] = r
        place[at[r]] += 1
    return grouped, start


@njit(cache=True)
def node_loads(load, at, units, nodes):
    """Load of each node."""
    used = np.zeros(nodes)
    for r in range(load.size):
        used[at[r]] += load[r] * units[r]
    return used


@njit(**LEAF)
def release(d, excess, below, records, units):
    """Disassociate units of node d into C, in psi's order, until `excess` is covered; only loads under `below`.

    The cursor never goes back: `below` never grows during a run, so what it passes over stays passed over.
    """
    load = records.load
    resident, waiting, used, cursor = units
    released, end = 0.0, records.start[d + 1]
    while released < excess and cursor[d] < end:
        r = records.grouped[cursor[d]]
        if resident[r] == 0 or load[r] <= 0.0 or load[r] >= below:
            cursor[d] += 1
            continue
        leaving, wanted = resident[r], excess - released
        if leaving * load[r] > wanted:  # else loads may be too far apart for a quotient in 64 bits
            leaving = np.int64(np.ceil(wanted / load[r]))
        resident[r] -= leaving
        waiting[r] += leaving
        released += leaving * load[r]
        used[d] -= leaving * load[r]
    return released


@njit(**LEAF)
def prepare(records, nodes, units):
    """Phase II: take keys off every overloaded node, in psi's order, until it is within its limit."""
    for d in range(nodes.limit.size):
        if nodes.kept[d] and units.used[d] > nodes.limit[d]:
            release(d, units.used[d] - nodes.limit[d], np.inf, records, units)


@njit(**LEAF)
def _next_node(used, tried, nodes):
    """The least loaded node per capacity that was not tried yet, the lower number first; -1 when there is none."""
    best, capacity = -1, nodes.capacity
    for d in range(used.size):
        if nodes.kept[d] and not tried[d] and (best < 0 or used[d] / capacity[d] < used[best] / capacity[best]):
            best = d
    return best


@njit(cache=True)
def llfd(records, nodes, units, shares):
    """Phase III, algorithm 1: place everything in C; returns (shares written, units placed over the limit).

    Units are treated in descending order of load. What `adjust` throws out is strictly lighter than the unit it
    makes room for, so one sweep down the order of all records meets every unit once: there is no heap, and the loop
    ends after at most as many placements as there are units. O(units in C * n + r).

    Where no node accepts a unit (the print does not say), it goes to the least loaded one, and is counted.
    """
    load, at, home, by_load = records.load, records.at, records.home, records.by_load
    resident, waiting, used = units.resident, units.waiting, units.used
    record, to, count = shares
    lighter = node_loads(load, at, resident, used.size)  # residents lighter than the unit at hand
    heavy = written = over = 0
    tried = np.zeros(used.size, np.bool_)
    for r in by_load:
        while heavy < by_load.size and load[by_load[heavy]] >= load[r]:
            q = by_load[heavy]
            lighter[at[q]] -= load[q] * resident[q]
            heavy += 1
        while waiting[r] > 0:
            tried[:] = False
            number = 1
            if load[r] == 0.0:  # our own: keys without load have nothing to balance, and go where the hash says
                number = waiting[r]
                target = home[r] if nodes.kept[home[r]] else _next_node(used, tried, nodes)
            else:
                target = -1
                d = _next_node(used, tried, nodes)
                first = d
                while d >= 0 and target < 0:
                    excess = used[d] + load[r] - nodes.limit[d]
                    if excess <= 0.0:  # line 12; printed with <, which Figure 4 itself cannot bear
                        target = d
                    elif lighter[d] >= excess:  # lines 14-18, conditions (i)-(iii)
                        lighter[d] -= release(d, excess, load[r], records, units)
                        target = d
                    else:
                        tried[d] = True
                        d = _next_node(used, tried, nodes)
                if target < 0:
                    target = first
                    over += 1
            waiting[r] -= number
            used[target] += load[r] * number  # lines 4 and 12 print L_{i-1}; it has to be this running estimate
            if written > 0 and record[written - 1] == r and to[written - 1] == target:
                count[written - 1] += number
            else:
                record[written], to[written], count[written] = r, target, number
                written += 1
    return written, over

"""First come, first served at every node, tuple by tuple: Lindley's recursion, so that no heap of events is needed."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.simulation.changes import Holds, Standstills, WindowRates


class Queues(NamedTuple):
    """The nodes and their present state; shapes (n,) but for `ring`."""

    service: FloatArray
    """Seconds that a tuple of work 1 takes."""
    free: FloatArray
    """When the node will have served all that it has."""
    busy: FloatArray
    """Seconds of service so far."""
    pause: IntArray
    """The next standstill."""
    entered: IntArray
    """Tuples that have arrived so far."""
    ring: FloatArray
    """When the last tuples were or will be done, shape (n, most tuples at a node); (n, 0): no bound."""


class Router(NamedTuple):
    """Where tuples go: ``sent`` for each tuple, or else ``node_of[key]``; `held` is the group that holds a key, or -1."""

    sent: IntArray
    node_of: IntArray
    held: IntArray
    buffers: bool


class Counters(NamedTuple):
    """The second stage: partial results of split keys, sent to the aggregators every `period` seconds."""

    period: float
    flush: float
    """Seconds of the node for a counter that it sends."""
    merge: float
    """Seconds of the aggregators, all together, for a counter that comes."""
    seen: IntArray
    """The period in which a key last arrived at a node, shape (n, p)."""
    running: IntArray
    """Counters and tuples of the running period, shape (2, n)."""
    sums: FloatArray
    """Counters sent; when the aggregators will be free; sum over the tuples of when they are merged."""


class Record(NamedTuple):
    """The records: the latency of each tuple, and sums by bins of time."""

    latency: FloatArray
    width: float
    arrived: IntArray
    """By bin of creation and node."""
    done: IntArray
    """By bin of completion and node."""
    delay: FloatArray
    """Sum of latencies, by bin of creation."""


@njit(**LEAF)
def admit(i, w, enters, ready, log, queues, stands, record):
    """Put tuple i into node w's queue at a time; its service cannot begin before `ready`."""
    begin = max(queues.free[w], enters, ready)
    j, last = queues.pause[w], stands.first[w + 1]
    while j < last and stands.end[j] <= begin:
        j += 1
    queues.pause[w] = j
    if j < last and stands.start[j] <= begin:
        begin = stands.end[j]
    takes = queues.service[w] * (log.work[i] if log.work.size else 1.0)
    done = begin + takes
    queues.free[w] = done
    queues.busy[w] += takes
    if queues.ring.shape[1]:
        queues.ring[w, queues.entered[w] % queues.ring.shape[1]] = done
    queues.entered[w] += 1
    record.latency[i] = done - log.times[i]
    last_bin = record.delay.size - 1
    at = min(int(log.times[i] / record.width), last_bin)
    record.arrived[at, w] += 1
    record.delay[at] += record.latency[i]
    if done < (last_bin + 1) * record.width:
        record.done[int(done / record.width), w] += 1


@njit(**LEAF)
def tally(key, w, number, counters):
    """Count a tuple, and the counter that it opens where its key is new to the node in this period."""
    if counters.seen[w, key] != number:
        counters.seen[w, key] = number
        counters.running[0, w] += 1
    counters.running[1, w] += 1


@njit(**LEAF)
def flush(now, queues, counters):
    """Every node sends its counters behind what it has queued; the aggregators take them in the order of the nodes."""
    for w in range(queues.free.size):
        if counters.running[0, w]:
            takes = counters.running[0, w] * counters.flush
            queues.free[w] = max(queues.free[w], now) + takes
            queues.busy[w] += takes
            counters.sums[1] = max(counters.sums[1], queues.free[w]) + counters.running[0, w] * counters.merge
            counters.sums[0] += counters.running[0, w]
            counters.sums[2] += counters.sums[1] * counters.running[1, w]
        counters.running[0, w] = counters.running[1, w] = 0


@njit(cache=True, error_model="numpy")
def serve(log, router, holds, stands, queues, counters, record):
    """Serve a log; what happens at the same time as a tuple comes happens before it.

    The source sends tuples in their order; where the queue that the next one goes to is full, it waits, and what
    is behind it too. Tuples in a buffer are in no queue.
    """
    groups, moves, tuples = holds.release.size, holds.start.size, log.times.size
    waiting = np.full((groups, 2), -1, np.int64)  # first and last tuple in the buffer of a group
    behind = np.full(tuples if groups and router.buffers else 0, -1, np.int64)
    move, group, number, bound = 0, 0, 1, queues.ring.shape[1]
    clock, emitted = 0.0, 0.0
    for i in range(tuples + 1):
        emitted = max(emitted, log.times[i]) if i < tuples else np.inf
        while True:
            while True:
                next_release = holds.release[group] if group < groups else np.inf
                next_move = holds.start[move] if move < moves else np.inf
                next_flush = number * counters.period if i < tuples or counters.running[1].any() else np.inf
                clock = min(next_release, next_move, next_flush)
                if clock > emitted or clock == np.inf:
                    break
                if clock == next_release:
                    j = waiting[group, 0]
                    while j >= 0:
                        key = log.keys[j]
                        admit(j, router.node_of[key], clock, clock, log, queues, stands, record)
                        if counters.seen.size:
                            tally(key, router.node_of[key], number, counters)
                        j = behind[j]
                    group += 1
                elif clock == next_move:
                    router.node_of[holds.key[move]] = holds.target[move]
                    router.held[holds.key[move]] = holds.group[move]
                    move += 1
                else:
                    flush(clock, queues, counters)
                    number += 1
            if i == tuples:
                break
            key = log.keys[i]
            w = router.sent[i] if router.sent.size else router.node_of[key]
            held = router.held[key] if moves else -1
            held = held if held >= group else -1
            if bound and (held < 0 or not router.buffers) and queues.entered[w] >= bound:
                room = queues.ring[w, queues.entered[w] % bound]
                if room > emitted:
                    emitted = min(room, clock)  # a key may have gone elsewhere by then
                    continue
            break
        if i == tuples:
            break
        if held >= 0 and router.buffers:
            if waiting[held, 0] < 0:
                waiting[held, 0] = i
            else:
                behind[waiting[held, 1]] = i
            waiting[held, 1] = i
        else:
            admit(i, w, emitted, holds.release[held] if held >= 0 else emitted, log, queues, stands, record)
            if counters.seen.size:
                tally(key, w, number, counters)


# Queues of fluids: what the tuples come to when there are many of them, without their chance. Exact --------------------


class Inflow(NamedTuple):
    """Pieces of fluid, node by node, in the order in which they enter the queue; shapes (pieces,).

    A portion is created at an even rate between two times, enters the queue between two times (those, or the moment in
    which a buffer is replayed), and is not served before `ready`.
    """

    node: IntArray
    volume: FloatArray
    created: FloatArray
    """Beginning and end, shape (pieces, 2)."""
    entered: FloatArray
    """Beginning and end, shape (pieces, 2)."""
    ready: FloatArray


class Served(NamedTuple):
    """Portions as they leave, whose times of creation and of departure are both linear; shapes (pieces,) or (pieces, 2)."""

    node: IntArray
    volume: FloatArray
    created: FloatArray
    left: FloatArray


def inflow(
    rates: WindowRates, placement: IntArray | None, holds: Holds, nodes: int, buffers: bool, edges: FloatArray
) -> Inflow:
    """Cut the stream at `edges` and wherever a rate or a route changes.

    Parameters
    ----------
    rates : WindowRates
    placement : ndarray of int, shape (p,), or None
        At the beginning; None spreads every key group evenly over all nodes.
    holds : Holds
    nodes : int
    buffers : bool
    edges : ndarray
        Further cuts, in seconds.
    """
    windows = np.arange(rates.load.shape[0] + 1) * rates.window_seconds
    cuts = np.unique(np.concatenate([windows, holds.start, holds.release, edges]))
    cuts = cuts[cuts <= windows[-1]]
    free, parts, every = np.full(rates.load.shape[1], -np.inf), [], np.arange(nodes)
    node_of, move = None if placement is None else placement.copy(), 0
    for begin, end in pairwise(cuts.tolist()):
        while move < holds.start.size and holds.start[move] <= begin:
            assert node_of is not None
            node_of[holds.key[move]] = holds.target[move]
            free[holds.key[move]] = holds.release[holds.group[move]]
            move += 1
        row = min(int(np.searchsorted(windows, begin, side="right")) - 1, rates.load.shape[0] - 1)
        volume = rates.load[row] * ((end - begin) / rates.window_seconds)
        if node_of is None:
            parts.append(_portions(every, np.full(nodes, volume.sum() / nodes), begin, end, begin, end))
            continue
        held = (free > begin) & (volume > 0)
        open_to = np.bincount(node_of[~held] if buffers else node_of, volume[~held] if buffers else volume, nodes)
        ready = np.full(nodes, -np.inf)
        if not buffers:
            np.maximum.at(ready, node_of[held], free[held])
        parts.append(_portions(every, open_to, begin, end, begin, end, ready))
        for moment in np.unique(free[held]) if buffers else ():
            back = held & (free == moment)
            kept = np.bincount(node_of[back], volume[back], nodes)
            parts.append(_portions(every, kept, begin, end, moment, moment))
    made = Inflow(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    keep = np.flatnonzero(made.volume > 0)
    order = keep[np.lexsort((made.created[keep, 0], made.entered[keep, 0], made.node[keep]))]
    return Inflow(*(column[order] for column in made))


def _portions(
    node: IntArray, volume: FloatArray, begin: float, end: float, enters: float, until: float, ready: FloatArray | None = None
) -> Inflow:  # fmt: skip
    created, entered = np.tile([begin, end], (node.size, 1)), np.tile([enters, until], (node.size, 1))
    return Inflow(node, volume, created, entered, np.full(node.size, -np.inf) if ready is None else ready)


@njit(cache=True, error_model="numpy")
def capacity_by(t, i, rate, stands):
    """Tuples that node i could have served by a time."""
    stood = 0.0
    for j in range(stands.first[i], stands.first[i + 1]):
        stood += max(0.0, min(t, stands.end[j]) - stands.start[j])
    return rate * (t - stood)


@njit(cache=True, error_model="numpy")
def pass_through(flow, rates, stands, out):
    """Serve the portions of every node; gives how many pieces `out` has then, or -1 where it is too short.

    In units of what the node could serve (`capacity_by`), the portion at volume x behind the start of a piece leaves at
    y(x) = max(y(0) + x, c(x)), where c is when it enters: Lindley's recursion. A piece is cut where the queue runs empty and
    where the node stands still.
    """
    made, i, y = 0, -1, 0.0
    for piece in range(flow.node.size):
        if flow.node[piece] != i:
            i, y = flow.node[piece], 0.0
            pause, stood, level = stands.first[i], 0.0, np.inf
            if pause < stands.first[i + 1]:
                level = capacity_by(stands.start[pause], i, rates[i], stands)
        volume, ready = flow.volume[piece], capacity_by(max(flow.ready[piece], 0.0), i, rates[i], stands)
        c0 = max(ready, capacity_by(flow.entered[piece, 0], i, rates[i], stands))
        c1 = max(ready, capacity_by(flow.entered[piece, 1], i, rates[i], stands))
        begun, y = 0.0, max(y, c0)
        empties = 0.0 if y <= c0 else volume  # where the queue runs empty, if it does
        if c1 - c0 <= volume:
            empties = volume
        elif y > c0:
            empties = min(volume, (y - c0) / ((c1 - c0) / volume - 1.0))
        while begun < volume:
            until = empties if begun < empties else volume
            slope = 1.0 if begun < empties else (c1 - c0) / volume
            while y >= level:  # the node stands still when this is to be served
                stood += stands.end[pause] - stands.start[pause]
                pause += 1
                level = np.inf
                if pause < stands.first[i + 1]:
                    level = capacity_by(stands.start[pause], i, rates[i], stands)
            end = y + slope * (until - begun)
            if end > level:
                until, end = begun + (level - y) / slope, level
            if made == out.node.size:
                return -1
            out.node[made], out.volume[made] = i, until - begun
            span = flow.created[piece, 1] - flow.created[piece, 0]
            out.created[made, 0] = flow.created[piece, 0] + span * (begun / volume)
            out.created[made, 1] = flow.created[piece, 0] + span * (until / volume)
            out.left[made, 0], out.left[made, 1] = y / rates[i] + stood, end / rates[i] + stood
            made, begun, y = made + 1, until, end
    return made


def serve_fluid(flow: Inflow, rates: FloatArray, stands: Standstills) -> Served:
    """The departures over time: at most one cut where each piece's queue runs empty, and two for each standstill."""
    most = 2 * flow.node.size + 2 * stands.start.size + 1
    out = Served(np.empty(most, np.int64), np.empty(most), np.empty((most, 2)), np.empty((most, 2)))
    made = pass_through(flow, rates, stands, out)
    assert made >= 0
    return Served(*(column[:made] for column in out))


def quantile(low: FloatArray, high: FloatArray, volume: FloatArray, share: float) -> float:
    """The latency that a share of the volume stays within, where each piece is spread evenly between two latencies."""
    a, b = 0.0, float(high.max())
    span = np.maximum(high - low, 1e-300)
    total = share * volume.sum()
    for _ in range(60):
        middle = 0.5 * (a + b)
        within = float((volume * np.clip((middle - low) / span, 0.0, 1.0)).sum())
        a, b = (a, middle) if within >= total else (middle, b)
    return b


def at_times(times: FloatArray, points: FloatArray, volume: FloatArray) -> FloatArray:
    """Volume that has come or left by some times, given the pieces of one node in order, shape (pieces, 2)."""
    behind = np.repeat(np.concatenate([[0.0], np.cumsum(volume)]), 2)[1:-1]
    return np.interp(times, points.ravel(), behind, left=0.0) if volume.size else np.zeros(times.size)

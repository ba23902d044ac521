"""First come, first served at every node, tuple by tuple: Lindley's recursion, so that no heap of events is needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray


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

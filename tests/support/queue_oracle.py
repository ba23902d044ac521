"""Queues simulated the plain way, with a heap of events and a deque for each node: slow, and shares no line with keyshift."""

from __future__ import annotations

import heapq
from collections import deque

COMPLETION, RELEASE, MOVE, FLUSH, EMIT, RETRY = range(6)


class PlainQueues:
    """Latencies of a log: `times`, `keys`, `takes(i, node)`; moves as (start, key, target, release)."""

    def __init__(
        self, times, keys, takes, node_of, moves, standstills, *, bound=0, buffers=True, period=None, flush=0.0
    ):
        self.times, self.keys, self.takes, self.node_of = times, keys, takes, list(node_of)
        self.standstills, self.bound, self.buffers, self.flush_seconds = standstills, bound, buffers, flush
        n = len(standstills)
        self.queue, self.inside, self.serving = [deque() for _ in range(n)], [0] * n, [None] * n
        self.buffer, self.held = {}, {}
        self.counted = [set() for _ in range(n)]
        self.done = [None] * len(times)
        self.next, self.blocked = 0, False
        self.heap, self.order = [], 0
        for start, key, target, release in moves:
            self.at(start, MOVE, (key, target, release))
        for moment in sorted({move[3] for move in moves}):
            self.at(moment, RELEASE, moment)
        self.period = period
        if period:
            self.at(period, FLUSH, 1)
        if len(times):
            self.at(times[0], EMIT, None)

    def at(self, when, kind, what):
        self.order += 1
        heapq.heappush(self.heap, (when, kind, self.order, what))

    def run(self):
        while self.heap:
            now, kind, _, what = heapq.heappop(self.heap)
            if kind == COMPLETION:
                i = self.serving[what]
                self.serving[what] = None
                if i is not None and i >= 0:
                    self.done[i] = now
                    self.inside[what] -= 1
                if self.blocked:
                    self.at(now, EMIT, None)
                self.begin(what, now)
            elif kind == RELEASE:
                for i in self.buffer.pop(what, []):
                    self.enter(i, now, now)
            elif kind == MOVE:
                key, self.node_of[key], self.held[key] = what
                if self.blocked:
                    self.at(now, EMIT, None)
            elif kind == FLUSH:
                for w in range(len(self.queue)):
                    if self.counted[w]:
                        self.queue[w].append((-1, now, len(self.counted[w]) * self.flush_seconds))
                        self.counted[w].clear()
                        self.begin(w, now)
                if self.next < len(self.times) or self.buffer:
                    self.at((what + 1) * self.period, FLUSH, what + 1)
            elif kind == EMIT:
                self.emit(now)
            else:
                self.begin(what, now)
        return [done - came for done, came in zip(self.done, self.times, strict=True)]

    def emit(self, now):
        while self.next < len(self.times) and self.times[self.next] <= now:
            i = self.next
            key = self.keys[i]
            release = self.held.get(key, -1.0)
            w, held = self.node_of[key], release > now
            self.blocked = bool(self.bound) and self.inside[w] >= self.bound and not (held and self.buffers)
            if self.blocked:
                return
            self.next += 1
            if held and self.buffers:
                self.buffer.setdefault(release, []).append(i)
            else:
                self.enter(i, now, release)
            return self.at(now, EMIT, None)
        if self.next < len(self.times):
            self.at(self.times[self.next], EMIT, None)
        return None

    def enter(self, i, now, ready):
        w = self.node_of[self.keys[i]]
        self.inside[w] += 1
        self.counted[w].add(self.keys[i])
        self.queue[w].append((i, ready, self.takes(i, w)))
        self.begin(w, now)

    def begin(self, w, now):
        if self.serving[w] is not None or not self.queue[w]:
            return
        i, ready, seconds = self.queue[w][0]
        # a flush is no service that a standstill stops: it waits in the queue, and runs when its turn comes
        stands = [] if i < 0 else [end for start, end in self.standstills[w] if start <= now < end]
        wait = max([ready, *stands])
        if wait > now:
            return self.at(wait, RETRY, w)
        self.queue[w].popleft()
        self.serving[w] = i
        self.at(now + seconds, COMPLETION, w)
        return None

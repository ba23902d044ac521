"""The compiled loops of `multilevel`: clusters to contract, k-way local search by gains [Fiduccia1982], cuts by flows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.random_kernels import uniform

OUTSIDE, WITHIN, SOURCE, SINK = 0, 1, 2, 3
FREE, DONE = -1, -2
"""Places of vertices that are not in the queue: they may come in, or have been moved in this round."""
NOISE = 1e-4
"""Ties are broken by chance: weights are in units of the median one."""
SLIGHT = 1e-9


class Graph(NamedTuple):
    """A graph: symmetric adjacency, the weight of each edge, and of each vertex what it takes of each limited thing."""

    indptr: IntArray
    neighbour: IntArray
    weight: FloatArray
    twin: IntArray
    """Where the same edge stands the other way round."""
    size: FloatArray
    """Shape (rows, vertices): loads, and resources, in units of an average block's."""


class Blocks(NamedTuple):
    """A partition of the vertices, and what it must keep."""

    of: IntArray
    """The block of each vertex."""
    held: FloatArray
    """Sums of each block, shape (rows, blocks)."""
    most: FloatArray
    least: FloatArray
    tie: FloatArray
    """Weight of each vertex's edges into each block, shape (vertices, blocks)."""


class Queue(NamedTuple):
    """Vertices by the gain of their best move: a heap that knows where each one stands; and the moves since it was empty."""

    key: FloatArray
    heap: IntArray
    place: IntArray
    size: IntArray
    """Vertices in the heap, shape (1,)."""
    moved: IntArray
    source: IntArray


class Network(NamedTuple):
    """Room for a flow between two blocks; outside `cut_anew` nothing flows and nothing is marked."""

    flow: FloatArray
    mark: IntArray
    level: IntArray
    arc: IntArray
    """The next edge of each vertex that has not been tried."""
    seen: IntArray
    """Vertices of the region, then those beyond it: sources and sinks."""
    path: IntArray
    edges: IntArray
    to: IntArray
    """Where either of two cuts puts the vertices of the region, shape (2, vertices)."""


@njit(**LEAF)
def cluster(order, most, kin, graph, into, mass, tie):
    """Put each vertex that is alone into the neighbouring cluster that it is tied to most, for its mass [Sanders2011].

    Only vertices of the same `kin` come together, and no cluster gets heavier than `most`. ``mass`` is that of clusters;
    those that somebody has joined have it negative until the end. `tie` is zeros, and stays so.
    """
    for v in order:
        if into[v] != v or mass[v] < 0:
            continue
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            if kin[graph.neighbour[j]] == kin[v]:
                tie[into[graph.neighbour[j]]] += graph.weight[j]
        best, to = 0.0, v
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            c = into[graph.neighbour[j]]
            joint = abs(mass[c]) + mass[v]
            if tie[c] > 0 and joint <= most and tie[c] * tie[c] > best * abs(mass[c]):
                best, to = tie[c] * tie[c] / abs(mass[c]), c
            tie[c] = 0.0
        if to != v:
            into[v] = to
            mass[to] = -abs(mass[to]) - mass[v]


@njit(**LEAF)
def fill(graph, blocks):
    """Sum up what blocks hold, and the ties of all vertices; returns the weight between blocks, counted both ways."""
    of, cut = blocks.of, 0.0
    blocks.held[:] = 0.0
    blocks.tie[:] = 0.0
    for v in range(of.size):
        for r in range(graph.size.shape[0]):
            blocks.held[r, of[v]] += graph.size[r, v]
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            other = of[graph.neighbour[j]]
            blocks.tie[v, other] += graph.weight[j]
            cut += graph.weight[j] if other != of[v] else 0.0
    return cut


@njit(**LEAF)
def excess(b, v, sign, graph, blocks):
    """By how much block b breaks its limits with v (sign = 1), without it (-1), or as it is (0)."""
    broken = 0.0
    for r in range(graph.size.shape[0]):
        held = blocks.held[r, b] + sign * graph.size[r, v]
        broken += max(0.0, held - blocks.most[r, b], blocks.least[r, b] - held)
    return broken


@njit(**LEAF)
def best_move(v, graph, blocks):
    """The block to which v goes best without breaking more than is broken, and what that gains; (-1, -inf) if none.

    Where its own block breaks limits the one that holds least is looked at too, a neighbour or not.
    """
    a, to, gain = blocks.of[v], -1, -np.inf
    before, without = excess(a, v, 0, graph, blocks), excess(a, v, -1, graph, blocks)
    least = -1
    if before > SLIGHT:
        least = int(np.argmin(blocks.held[0]))
    for b in range(blocks.tie.shape[1]):
        won = blocks.tie[v, b] - blocks.tie[v, a]
        if b == a or won <= gain or (blocks.tie[v, b] <= 0 and b != least):
            continue
        if without + excess(b, v, 1, graph, blocks) <= before + excess(b, v, 0, graph, blocks) + SLIGHT:
            to, gain = b, won
    return to, gain


@njit(**LEAF)
def sift(at, queue):
    """Bring the heap's entry to where it belongs."""
    heap, key, place = queue.heap, queue.key, queue.place
    v = heap[at]
    while at > 0 and key[heap[(at - 1) // 2]] < key[v]:
        heap[at] = heap[(at - 1) // 2]
        place[heap[at]] = at
        at = (at - 1) // 2
    while 2 * at + 1 < queue.size[0]:
        child = 2 * at + 1
        if child + 1 < queue.size[0] and key[heap[child + 1]] > key[heap[child]]:
            child += 1
        if key[heap[child]] <= key[v]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at], place[v] = v, at


@njit(**LEAF)
def enqueue(v, gain, queue):
    """Give v a key, and a place in the heap."""
    queue.key[v] = gain
    if queue.place[v] < 0:
        queue.place[v] = queue.size[0]
        queue.heap[queue.size[0]] = v
        queue.size[0] += 1
    sift(queue.place[v], queue)


@njit(**LEAF)
def dequeue(queue):
    """Take the vertex with the largest key out."""
    v, queue.size[0] = queue.heap[0], queue.size[0] - 1
    last = queue.heap[queue.size[0]]
    if last != v:
        queue.heap[0], queue.place[last] = last, 0
        sift(0, queue)
    queue.place[v] = FREE
    return v


@njit(**LEAF)
def move(v, to, graph, blocks):
    """Move v, and tell nobody."""
    for r in range(graph.size.shape[0]):
        blocks.held[r, blocks.of[v]] -= graph.size[r, v]
        blocks.held[r, to] += graph.size[r, v]
    blocks.of[v] = to


@njit(**LEAF)
def shift(v, to, graph, blocks):
    """Move v, and tell its neighbours."""
    for j in range(graph.indptr[v], graph.indptr[v + 1]):
        blocks.tie[graph.neighbour[j], blocks.of[v]] -= graph.weight[j]
        blocks.tie[graph.neighbour[j], to] += graph.weight[j]
    move(v, to, graph, blocks)


@njit(**LEAF)
def refine(rng, order, seeds, patience, graph, blocks, queue):
    """One round of local searches, each from the next so many seeds of `order`; returns weight gained and steps taken.

    A search moves the vertex of the largest gain, each at most once a round, and then looks at its neighbours; after
    `patience` moves without a new best it goes back to its best: that which breaks least, then that which cuts least.
    """
    gained, steps, at = 0.0, 0, 0
    queue.place[:] = FREE
    while at < order.size:
        queue.size[0], taken = 0, 0
        while at < order.size and taken < seeds:
            v = order[at]
            at += 1
            if queue.place[v] == FREE:
                to, gain = best_move(v, graph, blocks)
                if to >= 0:
                    enqueue(v, gain + NOISE * uniform(rng), queue)
                    taken += 1
        value, broken, best, least, count, kept = 0.0, 0.0, 0.0, 0.0, 0, 0
        while queue.size[0] > 0 and count - kept < patience:
            v = dequeue(queue)
            to, gain = best_move(v, graph, blocks)
            if to < 0:
                continue
            if queue.size[0] > 0 and gain + NOISE < queue.key[queue.heap[0]]:
                enqueue(v, gain + NOISE * uniform(rng), queue)
                continue
            a = blocks.of[v]
            broken -= excess(a, v, 0, graph, blocks) + excess(to, v, 0, graph, blocks)
            shift(v, to, graph, blocks)
            broken += excess(a, v, 0, graph, blocks) + excess(to, v, 0, graph, blocks)
            value += gain
            queue.moved[count], queue.source[count] = v, a
            queue.place[v] = DONE
            count += 1
            steps += graph.indptr[v + 1] - graph.indptr[v]
            if broken < least - SLIGHT or (broken <= least + SLIGHT and value > best + SLIGHT):
                best, least, kept = value, broken, count
            for j in range(graph.indptr[v], graph.indptr[v + 1]):
                u = graph.neighbour[j]
                if queue.place[u] != DONE:
                    to, gain = best_move(u, graph, blocks)
                    if to >= 0:
                        enqueue(u, gain + NOISE * uniform(rng), queue)
        for s in range(count - 1, kept - 1, -1):
            shift(queue.moved[s], queue.source[s], graph, blocks)
        for s in range(queue.size[0]):
            queue.place[queue.heap[s]] = FREE
        gained += best
    return gained, steps


@njit(**LEAF)
def region(a, b, reach, boundary, graph, blocks, network):
    """Mark vertices of a and of b, from their common boundary on, that hold at most ``reach[:, 0]`` and ``reach[:, 1]``.

    The vertices next beyond are sources in a and sinks in b. Returns how many are within, and how many in all: within
    come first.
    """
    of, mark, seen, size = blocks.of, network.mark, network.seen, graph.size
    waiting, count = 0, 0
    for v in boundary:
        if (of[v] == a and blocks.tie[v, b] > 0) or (of[v] == b and blocks.tie[v, a] > 0):
            network.path[waiting], mark[v] = v, WITHIN
            waiting += 1
    at = 0
    while at < waiting:
        v = network.path[at]
        at += 1
        side = int(of[v] == b)
        fits = True
        for r in range(size.shape[0]):
            fits = fits and size[r, v] <= reach[r, side]
        if not fits:
            mark[v] = SOURCE + side
            continue
        seen[count] = v
        count += 1
        for r in range(size.shape[0]):
            reach[r, side] -= size[r, v]
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            u = graph.neighbour[j]
            if mark[u] == OUTSIDE and (of[u] == a or of[u] == b):
                network.path[waiting], mark[u] = u, WITHIN
                waiting += 1
    inside = count
    for at in range(waiting):
        if mark[network.path[at]] != WITHIN:
            seen[count] = network.path[at]
            count += 1
    return inside, count


@njit(**LEAF)
def spread(start, sign, inside, count, graph, network):
    """Levels, by steps from all vertices of one mark along edges that can carry more; how many vertices were reached.

    Downstream from sources (sign = 1) or upstream from sinks (-1).
    """
    level, seen, front, at = network.level, network.seen, 0, 0
    for s in range(count):
        level[seen[s]] = -1
    for s in range(inside, count):
        if network.mark[seen[s]] == start:
            network.path[front], level[seen[s]] = seen[s], 0
            front += 1
    while at < front:
        v = network.path[at]
        at += 1
        if level[v] > 0 and network.mark[v] != WITHIN:
            continue  # nothing goes on from there
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            u = graph.neighbour[j]
            if network.mark[u] == OUTSIDE or level[u] >= 0 or (level[v] == 0 and network.mark[u] != WITHIN):
                continue
            if graph.weight[j] - sign * network.flow[j] > SLIGHT:
                network.path[front], level[u] = u, level[v] + 1
                front += 1
    return front


@njit(**LEAF)
def augment(source, graph, network):
    """Send along edges from level to level what they can carry from a source to sinks."""
    path, edges, arc, level, flow = network.path, network.edges, network.arc, network.level, network.flow
    path[0], depth = source, 0
    while depth >= 0:
        v = path[depth]
        if network.mark[v] == SINK:
            least, first = np.inf, 0
            for s in range(depth):
                if graph.weight[edges[s]] - flow[edges[s]] < least:
                    least, first = graph.weight[edges[s]] - flow[edges[s]], s
            for s in range(depth):
                flow[edges[s]] += least
                flow[graph.twin[edges[s]]] -= least
            depth = first
            continue
        j = arc[v]
        if j == graph.indptr[v + 1]:
            level[v] = -1
            depth -= 1
            continue
        u = graph.neighbour[j]
        good = network.mark[u] != OUTSIDE and level[u] == level[v] + 1 and graph.weight[j] - flow[j] > SLIGHT
        if good and (network.mark[u] == WITHIN or (network.mark[u] == SINK and level[v] > 0)):
            edges[depth], path[depth + 1] = j, u
            depth += 1
        else:
            arc[v] += 1


@njit(**LEAF)
def proposed(turn, a, b, inside, graph, blocks, network):
    """Where the levels put each vertex of the region; by how much that breaks limits, and how full the fuller block is."""
    for s in range(inside):
        v = network.seen[s]
        network.to[turn, s] = a if (network.level[v] >= 0) == (turn == 0) else b
        network.arc[v] = blocks.of[v]
        move(v, network.to[turn, s], graph, blocks)
    full = 0.0
    for r in range(graph.size.shape[0]):
        full = max(full, blocks.held[r, a] / blocks.most[r, a], blocks.held[r, b] / blocks.most[r, b])
    broken = excess(a, 0, 0, graph, blocks) + excess(b, 0, 0, graph, blocks)
    for s in range(inside):
        move(network.seen[s], network.arc[network.seen[s]], graph, blocks)
    return broken, full


@njit(**LEAF)
def cut_anew(a, b, reach, boundary, graph, blocks, network):
    """Cut two blocks apart by a minimum cut [Dinitz1970] of a region around their boundary, where that keeps the limits.

    Of the cuts nearest to a and nearest to b the one is taken that breaks less. Returns weight gained, steps taken, and how many
    vertices were looked at: `network.seen` begins with them.
    """
    inside, count = region(a, b, reach, boundary, graph, blocks, network)
    seen, more, steps = network.seen, True, 0
    while more:
        steps += spread(SOURCE, 1.0, inside, count, graph, network)
        more = False
        for s in range(count):
            more = more or (network.mark[seen[s]] == SINK and network.level[seen[s]] > 0)
            network.arc[seen[s]] = graph.indptr[seen[s]]
        for s in range(inside, count if more else inside):
            if network.mark[seen[s]] == SOURCE:
                augment(seen[s], graph, network)
    now, gained = excess(a, 0, 0, graph, blocks) + excess(b, 0, 0, graph, blocks), 0.0
    by_sources, full = proposed(0, a, b, inside, graph, blocks, network)
    spread(SINK, -1.0, inside, count, graph, network)
    by_sinks, fuller = proposed(1, a, b, inside, graph, blocks, network)
    side = int(by_sinks < by_sources - SLIGHT or (by_sinks <= by_sources + SLIGHT and fuller < full))
    if min(by_sources, by_sinks) <= now + SLIGHT:
        for s in range(inside):
            v, to = seen[s], network.to[side, s]
            if to != blocks.of[v]:
                gained += blocks.tie[v, to] - blocks.tie[v, blocks.of[v]]
                shift(v, to, graph, blocks)
    for s in range(count):
        network.mark[seen[s]] = OUTSIDE
        for j in range(graph.indptr[seen[s]], graph.indptr[seen[s] + 1]):
            network.flow[j] = 0.0
    return gained, steps, count

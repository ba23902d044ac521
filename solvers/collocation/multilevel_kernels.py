"""The compiled loops of `multilevel`: clusters to contract, and k-way local search by gains [Fiduccia1982]."""

from __future__ import annotations

import numpy as np

from keyshift.models.base.compiling import LEAF, njit, uniform

FREE, DONE = -1, -2
"""Places of vertices that are not in the queue: they may come in, or have been moved in this round."""
NOISE = 1e-4
"""Ties are broken by chance: weights are in units of the median one."""
SLIGHT = 1e-9


@njit(**LEAF)
def cluster(order, most, alike, graph, into, mass, tie):
    """Put each vertex that is alone into the neighbouring cluster that it is tied to most, for its mass [Sanders2011].

    Only vertices of the same `alike` come together, and no cluster gets heavier than `most`. ``mass`` is that of clusters;
    those that another vertex has joined have it negative until the end. `tie` is zeros, and stays so.
    """
    for v in order:
        if into[v] != v or mass[v] < 0:
            continue
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            if alike[graph.neighbour[j]] == alike[v]:
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
def contract(into, first, after, place, graph, coarse):
    """Fill the graph of clusters, which has no loops and its sizes 0 before; returns how many edges it has, both ways.

    `first` and `place` have -1 for each cluster; `after` is room for a number for each vertex.
    """
    for v in range(into.size - 1, -1, -1):
        after[v], first[into[v]] = first[into[v]], v
    edges = 0
    for c in range(first.size):
        begin, v = edges, first[c]
        while v >= 0:
            for r in range(graph.size.shape[0]):
                coarse.size[r, c] += graph.size[r, v]
            for j in range(graph.indptr[v], graph.indptr[v + 1]):
                to = into[graph.neighbour[j]]
                if to == c:
                    continue
                if place[to] < begin:
                    place[to], coarse.neighbour[edges], coarse.weight[edges] = edges, to, 0.0
                    edges += 1
                coarse.weight[place[to]] += graph.weight[j]
            v = after[v]
        coarse.indptr[c + 1] = edges
    return edges


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
def excess(b, r, more, blocks):
    """By how much block b breaks its limits on r with so much more."""
    held = blocks.held[r, b] + more
    return max(0.0, held - blocks.most[r, b], blocks.least[r, b] - held)


@njit(**LEAF)
def strain(b, v, sign, graph, blocks):
    """By how much block b breaks limits, and how much more it would with v (sign = 1), or without it (-1)."""
    broken, more = 0.0, 0.0
    for r in range(graph.size.shape[0]):
        now = excess(b, r, 0.0, blocks)
        broken += now
        more += excess(b, r, sign * graph.size[r, v], blocks) - now
    return broken, more


@njit(**LEAF)
def best_move(v, graph, blocks):
    """The block to which v goes best without breaking more than is broken, what that gains, and how much more it breaks.

    (-1, -inf) if none. Where its own block breaks limits the one that holds least is looked at too, a neighbour or not.
    """
    a, to, gain, change, least = blocks.of[v], -1, -np.inf, 0.0, -1
    broken, without = strain(a, v, -1.0, graph, blocks)
    if broken > SLIGHT:
        least = int(np.argmin(blocks.held[0]))
    for b in range(blocks.tie.shape[1]):
        won = blocks.tie[v, b] - blocks.tie[v, a]
        if b == a or won <= gain or (blocks.tie[v, b] <= 0 and b != least):
            continue
        more = without + strain(b, v, 1.0, graph, blocks)[1]
        if more <= SLIGHT:
            to, gain, change = b, won, more
    return to, gain, change


@njit(**LEAF)
def sift(at, queue):
    """Bring the heap's entry to where it belongs."""
    heap, key, place = queue.heap, queue.key, queue.place
    v = heap[at]
    while at > 0 and key[heap[(at - 1) >> 1]] < key[v]:
        heap[at] = heap[(at - 1) >> 1]
        place[heap[at]] = at
        at = (at - 1) >> 1
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
        sift(queue.place[last], queue)  # not of 0, for which Numba would compile another one
    queue.place[v] = FREE
    return v


@njit(**LEAF)
def move(v, to, graph, blocks):
    """Move v without updating gains."""
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
                to, gain, _ = best_move(v, graph, blocks)
                if to >= 0:
                    enqueue(v, gain + NOISE * uniform(rng), queue)
                    taken += 1
        value, broken, best, least, count, kept = 0.0, 0.0, 0.0, 0.0, 0, 0
        while queue.size[0] > 0 and count - kept < patience:
            v = dequeue(queue)
            to, gain, change = best_move(v, graph, blocks)
            if to < 0:
                continue
            if queue.size[0] > 0 and gain + NOISE < queue.key[queue.heap[0]]:
                enqueue(v, gain + NOISE * uniform(rng), queue)
                continue
            queue.moved[count], queue.source[count] = v, blocks.of[v]
            shift(v, to, graph, blocks)
            value, broken = value + gain, broken + change
            queue.place[v] = DONE
            count += 1
            steps += graph.indptr[v + 1] - graph.indptr[v]
            if broken < least - SLIGHT or (broken <= least + SLIGHT and value > best + SLIGHT):
                best, least, kept = value, broken, count
            for j in range(graph.indptr[v], graph.indptr[v + 1]):
                u = graph.neighbour[j]
                if queue.place[u] != DONE:
                    to, gain, _ = best_move(u, graph, blocks)
                    if to >= 0:
                        enqueue(u, gain + NOISE * uniform(rng), queue)
        for s in range(count - 1, kept - 1, -1):
            shift(queue.moved[s], queue.source[s], graph, blocks)
        for s in range(queue.size[0]):
            queue.place[queue.heap[s]] = FREE
        gained += best
    return gained, steps

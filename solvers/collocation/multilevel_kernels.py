"""The compiled loops of `multilevel`: clusters to contract, k-way local search by gains [Fiduccia1982], cuts by flows."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.solvers.kernels import uniform

OUTSIDE, WAITING, NEVER = -1, -2, -2
FREE, DONE = -1, -2
"""Places of vertices that are not in the queue: they may come in, or have been moved in this round."""
NOISE = 1e-4
"""Ties are broken by chance: weights are in units of the median one."""
SLIGHT = 1e-9


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


@njit(**LEAF)
def region(a, b, widest, graph, blocks, network):
    """Number vertices of a and of b, from their common boundary on: at most `widest`, and of each what `reach` allows.

    Returns how many they are. What is next beyond them stays in its block.
    """
    of, rank, reach, size, waiting = blocks.of, network.rank, network.reach, graph.size, 0
    for s in range(network.known[0]):
        v = network.boundary[s]
        if (of[v] == a and blocks.tie[v, b] > 0) or (of[v] == b and blocks.tie[v, a] > 0):
            network.path[waiting], rank[v] = v, WAITING
            waiting += 1
    at, count = 0, 0
    while at < waiting and count < widest:
        v = network.path[at]
        at += 1
        side, fits = int(of[v] == b), True
        for r in range(size.shape[0]):
            fits = fits and size[r, v] <= reach[r, side]
        if not fits:
            continue
        network.seen[count], rank[v] = v, count
        count += 1
        for r in range(size.shape[0]):
            reach[r, side] -= size[r, v]
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            u = graph.neighbour[j]
            if rank[u] == OUTSIDE and (of[u] == a or of[u] == b):
                network.path[waiting], rank[u] = u, WAITING
                waiting += 1
    for s in range(waiting):
        if rank[network.path[s]] == WAITING:
            rank[network.path[s]] = OUTSIDE
    return count


@njit(**LEAF)
def connect(a, b, count, graph, blocks, network):
    """The network of the region, a's other vertices being the source and b's the sink.

    Returns what flows from one to the other over a single vertex, which is sent at once, and the weight cut now.
    """
    of, rank, first, at, flow, cut = blocks.of, network.rank, network.first, 0, 0.0, 0.0
    for s in range(count):
        v, source, sink, inner = network.seen[s], 0.0, 0.0, 0.0
        first[s], network.arc[s] = at, at
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            u = graph.neighbour[j]
            if rank[u] >= 0:
                at += 1
                inner += graph.weight[j] if of[u] != of[v] else 0.0
            elif of[u] == a:
                source += graph.weight[j]
            elif of[u] == b:
                sink += graph.weight[j]
        network.supply[s] = source - sink
        flow += min(source, sink)
        cut += inner / 2 + (sink if of[v] == a else source)
    first[count] = at
    for s in range(count):
        v = network.seen[s]
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            t = rank[graph.neighbour[j]]
            if 0 <= t < s:
                e, f = network.arc[s], network.arc[t]
                network.head[e], network.twin[e], network.left[e] = t, f, graph.weight[j]
                network.head[f], network.twin[f], network.left[f] = s, e, graph.weight[j]
                network.arc[s], network.arc[t] = e + 1, f + 1
    return flow, cut


@njit(**LEAF)
def spread(sign, level, count, network):
    """Levels: how many edges that can carry more are from sources to each vertex (sign = 1), or from it to sinks (-1).

    Returns whether one of them has reached the other.
    """
    path, left, front, at, met = network.path, network.left, 0, 0, False
    for s in range(count):
        level[s] = NEVER
        if sign * network.supply[s] > SLIGHT:
            path[front], level[s] = s, 0
            front += 1
    while at < front:
        v = path[at]
        at += 1
        for e in range(network.first[v], network.first[v + 1]):
            u = network.head[e]
            if level[u] == NEVER and (left[e] if sign > 0 else left[network.twin[e]]) > SLIGHT:
                path[front], level[u] = u, level[v] + 1
                front += 1
                met = met or sign * network.supply[u] < -SLIGHT
    return met


@njit(**LEAF)
def augment(source, network):
    """Send along edges from level to level what they can carry from a source to sinks; returns how much that is."""
    path, edges, arc, level, left = network.path, network.edges, network.arc, network.down, network.left
    supply, sent, depth = network.supply, 0.0, 0
    path[0] = source
    while depth >= 0 and supply[source] > SLIGHT:
        v = path[depth]
        if supply[v] < -SLIGHT:
            least, upto = min(supply[source], -supply[v]), depth
            for s in range(depth):
                if left[edges[s]] < least:
                    least, upto = left[edges[s]], s
            for s in range(depth):
                left[edges[s]] -= least
                left[network.twin[edges[s]]] += least
            supply[source] -= least
            supply[v] += least
            sent, depth = sent + least, upto
            continue
        e, last = arc[v], network.first[v + 1]
        while e < last and (level[network.head[e]] != level[v] - 1 or left[e] <= SLIGHT):
            e += 1
        arc[v] = e
        if e == last:
            level[v] = NEVER
            depth -= 1
        else:
            edges[depth], path[depth + 1] = e, network.head[e]
            depth += 1
    return sent


@njit(**LEAF)
def maximum(flow, most, count, network):
    """A maximum flow [Dinitz1970], or one that is above `most`; returns its value and steps taken."""
    steps = 0
    while flow <= most + SLIGHT and spread(-1.0, network.down, count, network):
        for s in range(count):
            network.arc[s] = network.first[s]
        for s in range(count):
            if network.supply[s] > SLIGHT and network.down[s] > 0:
                flow += augment(s, network)
        steps += network.first[count]
    return flow, steps + network.first[count]


@njit(**LEAF)
def in_first(s, by_sinks, network):
    """Whether a cut puts a vertex of the region into the first block: that nearest to the sources, or that nearest to sinks."""
    return network.down[s] == NEVER if by_sinks else network.up[s] != NEVER


@njit(**LEAF)
def proposed(by_sinks, a, b, count, graph, blocks, network):
    """By how much more a cut would break limits, and how much each of the two blocks would hold above its limit."""
    broken, first, second = 0.0, -np.inf, -np.inf
    for r in range(graph.size.shape[0]):
        more = 0.0
        for s in range(count):
            v = network.seen[s]
            if in_first(s, by_sinks, network) != (blocks.of[v] == a):
                more += graph.size[r, v] if blocks.of[v] == b else -graph.size[r, v]
        for block, change in ((a, more), (b, -more)):
            broken += excess(block, r, change, blocks) - excess(block, r, 0.0, blocks)
        first = max(first, blocks.held[r, a] + more - blocks.most[r, a])
        second = max(second, blocks.held[r, b] - more - blocks.most[r, b])
    return broken, first, second


@njit(**LEAF)
def pierce(by_sinks, own, count, blocks, network):
    """Make all of one side of a cut sources, or sinks, and one vertex next to it, too [Hamann2018]; returns what flows at once.

    Rather one that the other side does not reach, so that no more flows; then of that block, and far from the boundary.
    -1 where there is none.
    """
    best, found, sign = -1, -1, -1.0 if by_sinks else 1.0
    for s in range(count):
        if in_first(s, by_sinks, network) == by_sinks:
            continue
        network.supply[s] = sign * np.inf
        for e in range(network.first[s], network.first[s + 1]):
            u = network.head[e]
            if in_first(u, by_sinks, network) != by_sinks or network.supply[u] == -sign * np.inf:
                continue
            free = in_first(u, not by_sinks, network) != by_sinks
            value = 2 * count * int(free) + (count + u if blocks.of[network.seen[u]] == own else count - 1 - u)
            if value > best:
                best, found = value, u
    if found < 0:
        return -1.0
    at_once = max(0.0, -sign * network.supply[found])
    network.supply[found] = sign * np.inf
    return at_once


@njit(**LEAF)
def regroup(by_sinks, a, b, count, graph, blocks, network):
    """Move the vertices of the region to where a cut puts them; returns the weight gained."""
    gained = 0.0
    for s in range(count):
        v, to = network.seen[s], a if in_first(s, by_sinks, network) else b
        if to == blocks.of[v]:
            continue
        gained += blocks.tie[v, to] - blocks.tie[v, blocks.of[v]]
        shift(v, to, graph, blocks)
        for j in range(graph.indptr[v], graph.indptr[v + 1]):
            u = graph.neighbour[j]
            if not network.listed[u]:
                network.listed[u], network.boundary[network.known[0]] = True, u
                network.known[0] += 1
    return gained


@njit(**LEAF)
def cut_anew(a, b, widest, graph, blocks, network):
    """Cut two blocks apart by a minimum cut of a region around their boundary, or by the least one found that keeps the limits.

    Of the cuts nearest to a and nearest to b the one is taken that breaks less. Where neither keeps the limits the lighter side
    takes one more vertex, as long as less than now is cut [Hamann2018]. Returns weight gained and steps taken.
    """
    count = region(a, b, widest, graph, blocks, network)
    flow, cut = connect(a, b, count, graph, blocks, network)
    gained, steps = 0.0, 0
    while count > 0:
        flow, more = maximum(flow, cut, count, network)
        steps += more
        if flow > cut + SLIGHT:
            break
        spread(1.0, network.up, count, network)
        least, fullest, side, lightest, light = np.inf, np.inf, 0, np.inf, 0
        for turn in range(2):
            broken, first, second = proposed(turn == 1, a, b, count, graph, blocks, network)
            if broken < least - SLIGHT or (broken <= least + SLIGHT and max(first, second) < fullest):
                least, fullest, side = broken, max(first, second), turn
            own = first if turn == 0 else second
            if own < lightest:
                lightest, light = own, turn
        if least <= SLIGHT:
            gained = regroup(side == 1, a, b, count, graph, blocks, network)
            break
        if flow >= cut - SLIGHT or lightest > SLIGHT:
            break
        at_once = pierce(light == 1, b if light == 1 else a, count, blocks, network)
        if at_once < 0:
            break
        flow += at_once
    for s in range(count):
        network.rank[network.seen[s]] = OUTSIDE
    return gained, steps


@njit(**LEAF)
def cut_pairs(pairs, widest, further, spare, graph, blocks, network):
    """Cut pairs of blocks apart anew, one after another; returns weight gained and steps taken.

    What a region may hold of either block is what the other one has room for, and `further` times what all have to spare.
    """
    gained, steps = 0.0, 0
    for a, b in pairs:
        for r in range(spare.shape[0]):
            network.reach[r, 0] = max(blocks.most[r, b] - blocks.held[r, b], 0.0) + further * spare[r, b]
            network.reach[r, 1] = max(blocks.most[r, a] - blocks.held[r, a], 0.0) + further * spare[r, a]
        won, taken = cut_anew(a, b, widest, graph, blocks, network)
        gained, steps = gained + won, steps + taken
    return gained, steps

"""The moves of the search: one function each.

A move writes shifts - key group ``who[s]`` to node ``where[s]`` - and returns how many: 0 when the draw leads
nowhere. The first six suit any placement; the others are guided by the deviations of nodes: where few key groups may move,
these have to be chosen well.
"""

from __future__ import annotations

from keyshift.models.base.compiling import LEAF, njit, whole_below
from keyshift.models.base.compiling import uniform as draw
from keyshift.solvers.rows import KEPT, giving_way, one_to_repair

MOVES = (
    "join", "cluster", "anywhere", "swap", "go_home", "exchange_home", "insert", "swap_targets", "replace", "retarget",
    "replace_source", "reinsert", "reroute_chain", "shorten_chain", "lengthen_chain",
)  # fmt: skip
"""In the order of their cumulative shares."""

HIGHEST, LOWEST = 1.0, -1.0


@njit(**LEAF)
def send(k, node, count, step):
    """Note one shift more."""
    step.who[count], step.where[count] = k, node
    return count + 1


# Any placement -------------------------------------------------------------------------------------------------------


@njit(**LEAF)
def drawn_pair(rng, graph):
    """A pair of key groups that talk: any, or by weight."""
    if draw(rng) < 0.6:
        return whole_below(rng, graph.first.size)
    return graph.by_weight[whole_below(rng, graph.by_weight.size)]


@njit(**LEAF)
def join(rng, step, graph, place):
    """One end of a pair goes to the node of the other; now and then a key group from there comes the other way."""
    if graph.first.size == 0:
        return 0
    e = drawn_pair(rng, graph)
    k, other = (graph.first[e], graph.second[e]) if draw(rng) < 0.5 else (graph.second[e], graph.first[e])
    count = send(k, place[other], 0, step)
    if draw(rng) < 0.3:
        m = whole_below(rng, place.size)
        if m != k and m != other and place[m] == place[other]:
            count = send(m, place[k], count, step)
    return count


@njit(**LEAF)
def cluster(rng, step, graph, place, on_node):
    """A key group, or some grown from a pair, goes to any node, or to that where most of their traffic is."""
    nodes, u = on_node.shape[2], draw(rng)
    target, count = whole_below(rng, nodes), 1
    step.who[0] = whole_below(rng, place.size)
    if u < 0.3 and graph.first.size > 0:
        e = drawn_pair(rng, graph)
        step.who[0], step.who[1], count = graph.first[e], graph.second[e], 2
        while count < step.who.size // 2 and draw(rng) < 0.5:
            count = with_neighbour(rng, count, step, graph)
    if u < 0.7 and graph.first.size > 0:
        most = -1.0
        for i in range(nodes):
            here = 0.0
            for s in range(count):
                for t in range(on_node.shape[0]):
                    here += on_node[t, step.who[s], i]
                if place[step.who[s]] == i:
                    here = -1.0
                    break
            if here > most:
                target, most = i, here
    for s in range(count):
        step.where[s] = target
    return count


@njit(**LEAF)
def with_neighbour(rng, count, step, graph):
    """One of a cluster brings a neighbour along, of two the one that it talks to more; how many they are then."""
    k = step.who[whole_below(rng, count)]
    low, degree = graph.indptr[k], graph.indptr[k + 1] - graph.indptr[k]
    j, other = low + whole_below(rng, degree), low + whole_below(rng, degree)
    if graph.weight[0, other] > graph.weight[0, j]:
        j = other
    for s in range(count):
        if step.who[s] == graph.neighbour[j]:
            return count
    step.who[count] = graph.neighbour[j]
    return count + 1


@njit(**LEAF)
def anywhere(rng, step, at):
    """A key group goes to any node."""
    return send(whole_below(rng, at.place.size), whole_below(rng, at.lead.size), 0, step)


@njit(**LEAF)
def swap(rng, step, place):
    """Two key groups exchange their nodes."""
    k, m = whole_below(rng, place.size), whole_below(rng, place.size)
    return send(m, place[k], send(k, place[m], 0, step), step)


@njit(**LEAF)
def a_mover(rng, at):
    """A key group that has moved; -1 without one."""
    return at.movers[whole_below(rng, at.moved[0])] if at.moved[0] > 0 else -1


@njit(**LEAF)
def go_home(rng, step, current, at):
    """A key group that has moved goes back."""
    k = a_mover(rng, at)
    return 0 if k < 0 else send(k, current[k], 0, step)


@njit(**LEAF)
def exchange_home(rng, step, current, at):
    """A key group goes home while any other does, or goes where the first one was."""
    k, q = a_mover(rng, at), whole_below(rng, at.place.size)
    if k < 0 or k == q:
        return 0
    home = current[q]
    count = send(k, current[k], 0, step)
    return send(q, home if at.place[q] != home else at.place[k], count, step)


# Guided by deviations ------------------------------------------------------------------------------------------------


@njit(**LEAF)
def surplus(i, guide, at):
    """The load that a node can give: its deviation, or all that it carries where nothing may come to it."""
    return at.lead[i] if guide.entered[i] else at.lead[i] + guide.typical


@njit(**LEAF)
def extreme(rng, rounds, sign, guide, at):
    """The node of highest (sign = 1) or lowest (sign = -1) surplus among a few random ones, now and then of all.

    Among many nodes a few random ones hardly ever include the extreme one: where few key groups may move, all are looked
    through so often that it takes about 32 looks a draw.
    """
    n = at.lead.size
    best = whole_below(rng, n)
    all_of_them = n > 256 and guide.max_moves < 2 * n and draw(rng) * n < 32.0
    for x in range(n if all_of_them else rounds):
        i = x if all_of_them else whole_below(rng, n)
        if sign * surplus(i, guide, at) > sign * surplus(best, guide, at):
            best = i
    return best


@njit(**LEAF)
def near(rng, i, wanted, guide, at):
    """A key group that stays on node i and may leave it, of about the wanted load; -1 when the draw fails."""
    begin, end = guide.starts[i], guide.starts[i + 1]
    if begin == end:
        return -1
    low, high = begin, end
    if draw(rng) < 0.5:
        x = low + whole_below(rng, high - low)
    else:
        while low < high:
            middle = (low + high) // 2
            if guide.size[guide.by_load[middle]] < wanted:
                low = middle + 1
            else:
                high = middle
        x = low + whole_below(rng, 4) - 2
    k = guide.by_load[min(max(x, begin), end - 1)]
    return -1 if at.slot[k] >= 0 else k


@njit(**LEAF)
def uneven_pair(rng, guide, at):
    """A node to give and one to take, and the load whose move would make them even."""
    weight = guide.weight
    g = extreme(rng, whole_below(rng, 4), HIGHEST, guide, at)
    t = extreme(rng, whole_below(rng, 4), LOWEST, guide, at)
    if not guide.entered[g]:
        return g, t, -at.lead[t] / weight[t]
    return g, t, (at.lead[g] - at.lead[t]) / (weight[g] + weight[t])


@njit(**LEAF)
def an_arrival(rng, i, at):
    """One of those that have moved to node i, -1 when there is none."""
    k = at.arrivals[i]
    if k < 0:
        return k
    for _ in range(whole_below(rng, 4)):
        k = at.links[0, k] if at.links[0, k] >= 0 else at.arrivals[i]
    return k


@njit(**LEAF)
def insert(rng, step, guide, at):
    """One key group more moves, from an overloaded node to an underloaded one, or two change places."""
    g, t, wanted = uneven_pair(rng, guide, at)
    spare = guide.max_moves - at.moved[0]
    if spare <= 0 or g == t:
        return 0
    k = near(rng, g, wanted, guide, at)
    if k < 0:
        return 0
    count = send(k, t, 0, step)
    single = guide.single and at.lead.size > 2
    if single or spare < 2 or draw(rng) < 0.5:
        return count
    other = near(rng, t, guide.size[k] - wanted, guide, at)
    return count if other < 0 else send(other, g, count, step)


@njit(**LEAF)
def swap_targets(rng, k, step, guide, at):
    """Two that have moved exchange their nodes, unless one would go home."""
    other = a_mover(rng, at)
    if at.place[other] == guide.current[k] or at.place[k] == guide.current[other]:
        return 0
    return send(other, at.place[k], send(k, at.place[other], 0, step), step)


@njit(**LEAF)
def instead(k, other, target, step, guide):
    """A key group goes home, and another goes to a node instead."""
    if other < 0:
        return 0
    return send(other, target, send(k, guide.current[k], 0, step), step)


@njit(**LEAF)
def replace(rng, k, step, guide, at):
    """Another key group of the same node moves instead."""
    i, t = guide.current[k], at.place[k]
    wanted = guide.size[k] + (at.lead[i] - at.lead[t]) / (guide.weight[i] + guide.weight[t])
    return instead(k, near(rng, i, wanted, guide, at), t, step, guide)


@njit(**LEAF)
def retarget(rng, k, step, guide, at):
    """A key group that has moved goes to another node."""
    return send(k, extreme(rng, whole_below(rng, 3), LOWEST, guide, at), 0, step)


@njit(**LEAF)
def replace_source(rng, k, step, guide, at):
    """A key group of another node comes to the target instead."""
    t = at.place[k]
    g = extreme(rng, whole_below(rng, 3), HIGHEST, guide, at)
    wanted = guide.size[k] - at.lead[t] / guide.weight[t]
    return instead(k, near(rng, g, wanted, guide, at), t, step, guide)


@njit(**LEAF)
def reinsert(rng, k, step, guide, at):
    """A key group goes home, and one moves elsewhere."""
    g, t, wanted = uneven_pair(rng, guide, at)
    return instead(k, near(rng, g, wanted, guide, at), t, step, guide)


@njit(**LEAF)
def reroute_chain(rng, k, step, guide, at):
    """Of a chain - another came to the node that k left - another node becomes the middle."""
    t, arrived = at.place[k], an_arrival(rng, guide.current[k], at)
    if arrived < 0:
        return 0
    s = whole_below(rng, at.lead.size)
    wanted = guide.size[k] - at.lead[t] / guide.weight[t]
    if draw(rng) < 0.5:
        wanted = guide.size[arrived] + at.lead[s] / guide.weight[s]
    count = instead(k, near(rng, s, wanted, guide, at), t, step, guide)
    return 0 if count == 0 else send(arrived, s, count, step)


@njit(**LEAF)
def shorten_chain(rng, k, step, guide, at):
    """Of a chain the middle is taken out: the one that came goes where k went, and k goes home."""
    return instead(k, an_arrival(rng, guide.current[k], at), at.place[k], step, guide)


@njit(**LEAF)
def lengthen_chain(rng, k, step, guide, at):
    """A node is put between source and target: the key group goes there, and one of that node's goes on."""
    s = whole_below(rng, at.lead.size)
    if at.moved[0] >= guide.max_moves:
        return 0
    other = near(rng, s, guide.size[k] + at.lead[s] / guide.weight[s], guide, at)
    return 0 if other < 0 else send(other, at.place[k], send(k, s, 0, step), step)


# A draw ---------------------------------------------------------------------------------------------------------------


@njit(**LEAF)
def guided(rng, move, step, guide, at):
    """A move of one that has moved, by its place in `MOVES`; one more moves where none has."""
    k = a_mover(rng, at)
    if move == 6 or k < 0:
        return insert(rng, step, guide, at)
    if move == 7:
        return swap_targets(rng, k, step, guide, at)
    if move == 8:
        return replace(rng, k, step, guide, at)
    if move == 9:
        return retarget(rng, k, step, guide, at)
    if move == 10:
        return replace_source(rng, k, step, guide, at)
    if move == 11:
        return reinsert(rng, k, step, guide, at)
    if move == 12:
        return reroute_chain(rng, k, step, guide, at)
    if move == 13:
        return shorten_chain(rng, k, step, guide, at)
    return lengthen_chain(rng, k, step, guide, at)


@njit(**LEAF)
def drawn(rng, shares, step, program, at, on_node):
    """A move by its share."""
    u, move = draw(rng), 0
    while move < shares.size - 1 and u >= shares[move]:
        move += 1
    if move == 0:
        return join(rng, step, program.graph, at.place)
    if move == 1:
        return cluster(rng, step, program.graph, at.place, on_node)
    if move == 2:
        return anywhere(rng, step, at)
    if move == 3:
        return swap(rng, step, at.place)
    if move == 4:
        return go_home(rng, step, program.current, at)
    if move == 5:
        return exchange_home(rng, step, program.current, at)
    return guided(rng, move, step, program.guide, at)


@njit(**LEAF)
def repaired(rng, step, rows, held, broken_rows, place):
    """A move that makes a broken row less so."""
    k, node = one_to_repair(rng, held, broken_rows, place, rows)
    return 0 if k < 0 else send(k, node, 0, step)


@njit(**LEAF)
def with_way_given(rng, step, rows, held, place):
    """Where one key group fills a row beyond its most, another gives way; how many shifts then."""
    other, node = giving_way(rng, step.who[0], step.where[0], held, place, rows)
    return 1 if other < 0 or other == step.who[0] else send(other, node, 1, step)


@njit(**LEAF)
def lost_by_return(k, home, node, on_node):
    """The traffic that a key group no longer meets when it goes back."""
    lost = 0.0
    for t in range(on_node.shape[0]):
        lost += on_node[t, k, node] - on_node[t, k, home]
    return lost


@njit(**LEAF)
def with_room_made(rng, count, moved, step, program, at, on_node):
    """Where a step would move too many, others go back as well: of two, mostly the one that loses less by it."""
    current = program.current
    while moved > program.guide.max_moves:
        if count == step.who.size or at.moved[0] == 0:
            return 0
        k, other = a_mover(rng, at), a_mover(rng, at)
        if draw(rng) < 0.7:
            least = lost_by_return(k, current[k], at.place[k], on_node)
            if lost_by_return(other, current[other], at.place[other], on_node) < least:
                k = other
        for s in range(count):
            if step.who[s] == k:
                return 0
        if not program.stay[k]:
            return 0
        count, moved = send(k, current[k], count, step), moved - 1
    return count


@njit(**LEAF)
def propose(rng, shares, step, program, state):
    """Draw a step; how many shifts it takes, 0 when the draw leads nowhere or is not allowed."""
    at = state.placed
    if state.broken[0] >= KEPT and draw(rng) < 0.1:
        count = repaired(rng, step, program.rows, state.held, state.broken_rows, at.place)
    else:
        count = drawn(rng, shares, step, program, at, state.on_node)
    if count == 1 and state.held.size > 0:
        count = with_way_given(rng, step, program.rows, state.held, at.place)
    moved = at.moved[0]
    for s in range(count):
        k, target = step.who[s], step.where[s]
        home = program.current[k]
        if target < 0 or target == at.place[k]:
            return 0
        if not (program.stay[k] if target == home else program.enter[program.kind[k], target]):
            return 0
        for e in range(s):
            if step.who[e] == k:
                return 0
        moved += int(target != home) - int(at.place[k] != home)
    return with_room_made(rng, count, moved, step, program, at, state.on_node)

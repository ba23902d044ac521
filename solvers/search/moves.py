"""The moves of the search: one function each.

A move writes shifts - key group ``who[s]`` to node ``where[s]`` - into a trial and returns how many: 0 when the draw leads
nowhere. The first six suit any placement; the others are guided by the deviations of nodes: where few key groups may move,
these have to be chosen well.
"""

from __future__ import annotations

from keyshift.models.compiling import LEAF, njit
from keyshift.solvers.kernels import uniform as draw
from keyshift.solvers.kernels import whole_below
from keyshift.solvers.rows import KEPT, giving_way, one_to_mend
from keyshift.solvers.search.terms import allowed

MOVES = (
    "join", "cluster", "anywhere", "swap", "go_home", "exchange_home", "insert", "swap_targets", "replace", "retarget",
    "replace_source", "reinsert", "reroute_chain", "shorten_chain", "lengthen_chain",
)  # fmt: skip
"""In the order of their cumulative shares."""
HIGHEST, LOWEST = 1.0, -1.0


@njit(**LEAF)
def send(k, node, count, trial):
    """Note one shift more."""
    trial.who[count], trial.where[count] = k, node
    return count + 1


# Any placement -------------------------------------------------------------------------------------------------------


@njit(**LEAF)
def drawn_pair(rng, graph):
    """A pair of key groups that talk: any, or by weight."""
    if draw(rng) < 0.6:
        return whole_below(rng, graph.first.size)
    return graph.by_weight[whole_below(rng, graph.by_weight.size)]


@njit(**LEAF)
def join(rng, trial, program, state):
    """One end of a pair goes to the node of the other; now and then a key group from there comes the other way."""
    graph, place = program.graph, state.place
    if graph.first.size == 0:
        return 0
    e = drawn_pair(rng, graph)
    k, other = (graph.first[e], graph.second[e]) if draw(rng) < 0.5 else (graph.second[e], graph.first[e])
    count = send(k, place[other], 0, trial)
    if draw(rng) < 0.3:
        m = whole_below(rng, place.size)
        if m != k and m != other and place[m] == place[other]:
            count = send(m, place[k], count, trial)
    return count


@njit(**LEAF)
def cluster(rng, trial, program, state):
    """A key group, or some grown from a pair, goes to any node, or to that where most of their traffic is."""
    graph, place, nodes, u = program.graph, state.place, program.enter.shape[1], draw(rng)
    target, count = whole_below(rng, nodes), 1
    trial.who[0] = whole_below(rng, place.size)
    if u < 0.3 and graph.first.size > 0:
        e = drawn_pair(rng, graph)
        trial.who[0], trial.who[1], count = graph.first[e], graph.second[e], 2
        while count < trial.who.size // 2 and draw(rng) < 0.5:
            count = with_neighbour(rng, count, trial, graph)
    if u < 0.7 and graph.first.size > 0:
        most = -1.0
        for i in range(nodes):
            here = 0.0
            for s in range(count):
                for t in range(state.together.size):
                    here += state.on_node[t, trial.who[s], i]
                if place[trial.who[s]] == i:
                    here = -1.0
                    break
            if here > most:
                target, most = i, here
    for s in range(count):
        trial.where[s] = target
    return count


@njit(**LEAF)
def with_neighbour(rng, count, trial, graph):
    """One of a cluster brings a neighbour along, of two the one that it talks to more; how many they are then."""
    k = trial.who[whole_below(rng, count)]
    low, degree = graph.indptr[k], graph.indptr[k + 1] - graph.indptr[k]
    j, other = low + whole_below(rng, degree), low + whole_below(rng, degree)
    if graph.weight[0, other] > graph.weight[0, j]:
        j = other
    for s in range(count):
        if trial.who[s] == graph.neighbour[j]:
            return count
    trial.who[count] = graph.neighbour[j]
    return count + 1


@njit(**LEAF)
def anywhere(rng, trial, program, state):
    """A key group goes to any node."""
    return send(whole_below(rng, state.place.size), whole_below(rng, program.enter.shape[1]), 0, trial)


@njit(**LEAF)
def swap(rng, trial, state):
    """Two key groups exchange their nodes."""
    k, m = whole_below(rng, state.place.size), whole_below(rng, state.place.size)
    return send(m, state.place[k], send(k, state.place[m], 0, trial), trial)


@njit(**LEAF)
def a_mover(rng, state):
    """A key group that has moved; -1 without one."""
    return state.movers[whole_below(rng, state.moved[0])] if state.moved[0] > 0 else -1


@njit(**LEAF)
def go_home(rng, trial, program, state):
    """A key group that has moved goes back."""
    k = a_mover(rng, state)
    return 0 if k < 0 else send(k, program.current[k], 0, trial)


@njit(**LEAF)
def exchange_home(rng, trial, program, state):
    """A key group goes home while any other does, or goes where the first one was."""
    k, q = a_mover(rng, state), whole_below(rng, state.place.size)
    if k < 0 or k == q:
        return 0
    home = program.current[q]
    count = send(k, program.current[k], 0, trial)
    return send(q, home if state.place[q] != home else state.place[k], count, trial)


# Guided by deviations ------------------------------------------------------------------------------------------------


@njit(**LEAF)
def surplus(i, program, state):
    """The load that a node can give: its deviation, or all that it carries where nothing may come to it."""
    return state.lead[i] if program.loads.entered[i] else state.lead[i] + program.loads.typical


@njit(**LEAF)
def extreme(rng, rounds, sign, program, state):
    """The node of highest (sign = 1) or lowest (sign = -1) surplus among a few random ones, now and then of all.

    Among many nodes a few random ones hardly ever include the extreme one: where few key groups may move, all are looked
    through so often that it takes about 32 looks a draw.
    """
    n = state.lead.size
    best = whole_below(rng, n)
    all_of_them = n > 256 and program.max_moves < 2 * n and draw(rng) * n < 32.0
    for at in range(n if all_of_them else rounds):
        i = at if all_of_them else whole_below(rng, n)
        if sign * surplus(i, program, state) > sign * surplus(best, program, state):
            best = i
    return best


@njit(**LEAF)
def near(rng, i, wanted, program, state):
    """A key group that stays on node i and may leave it, of about the wanted load; -1 when the draw fails."""
    begin, end = program.starts[i], program.starts[i + 1]
    if begin == end:
        return -1
    low, high = begin, end
    if draw(rng) < 0.5:
        at = low + whole_below(rng, high - low)
    else:
        while low < high:
            middle = (low + high) // 2
            if program.loads.size[program.by_load[middle]] < wanted:
                low = middle + 1
            else:
                high = middle
        at = low + whole_below(rng, 4) - 2
    k = program.by_load[min(max(at, begin), end - 1)]
    return -1 if state.slot[k] >= 0 else k


@njit(**LEAF)
def uneven_pair(rng, program, state):
    """A node to give and one to take, and the load whose move would make them even."""
    weight = program.loads.weight
    g = extreme(rng, whole_below(rng, 4), HIGHEST, program, state)
    t = extreme(rng, whole_below(rng, 4), LOWEST, program, state)
    if not program.loads.entered[g]:
        return g, t, -state.lead[t] / weight[t]
    return g, t, (state.lead[g] - state.lead[t]) / (weight[g] + weight[t])


@njit(**LEAF)
def an_arrival(rng, i, state):
    """One of those that have moved to node i, -1 when there is none."""
    k = state.arrivals[i]
    if k < 0:
        return k
    for _ in range(whole_below(rng, 4)):
        k = state.links[0, k] if state.links[0, k] >= 0 else state.arrivals[i]
    return k


@njit(**LEAF)
def insert(rng, trial, program, state):
    """One key group more moves, from an overloaded node to an underloaded one, or two change places."""
    g, t, wanted = uneven_pair(rng, program, state)
    spare = program.max_moves - state.moved[0]
    if spare <= 0 or g == t:
        return 0
    k = near(rng, g, wanted, program, state)
    if k < 0:
        return 0
    count = send(k, t, 0, trial)
    single = program.loads.load.shape[1] == 1 and program.limits.most.size == 0 and state.lead.size > 2
    if single or spare < 2 or draw(rng) < 0.5:
        return count
    other = near(rng, t, program.loads.size[k] - wanted, program, state)
    return count if other < 0 else send(other, g, count, trial)


@njit(**LEAF)
def swap_targets(rng, k, trial, program, state):
    """Two that have moved exchange their nodes, unless one would go home."""
    other = a_mover(rng, state)
    if state.place[other] == program.current[k] or state.place[k] == program.current[other]:
        return 0
    return send(other, state.place[k], send(k, state.place[other], 0, trial), trial)


@njit(**LEAF)
def instead(k, other, target, trial, program):
    """A key group goes home, and another goes to a node instead."""
    if other < 0:
        return 0
    return send(other, target, send(k, program.current[k], 0, trial), trial)


@njit(**LEAF)
def replace(rng, k, trial, program, state):
    """Another key group of the same node moves instead."""
    i, t, loads = program.current[k], state.place[k], program.loads
    wanted = loads.size[k] + (state.lead[i] - state.lead[t]) / (loads.weight[i] + loads.weight[t])
    return instead(k, near(rng, i, wanted, program, state), t, trial, program)


@njit(**LEAF)
def retarget(rng, k, trial, program, state):
    """A key group that has moved goes to another node."""
    return send(k, extreme(rng, whole_below(rng, 3), LOWEST, program, state), 0, trial)


@njit(**LEAF)
def replace_source(rng, k, trial, program, state):
    """A key group of another node comes to the target instead."""
    t, loads = state.place[k], program.loads
    g = extreme(rng, whole_below(rng, 3), HIGHEST, program, state)
    wanted = loads.size[k] - state.lead[t] / loads.weight[t]
    return instead(k, near(rng, g, wanted, program, state), t, trial, program)


@njit(**LEAF)
def reinsert(rng, k, trial, program, state):
    """A key group goes home, and one moves elsewhere."""
    g, t, wanted = uneven_pair(rng, program, state)
    return instead(k, near(rng, g, wanted, program, state), t, trial, program)


@njit(**LEAF)
def reroute_chain(rng, k, trial, program, state):
    """Of a chain - another came to the node that k left - another node becomes the middle."""
    loads, t, arrived = program.loads, state.place[k], an_arrival(rng, program.current[k], state)
    if arrived < 0:
        return 0
    s = whole_below(rng, state.lead.size)
    wanted = loads.size[k] - state.lead[t] / loads.weight[t]
    if draw(rng) < 0.5:
        wanted = loads.size[arrived] + state.lead[s] / loads.weight[s]
    count = instead(k, near(rng, s, wanted, program, state), t, trial, program)
    return 0 if count == 0 else send(arrived, s, count, trial)


@njit(**LEAF)
def shorten_chain(rng, k, trial, program, state):
    """Of a chain the middle is taken out: the one that came goes where k went, and k goes home."""
    return instead(k, an_arrival(rng, program.current[k], state), state.place[k], trial, program)


@njit(**LEAF)
def lengthen_chain(rng, k, trial, program, state):
    """A node is put between source and target: the key group goes there, and one of that node's goes on."""
    s, loads = whole_below(rng, state.lead.size), program.loads
    if state.moved[0] >= program.max_moves:
        return 0
    other = near(rng, s, loads.size[k] + state.lead[s] / loads.weight[s], program, state)
    return 0 if other < 0 else send(other, state.place[k], send(k, s, 0, trial), trial)


# A draw ---------------------------------------------------------------------------------------------------------------


@njit(**LEAF)
def guided(rng, move, trial, program, state):
    """A move of one that has moved, by its place in `MOVES`; one more moves where none has."""
    k = a_mover(rng, state)
    if move == 6 or k < 0:
        return insert(rng, trial, program, state)
    if move == 7:
        return swap_targets(rng, k, trial, program, state)
    if move == 8:
        return replace(rng, k, trial, program, state)
    if move == 9:
        return retarget(rng, k, trial, program, state)
    if move == 10:
        return replace_source(rng, k, trial, program, state)
    if move == 11:
        return reinsert(rng, k, trial, program, state)
    if move == 12:
        return reroute_chain(rng, k, trial, program, state)
    if move == 13:
        return shorten_chain(rng, k, trial, program, state)
    return lengthen_chain(rng, k, trial, program, state)


@njit(**LEAF)
def drawn(rng, shares, trial, program, state):
    """A move by its share, or one that mends a broken row."""
    if state.broken[0] >= KEPT and draw(rng) < 0.1:
        k, node = one_to_mend(rng, state.limits, state.broken_rows, state.place, program.limits)
        return 0 if k < 0 else send(k, node, 0, trial)
    u, move = draw(rng), 0
    while move < shares.size - 1 and u >= shares[move]:
        move += 1
    if move == 0:
        return join(rng, trial, program, state)
    if move == 1:
        return cluster(rng, trial, program, state)
    if move == 2:
        return anywhere(rng, trial, program, state)
    if move == 3:
        return swap(rng, trial, state)
    if move == 4:
        return go_home(rng, trial, program, state)
    if move == 5:
        return exchange_home(rng, trial, program, state)
    return guided(rng, move, trial, program, state)


@njit(**LEAF)
def lost_by_return(k, program, state):
    """The traffic that a key group no longer meets when it goes back."""
    lost = 0.0
    for t in range(state.together.size):
        lost += state.on_node[t, k, state.place[k]] - state.on_node[t, k, program.current[k]]
    return lost


@njit(**LEAF)
def make_room(rng, count, moved, trial, program, state):
    """Where a step would move too many, others go back as well: of two, mostly the one that loses less by it."""
    while moved > program.max_moves:
        if count == trial.who.size or state.moved[0] == 0:
            return 0
        k, other = a_mover(rng, state), a_mover(rng, state)
        if draw(rng) < 0.7 and lost_by_return(other, program, state) < lost_by_return(k, program, state):
            k = other
        for s in range(count):
            if trial.who[s] == k:
                return 0
        if not program.stay[k]:
            return 0
        count, moved = send(k, program.current[k], count, trial), moved - 1
    return count


@njit(**LEAF)
def propose(rng, shares, trial, program, state):
    """Draw a step; how many shifts it takes, 0 when the draw leads nowhere or is not allowed."""
    count = drawn(rng, shares, trial, program, state)
    if count == 1 and state.limits.size > 0:
        other, node = giving_way(rng, trial.who[0], trial.where[0], state.limits, state.place, program.limits)
        count = count if other < 0 or other == trial.who[0] else send(other, node, count, trial)
    moved = state.moved[0]
    for s in range(count):
        k, target = trial.who[s], trial.where[s]
        if target < 0 or target == state.place[k] or not allowed(k, target, program):
            return 0
        for e in range(s):
            if trial.who[e] == k:
                return 0
        moved += int(target != program.current[k]) - int(state.place[k] != program.current[k])
    return make_room(rng, count, moved, trial, program, state)

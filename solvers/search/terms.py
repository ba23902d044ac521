r"""The terms of a search: what each is for a placement, and by how much a step changes it.

Deviations v of nodes i in windows s count by powers, :math:`P = 2^{doublings}`, a smooth stand-in for the largest of them: over
the worst window, and for the mean and CVaR over windows,

.. math:: \sum_s \sum_i (v_{is} / unit)^P
    \qquad
    P \sum_s \bar w_s \max(norm_s - level / unit, 0), \quad norm_s = \Bigl(\sum_i (v_{is} / unit)^P\Bigr)^{1/P}

so that a node at the unit counts for about 1 in both. Squares of loads are the powers for P = 2. Traffic between nodes counts by
(15) of `CollocatedAllocation`, in shares of all traffic; rows by their excess.
"""

from __future__ import annotations

import numpy as np

from keyshift.models.base.compiling import LEAF, njit, overwrite
from keyshift.solvers.rows import list_broken, shift, sum_rows
from keyshift.solvers.search.program import UNLIMITED


@njit(**LEAF)
def total_load(s, together, loads):
    """The load of the whole system in a window."""
    if together.size == 0:
        return loads.total[s]
    return loads.total[s] - loads.serialisation[s] * together[min(s, together.size - 1)]


@njit(**LEAF)
def deviation(i, s, load, total, centre, loads):
    """How far a node is from the mean, or from somewhat above it, draining ones upwards only."""
    v = load * loads.weight[i] - loads.mean[0, s] * total - loads.mean[1, s] - centre
    return max(v, 0.0) if loads.draining[i] else abs(v)


@njit(**LEAF)
def beyond_bands(i, s, load, total, bands):
    """By how much a load exceeds a node's band or falls short of it."""
    if bands.shape[2] == 0:
        return 0.0
    over = load - bands[0, s, i] * total - bands[1, s, i]
    return max(over, 0.0) + max(bands[2, s, i] * total + bands[3, s, i] - load, 0.0)


@njit(**LEAF)
def power(x, doublings):
    """x ** (2 ** doublings)."""
    for _ in range(doublings):
        x *= x
    return x


@njit(**LEAF)
def root(x, doublings):
    """The inverse of `power`."""
    x = max(x, 0.0)
    for _ in range(doublings):
        x = np.sqrt(x)
    return x


@njit(**LEAF)
def cut_of(together, aim, blend):
    """The traffic between nodes: of the worst window, the mean, or (15) with t = level."""
    if together.size == 0 or (aim.cut == 0.0 and aim.most_cut >= UNLIMITED):
        return 0.0
    if together.size == 1:
        return aim.apart[0] - together[0]
    value, worst, mean = 0.0, -np.inf, 0.0
    for t in range(together.size):
        remote = aim.apart[t] - together[t]
        worst = max(worst, remote)
        value += aim.most[t] * max(remote - aim.level, 0.0)
        mean += remote / together.size
    return (1.0 - blend) * (worst if aim.worst else value + aim.level) + blend * mean


@njit(**LEAF)
def close(one, other, near):
    """How much of the traffic between two nodes costs nothing: all or none, or as `near` says."""
    return near[one, other] if near.size > 0 else 1.0 * (one == other)


@njit(**LEAF)
def talk(k, j, node, sign, graph, on_node):
    """Add, or take away, the traffic of key group k with a neighbour on a node."""
    for t in range(on_node.shape[0]):
        if graph.near.size == 0:
            on_node[t, k, node] += sign * graph.weight[t, j]
        for i in range(graph.near.shape[0]):
            on_node[t, k, i] += sign * graph.weight[t, j] * graph.near[node, i]


@njit(**LEAF)
def refresh(aim, program, state):
    """Every sum anew, from the places."""
    loads, graph, place, together = program.loads, program.graph, state.placed.place, state.together
    state.load[:] = 0.0
    state.on_node[:] = 0.0
    together[:] = 0.0
    state.placed.slot[:] = -1
    state.placed.arrivals[:] = -1
    state.placed.moved[0] = 0
    for k in range(place.size):
        i = place[k]
        enlist(k, program.current[k], program.current[k], state.placed)
        for s in range(loads.load.shape[1]):
            state.load[i, s] += loads.load[k, s]
        for j in range(graph.indptr[k], graph.indptr[k + 1]):
            talk(k, j, place[graph.neighbour[j]], 1.0, graph, state.on_node)
    for k in range(place.size):
        for t in range(together.size):
            together[t] += state.on_node[t, k, place[k]] / 2
        if not loads.fixed:
            for s in range(loads.load.shape[1]):
                stays = state.on_node[min(s, together.size - 1), k, place[k]]
                state.load[place[k], s] -= loads.serialisation[s] * stays / 2
    state.broken[0], state.missed[0] = sum_rows(state.held, place, program.rows)
    list_broken(state.held, state.broken_rows, program.rows)
    refresh_nodes(aim, program, state)


@njit(**LEAF)
def refresh_nodes(aim, program, state):
    """What follows from the nodes' loads."""
    loads = program.loads
    k = loads.load.shape[1]
    state.bands[0] = 0.0
    state.powers[0, :] = 0.0
    state.placed.lead[:] = 0.0
    for i in range(loads.weight.size):
        state.over[i] = 0.0
        for s in range(k):
            total, load = total_load(s, state.together, loads), state.load[i, s]
            state.over[i] += beyond_bands(i, s, load, total, loads.bands)
            state.raised[i, s] = 0.0
            state.placed.lead[i] += (
                load * loads.weight[i] - loads.mean[0, s] * total - loads.mean[1, s]
            ) * loads.share[s]
            if aim.doublings > 0:
                state.raised[i, s] = power(deviation(i, s, load, total, aim.centre, loads) / aim.unit, aim.doublings)
                state.powers[0, s] += state.raised[i, s]
        state.bands[0] += state.over[i]
    for s in range(k):
        state.powers[1, s] = root(state.powers[0, s], aim.doublings)


# A step: what it would change, and its acceptance --------------------------------------------------------------------


@njit(**LEAF)
def between(k, other, graph):
    """Where the traffic between two key groups stands, -1 where there is none: neighbours are sorted."""
    low, high = graph.indptr[k], graph.indptr[k + 1]
    while low < high:
        middle = (low + high) // 2
        if graph.neighbour[middle] < other:
            low = middle + 1
        else:
            high = middle
    return low if low < graph.indptr[k + 1] and graph.neighbour[low] == other else -1


@njit(**LEAF)
def touched(node, count, nodes, change):
    """Where a node stands among those of a step, appended if it is new."""
    for c in range(count):
        if nodes[c] == node:
            return c
    nodes[count] = node
    for s in range(change.shape[1]):
        change[count, s] = 0.0
    return count


@njit(**LEAF)
def weigh(count, trial, program, state):
    """Note the loads and the traffic that a step of so many shifts changes; how many nodes."""
    loads, graph, rows = program.loads, program.graph, state.together.size
    nodes = 0
    if not loads.fixed:
        nodes = state.placed.lead.size
        trial.change[:] = 0.0
    overwrite(trial.together, state.together)
    for x in range(count):
        k, target = trial.step.who[x], trial.step.where[x]
        source = state.placed.place[k]
        for t in range(rows):
            trial.lost[t, x], trial.won[t, x] = state.on_node[t, k, source], state.on_node[t, k, target]
        for e in range(x if rows > 0 else 0):  # neighbours that have moved just before
            before, after = state.placed.place[trial.step.who[e]], trial.step.where[e]
            out = close(after, source, graph.near) - close(before, source, graph.near)
            into = close(after, target, graph.near) - close(before, target, graph.near)
            j = between(k, trial.step.who[e], graph) if out != 0 or into != 0 else -1
            for t in range(rows if j >= 0 else 0):
                trial.lost[t, x] += graph.weight[t, j] * out
                trial.won[t, x] += graph.weight[t, j] * into
        for t in range(rows):
            trial.together[t] += trial.won[t, x] - trial.lost[t, x]
        a = touched(source, nodes, trial.nodes, trial.change) if loads.fixed else source
        nodes = max(nodes, a + 1)
        b = touched(target, nodes, trial.nodes, trial.change) if loads.fixed else target
        nodes = max(nodes, b + 1)
        for s in range(loads.load.shape[1]):
            trial.change[a, s] -= loads.load[k, s]
            trial.change[b, s] += loads.load[k, s]
            if not loads.fixed:
                t = min(s, rows - 1)
                trial.change[a, s] += loads.serialisation[s] * trial.lost[t, x]
                trial.change[b, s] -= loads.serialisation[s] * trial.won[t, x]
    return nodes


@njit(**LEAF)
def rise_of_nodes(nodes, aim, trial, program, state):
    """By how much the powers of deviations rise, over all windows, and by how much bands are exceeded more."""
    loads = program.loads
    over, rise, k = 0.0, 0.0, trial.change.shape[1]
    for s in range(k):
        trial.powers[0, s] = state.powers[0, s]
    for c in range(nodes):
        i = trial.nodes[c]
        trial.over[c] = 0.0
        for s in range(k):
            total, load = total_load(s, trial.together, loads), state.load[i, s] + trial.change[c, s]
            trial.over[c] += beyond_bands(i, s, load, total, loads.bands)
            if aim.doublings > 0:
                trial.fresh[c, s] = power(deviation(i, s, load, total, aim.centre, loads) / aim.unit, aim.doublings)
                more = trial.fresh[c, s] - state.raised[i, s]
                rise += more
                trial.powers[0, s] += more
        over += trial.over[c] - state.over[i]
    if aim.doublings > 0 and not aim.worst:
        rise = 0.0
        for s in range(k):
            trial.powers[1, s] = root(trial.powers[0, s], aim.doublings)
            rise += aim.most[s] * (
                max(trial.powers[1, s] - aim.level / aim.unit, 0.0)
                - max(state.powers[1, s] - aim.level / aim.unit, 0.0)
            )
        rise *= 1 << aim.doublings
    return rise, over


@njit(**LEAF)
def shift_rows(count, back, held, rows, step, place):
    """Carry a step's key groups over, or back; by how much limits, and goals, are exceeded more."""
    limits, goals = 0.0, 0.0
    for y in range(count if held.size > 0 else 0):
        x = count - 1 - y if back else y
        k = step.who[x]
        source, target = (step.where[x], place[k]) if back else (place[k], step.where[x])
        rise, missed = shift(held, k, source, target, rows)
        limits += rise
        goals += missed
    return limits, goals


@njit(**LEAF)
def accept(count, nodes, aim, trial, program, state):
    """Carry a step out; its rows have been carried over."""
    loads, graph = program.loads, program.graph
    overwrite(state.together, trial.together)
    for c in range(nodes):
        i = trial.nodes[c]
        state.over[i] = trial.over[c]
        for s in range(trial.change.shape[1]):
            state.load[i, s] += trial.change[c, s]
            state.placed.lead[i] += trial.change[c, s] * loads.weight[i] * loads.share[s]
            if aim.doublings > 0:
                state.raised[i, s] = trial.fresh[c, s]
    for s in range(trial.powers.shape[1]):
        state.powers[0, s], state.powers[1, s] = trial.powers[0, s], trial.powers[1, s]
    for x in range(count):
        k, target = trial.step.who[x], trial.step.where[x]
        source = state.placed.place[k]
        for j in range(graph.indptr[k], graph.indptr[k + 1]):
            talk(graph.neighbour[j], j, source, -1.0, graph, state.on_node)
            talk(graph.neighbour[j], j, target, 1.0, graph, state.on_node)
        state.placed.place[k] = target
        enlist(k, source, program.current[k], state.placed)


@njit(**LEAF)
def enlist(k, source, home, at):
    """Keep the lists of the key groups that have moved, of all and by node."""
    target, links = at.place[k], at.links
    if source != home:
        after, before = links[0, k], links[1, k]
        if after >= 0:
            links[1, after] = before
        if before >= 0:
            links[0, before] = after
        else:
            at.arrivals[source] = after
        at.moved[0] -= 1
        last = at.movers[at.moved[0]]
        at.movers[at.slot[k]], at.slot[last] = last, at.slot[k]
        at.slot[k] = -1
    if target != home:
        links[0, k], links[1, k] = at.arrivals[target], -1
        if at.arrivals[target] >= 0:
            links[1, at.arrivals[target]] = k
        at.arrivals[target] = k
        at.movers[at.moved[0]], at.slot[k] = k, at.moved[0]
        at.moved[0] += 1


# What the best is --------------------------------------------------------------------------------------------------------


@njit(**LEAF)
def largest_deviation(aim, powers, loads, load, together):
    """(8) of the formulations: of windows the worst, the mean or CVaR."""
    largest = 0.0
    for s in range(load.shape[1]):
        total = total_load(s, together, loads)
        powers[0, s] = 0.0
        for i in range(loads.weight.size):
            powers[0, s] = max(powers[0, s], deviation(i, s, load[i, s], total, aim.centre, loads))
        largest = max(largest, powers[0, s])
    if aim.worst:
        return largest
    best = np.inf
    for at in range(-1, powers.shape[1]):
        t = powers[0, at] if at >= 0 else 0.0
        value = t
        for s in range(powers.shape[1]):
            value += aim.most[s] * max(powers[0, s] - t, 0.0)
        best = min(best, value)
    return best


@njit(**LEAF)
def measure(aim, trial, program, state):
    """What is minimised, exactly."""
    if aim.doublings > 0 and not aim.squares:
        return largest_deviation(aim, trial.powers, program.loads, state.load, state.together)
    if aim.doublings > 0:
        total = 0.0
        for s in range(state.powers.shape[1]):
            total += state.powers[0, s]
        return total
    return aim.cut * cut_of(state.together, aim, 0.0) + aim.goal * state.missed[0]


@njit(**LEAF)
def as_far(aim, least, loads, load, together, witness):
    """Whether some node is as far from the mean as in the best assignment; the last one seen is looked at first."""
    i, s = witness[0], witness[1]
    if deviation(i, s, load[i, s], total_load(s, together, loads), aim.centre, loads) >= least:
        return True
    for s in range(load.shape[1]):
        total = total_load(s, together, loads)
        for i in range(loads.weight.size):
            if deviation(i, s, load[i, s], total, aim.centre, loads) >= least:
                witness[0], witness[1] = i, s
                return True
    return False

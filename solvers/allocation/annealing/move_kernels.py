"""The neighbourhood of the annealed search: one function a move, each editing one or two slots of the list of migrations.

A move writes what it wants into an `Edit` and returns how many slots that are: 0 when the draw leads nowhere. Slot x
holds the migration of key group k from its current node i to a target t.
"""

from __future__ import annotations

from typing import NamedTuple

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.state_kernels import put, take
from keyshift.solvers.kernels import uniform as draw

HIGHEST, LOWEST = 1.0, -1.0
MANY, LOOKED_THROUGH = 256, 32.0
"""Among more nodes than these a few random ones hardly ever hold the extreme one: where few key groups may move, all are
looked through now and then, so often that it takes about so many looks a draw."""


class Edit(NamedTuple):
    """A proposed move: ``slots[s]`` is to migrate ``keys[s]`` to ``targets[s]``, or is emptied where the key is -1."""

    slots: IntArray
    keys: IntArray
    targets: IntArray
    shares: FloatArray
    """How often each move is drawn, cumulative (`keyshift.solvers.allocation.annealing.search.SHARES`)."""


@njit(**LEAF)
def surplus(i, data, state):
    """The load that node i can give: its deviation, or all that it carries where nothing may come to it."""
    return state.lead[i] if data.open[i] else state.lead[i] + data.mean[0]


@njit(**LEAF)
def extreme(rng, rounds, sign, data, state):
    """The node of highest (sign = 1) or lowest (sign = -1) surplus among a few random ones, now and then of all."""
    n = data.weight.size
    best = int(draw(rng) * n)
    few = n > MANY and data.max_moves < 2 * n
    all_of_them = few and draw(rng) * n < LOOKED_THROUGH
    for at in range(n if all_of_them else rounds):
        i = at if all_of_them else int(draw(rng) * n)
        if sign * surplus(i, data, state) > sign * surplus(best, data, state):
            best = i
    return best


@njit(**LEAF)
def near(rng, i, wanted, data, role):
    """A key group that stays on node i and may leave it, of about the wanted load; -1 when the draw fails."""
    low, high = data.starts[i], data.starts[i + 1]
    if low == high:
        return -1
    begin, end = low, high
    if draw(rng) < 0.5:
        at = low + int(draw(rng) * (high - low))
    else:
        while low < high:
            middle = (low + high) // 2
            if data.lead[data.order[middle]] < wanted:
                low = middle + 1
            else:
                high = middle
        at = low + int(draw(rng) * 4) - 2
    at = min(max(at, begin), end - 1)
    k = data.order[at]
    return -1 if role[k] >= 0 else k


@njit(**LEAF)
def between(rng, rounds, data, state):
    """A node to give and one to take, and the load whose move would make them even."""
    g = extreme(rng, int(draw(rng) * rounds), HIGHEST, data, state)
    t = extreme(rng, int(draw(rng) * rounds), LOWEST, data, state)
    if not data.open[g]:
        return g, t, -state.lead[t] / data.weight[t]
    return (g, t, (state.lead[g] - state.lead[t]) / (data.weight[g] + data.weight[t]))


@njit(**LEAF)
def an_arrival(rng, i, state):
    """The slot of one of the migrations to node i, -1 when there is none."""
    x = state.first[i]
    if x < 0:
        return x
    for _ in range(int(draw(rng) * 4)):
        x = state.moves[2, x] if state.moves[2, x] >= 0 else state.first[i]
    return x


@njit(**LEAF)
def insert(rng, edit, data, state):
    """One key group more migrates, from an overloaded node to an underloaded one, or two change places.

    Full nodes take nobody without giving somebody, and of two nodes each is as far from the mean as the other. Over one
    window exchanges between three nodes have a phase of their own.
    """
    m = int(state.tally[0])
    g, t, wanted = between(rng, 4, data, state)
    if m >= data.max_moves or g == t:
        return 0
    edit.slots[0], edit.targets[0] = m, t
    edit.keys[0] = near(rng, g, wanted, data, state.role)
    if edit.keys[0] < 0:
        return 0
    single = data.windows is None or data.use.shape[0] == 0
    if (single and data.weight.size > 2) or m + 1 >= data.max_moves or draw(rng) < 0.5:
        return 1
    edit.slots[1], edit.targets[1] = m + 1, g
    edit.keys[1] = near(rng, t, data.lead[edit.keys[0]] - wanted, data, state.role)
    return 2 if edit.keys[1] >= 0 else 1


@njit(**LEAF)
def swap_targets(rng, x, edit, state):
    """Two migrations exchange their targets."""
    moves = state.moves
    y = int(draw(rng) * int(state.tally[0]))
    if y == x:
        return 0
    edit.slots[1], edit.keys[1], edit.targets[1] = y, moves[0, y], moves[1, x]
    edit.targets[0] = moves[1, y]
    return 2


@njit(**LEAF)
def replace(rng, x, edit, data, state):
    """Another key group of the same node migrates in its stead."""
    k, t = state.moves[0, x], state.moves[1, x]
    i = data.current[k]
    wanted = data.lead[k] + (state.lead[i] - state.lead[t]) / (data.weight[i] + data.weight[t])
    edit.keys[0] = near(rng, i, wanted, data, state.role)
    return int(edit.keys[0] >= 0)


@njit(**LEAF)
def relocate(rng, edit, data, state):
    """The same key group migrates to another node."""
    edit.targets[0] = extreme(rng, int(draw(rng) * 3), LOWEST, data, state)
    return 1


@njit(**LEAF)
def replace_source(rng, x, edit, data, state):
    """A key group of another node comes to the target in its stead."""
    k, t = state.moves[0, x], state.moves[1, x]
    g = extreme(rng, int(draw(rng) * 3), HIGHEST, data, state)
    edit.keys[0] = near(rng, g, data.lead[k] - state.lead[t] / data.weight[t], data, state.role)
    return int(edit.keys[0] >= 0)


@njit(**LEAF)
def reinsert(rng, edit, data, state):
    """It stays, and a migration elsewhere takes its slot."""
    g, edit.targets[0], wanted = between(rng, 4, data, state)
    edit.keys[0] = near(rng, g, wanted, data, state.role)
    return int(edit.keys[0] >= 0)


@njit(**LEAF)
def remove(edit):
    """It stays."""
    edit.keys[0] = -1
    return 1


@njit(**LEAF)
def reroute_chain(rng, x, y, edit, data, state):
    """Of a chain - y comes to the node that x leaves - another node becomes the middle."""
    k, t, arriving = state.moves[0, x], state.moves[1, x], state.moves[0, y]
    s = int(draw(rng) * data.weight.size)
    edit.slots[1], edit.keys[1], edit.targets[1] = y, arriving, s
    wanted = data.lead[k] - state.lead[t] / data.weight[t]
    if draw(rng) < 0.5:
        wanted = data.lead[arriving] + state.lead[s] / data.weight[s]
    edit.keys[0] = near(rng, s, wanted, data, state.role)
    return 2 if edit.keys[0] >= 0 else 0


@njit(**LEAF)
def shorten_chain(x, y, edit, state):
    """Of a chain the middle is taken out: y goes where x went, and the key group of x stays."""
    if y < 0 or y == x:
        return 0
    edit.slots[1], edit.keys[1], edit.targets[1] = y, state.moves[0, y], state.moves[1, x]
    edit.keys[0] = -1
    return 2


@njit(**LEAF)
def lengthen_chain(rng, x, edit, data, state):
    """A node is put between source and target: the key group goes there, and one of that node's goes on."""
    m = int(state.tally[0])
    if m >= data.max_moves:
        return 0
    s = int(draw(rng) * data.weight.size)
    edit.targets[0] = s
    edit.keys[1] = near(rng, s, data.lead[state.moves[0, x]] + state.lead[s] / data.weight[s], data, state.role)
    edit.slots[1], edit.targets[1] = m, state.moves[1, x]
    return 2 if edit.keys[1] >= 0 else 0


@njit(**LEAF)
def propose(rng, edit, data, state):
    """Draw a move; how many slots it edits, 0 when the draw leads nowhere."""
    m, u = int(state.tally[0]), draw(rng)
    if m == 0 or (m < data.max_moves and u < edit.shares[0]):
        return insert(rng, edit, data, state)
    u = draw(rng)
    x = int(draw(rng) * m)
    edit.slots[0], edit.keys[0], edit.targets[0] = x, state.moves[0, x], state.moves[1, x]
    if u < edit.shares[1]:
        return swap_targets(rng, x, edit, state)
    if u < edit.shares[2]:
        return replace(rng, x, edit, data, state)
    if u < edit.shares[3]:
        return relocate(rng, edit, data, state)
    if u < edit.shares[4]:
        return replace_source(rng, x, edit, data, state)
    if u < edit.shares[5]:
        return reinsert(rng, edit, data, state)
    if u < edit.shares[6]:
        return remove(edit)
    y = an_arrival(rng, data.current[state.moves[0, x]], state)
    if u < edit.shares[7] and y >= 0 and y != x:
        return reroute_chain(rng, x, y, edit, data, state)
    if u < edit.shares[8]:
        return shorten_chain(x, y, edit, state)
    return lengthen_chain(rng, x, edit, data, state)


@njit(**LEAF)
def accept(steps, edit, data, state):
    """Carry out the edits of the slots."""
    slots, keys, targets = edit.slots, edit.keys, edit.targets
    m = int(state.tally[0])
    for s in range(steps):
        if slots[s] < m:
            take(slots[s], data, state)
    for s in range(steps):
        if keys[s] >= 0:
            put(slots[s], keys[s], targets[s], data, state)
            if slots[s] >= m:
                state.tally[0] += 1
    for s in range(steps):
        if keys[s] < 0:  # the last migration fills the hole
            state.tally[0] -= 1
            last = int(state.tally[0])
            if slots[s] != last:
                k, t = state.moves[0, last], state.moves[1, last]
                take(last, data, state)
                put(slots[s], k, t, data, state)

"""The state of the annealed search, and the kernels that keep it in step.

An assignment is a list of migrations, one a slot, so that a step of the search costs no more than the nodes it touches.
Loads are in units of the mean: a node's deviation is a fraction of it.
"""

from __future__ import annotations

from typing import NamedTuple

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.row_kernels import RuleRows, shift, sum_rows


class SearchData(NamedTuple):
    """The data that a search never changes: the instance as arrays (see `keyshift.solvers.allocation.arrays.Instance`)."""

    load: FloatArray
    weight: FloatArray
    mean: float
    draining: BoolArray
    open: BoolArray
    """Nodes that somebody may enter, shape (n,)."""
    enter: BoolArray
    """Nodes that key groups of each kind may enter, shape (kinds, n)."""
    kind: IntArray
    current: IntArray
    use: FloatArray
    room: FloatArray
    bump: float
    """The penalty of a node over a capacity: more than any deviation."""
    cost: FloatArray
    max_cost: float
    max_moves: int
    order: IntArray
    """Who may leave, by current node, the lightest first."""
    starts: IntArray
    """Where each node's begin in `order`, shape (n + 1,)."""
    still: FloatArray
    """The current deviation of each node, and what it counts for at least while it has just that, shape (2, n)."""
    rows: RuleRows


class SearchState(NamedTuple):
    """Where a search stands."""

    moves: IntArray
    """Shape (4, slots): the key group of each slot, its target, the next and the previous slot of that target, or -1."""
    role: IntArray
    """The slot of each key group, -1 when it stays, shape (p,)."""
    first: IntArray
    """The first slot with each node as its target, or -1, shape (n,)."""
    dev: FloatArray
    used: FloatArray
    value: FloatArray
    """`node_value` of each node, shape (n,)."""
    tally: FloatArray
    """How many slots are in use, the migration cost, and by how much the rows are exceeded, shape (3,)."""
    held: FloatArray
    """What each row holds."""


@njit(**LEAF)
def goes_nowhere(k, target, data):
    """Whether a move of key group k to a node is none, or not allowed."""
    return target == data.current[k] or not data.enter[data.kind[k], target]


@njit(**LEAF)
def excess(i, used, data):
    """The penalty of node i for capacities that it breaks."""
    v = 0.0
    for r in range(used.shape[0]):
        room = data.room[r, i]
        if used[r, i] > room:
            v += data.bump + (used[r, i] - room) / (room if room > 0 else 1.0)
    return v


@njit(**LEAF)
def unchanged(i, deviation, data):
    """The least value of node i where nothing has come or gone, 0 where something has."""
    return data.still[1, i] if abs(deviation - data.still[0, i]) < 1e-11 else 0.0


@njit(**LEAF)
def node_value(i, dev, used, data):
    """How badly node i does: its deviation, upwards only when draining, and a jump when over a capacity."""
    v = max(dev[i], 0.0) if data.draining[i] else abs(dev[i])
    return v + excess(i, used, data)


@njit(**LEAF)
def power(x, doublings):
    """x ** (2 ** doublings)."""
    for _ in range(doublings):
        x *= x
    return x


@njit(**LEAF)
def give(k, source, target, dev, used, data):
    """Carry a key group's load and resources from one node to another."""
    dev[source] -= data.load[k] * data.weight[source]
    dev[target] += data.load[k] * data.weight[target]
    for r in range(used.shape[0]):
        used[r, source] -= data.use[r, k]
        used[r, target] += data.use[r, k]


@njit(**LEAF)
def put(x, k, target, data, state):
    """Let slot x migrate key group k to a target."""
    give(k, data.current[k], target, state.dev, state.used, data)
    moves, head = state.moves, state.first[target]
    moves[0, x], moves[1, x], moves[2, x], moves[3, x] = k, target, head, -1
    if head >= 0:
        moves[3, head] = x
    state.first[target] = x
    state.role[k] = x
    state.tally[1] += data.cost[k]
    if state.held.size:
        state.tally[2] += shift(k, data.current[k], target, data, state.held)


@njit(**LEAF)
def put_all(away, start, data, state):
    """Let the first slots migrate some key groups to their nodes of an assignment."""
    for x in range(away.size):
        put(x, away[x], start[away[x]], data, state)
    state.tally[0] = away.size


@njit(**LEAF)
def take(x, data, state):
    """Empty slot x: its key group goes back to its current node."""
    moves = state.moves
    k, target, following, previous = moves[0, x], moves[1, x], moves[2, x], moves[3, x]
    give(k, target, data.current[k], state.dev, state.used, data)
    if following >= 0:
        moves[3, following] = previous
    if previous >= 0:
        moves[2, previous] = following
    else:
        state.first[target] = following
    state.role[k] = -1
    state.tally[1] -= data.cost[k]
    if state.held.size:
        state.tally[2] += shift(k, target, data.current[k], data, state.held)
    moves[0, x] = -1


@njit(**LEAF)
def refresh(data, state):
    """Sum everything anew: rounding drifts."""
    state.dev[:] = -data.mean
    state.used[:] = 0.0
    state.tally[1] = 0.0
    state.tally[2] = sum_rows(data, state)
    for k in range(data.current.size):
        x = state.role[k]
        if x >= 0:
            state.tally[1] += data.cost[k]
        i = data.current[k] if x < 0 else state.moves[1, x]
        state.dev[i] += data.load[k] * data.weight[i]
        for r in range(state.used.shape[0]):
            state.used[r, i] += data.use[r, k]
    for i in range(state.dev.size):
        state.value[i] = max(node_value(i, state.dev, state.used, data), unchanged(i, state.dev[i], data))

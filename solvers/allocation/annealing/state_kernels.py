"""The state of the annealed search, and the kernels that keep it in step.

An assignment is a list of migrations, one a slot, so that a step of the search costs no more than the nodes it touches.
Loads are in units of the mean: a node's deviation is a fraction of it. They come in columns: by the first moves are drawn, the
others are the windows, whose values count. One window is both; over more, their mean comes before them.
"""

from __future__ import annotations

from typing import NamedTuple

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.rows import RuleRows, list_broken, shift, sum_rows


class SearchData(NamedTuple):
    """The data that a search never changes: the instance as arrays (see `keyshift.solvers.allocation.arrays.Instance`)."""

    load: FloatArray
    """Shape (p, columns); of one window (p,), as all that has a column a window here."""
    lead: FloatArray
    """Its first column, shape (p,)."""
    weight: FloatArray
    mean: FloatArray
    """Of each column."""
    windows: int | None
    """How many there are, None for one: kernels are compiled anew for that, without loops."""
    most: FloatArray
    """The largest weight of each window in (8), shape (k,)."""
    worst: bool
    """Whether (8) is the worst window."""
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
    """The current deviation of each node in the first window, and what it counts for while it has just that, shape (2, n)."""
    rows: RuleRows | None


class SearchState(NamedTuple):
    """Where a search stands."""

    moves: IntArray
    """Shape (4, slots): the key group of each slot, its target, the next and the previous slot of that target, or -1."""
    role: IntArray
    """The slot of each key group, -1 when it stays, shape (p,)."""
    first: IntArray
    """The first slot with each node as its target, or -1, shape (n,)."""
    dev: FloatArray
    """Deviations, shape (n, columns)."""
    lead: FloatArray
    """Their first column, shape (n,): the same numbers."""
    used: FloatArray
    value: FloatArray
    """`node_value` of each node in each window, shape (n, k)."""
    raised: FloatArray
    """Their powers in units of the best value, shape (n, k)."""
    tally: FloatArray
    """How many slots are in use, the migration cost, and by how much the rows are exceeded, shape (3,)."""
    held: FloatArray | None
    """The sum in each of the rules' rows, where each key group is, and which rows were broken at the last refreshing - the last
    entry says how many; None without rules."""
    place: IntArray | None
    broken: IntArray | None


@njit(**LEAF)
def count_of(windows):
    """How many windows there are."""
    return 1 if windows is None else windows


@njit(**LEAF)
def columns_of(windows):
    """How many columns of loads there are."""
    return 1 if windows is None else windows + 1


@njit(**LEAF)
def column_of(s, windows):
    """The column of window s."""
    return 0 if windows is None else s + 1


@njit(**LEAF)
def read(numbers, i, column):
    """A number of node or key group i: arrays of one window have one column, which is left out."""
    if numbers.ndim == 1:
        return numbers[i]
    return numbers[i, column]


@njit(**LEAF)
def write(value, numbers, i, column):
    """Write a number of node or key group i."""
    if numbers.ndim == 1:
        numbers[i] = value
    else:
        numbers[i, column] = value


@njit(**LEAF)
def add(more, numbers, i, column):
    """Add to a number of node or key group i."""
    if numbers.ndim == 1:
        numbers[i] += more
    else:
        numbers[i, column] += more


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
    """The least value of node i in the first window where nothing has come or gone, 0 where something has."""
    return data.still[1, i] if abs(deviation - data.still[0, i]) < 1e-11 else 0.0


@njit(**LEAF)
def node_value(i, s, dev, used, data):
    """How badly node i does in window s: its deviation, upwards only when draining, and a jump when over a capacity."""
    v = read(dev, i, column_of(s, data.windows))
    v = max(v, 0.0) if data.draining[i] else abs(v)
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
    windows = data.windows
    for column in range(columns_of(windows)):
        load = read(data.load, k, column)
        add(-load * data.weight[source], dev, source, column)
        add(load * data.weight[target], dev, target, column)
    for r in range(used.shape[0]):
        used[r, source] -= data.use[r, k]
        used[r, target] += data.use[r, k]


@njit(**LEAF)
def come(k, node, place):
    """Note where a key group is; only rules ask."""
    if place is not None:
        place[k] = node


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
    if state.held is not None:
        state.tally[2] += shift(state.held, k, data.current[k], target, data)
    come(k, target, state.place)


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
    if state.held is not None:
        state.tally[2] += shift(state.held, k, target, data.current[k], data)
    come(k, data.current[k], state.place)
    moves[0, x] = -1


@njit(**LEAF)
def refresh(data, state):
    """Sum everything anew: rounding drifts."""
    for i in range(data.weight.size):
        for column in range(columns_of(data.windows)):
            write(-data.mean[column], state.dev, i, column)
    state.used[:] = 0.0
    state.tally[1] = 0.0
    state.tally[2] = sum_rows(state.held, state.place, data)
    list_broken(state.held, state.broken, data)
    for k in range(data.current.size):
        x = state.role[k]
        if x >= 0:
            state.tally[1] += data.cost[k]
        i = data.current[k] if x < 0 else state.moves[1, x]
        for column in range(columns_of(data.windows)):
            add(read(data.load, k, column) * data.weight[i], state.dev, i, column)
        for r in range(state.used.shape[0]):
            state.used[r, i] += data.use[r, k]
    for i in range(data.weight.size):
        for s in range(count_of(data.windows)):
            write(node_value(i, s, state.dev, state.used, data), state.value, i, s)
        least = unchanged(i, read(state.dev, i, column_of(0, data.windows)), data)
        write(max(read(state.value, i, 0), least), state.value, i, 0)

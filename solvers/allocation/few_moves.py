r"""A few moves, all of them looked at: node by node, what it sends and takes, by depth first search.

Nodes are settled one after another. A node is settled by moves that a node before it has not decided yet: key groups of its own
that leave - for a node that is settled later - and key groups that it takes, either such as have left already or such as leave a
node that is settled later. Its deviation must end within the distance asked for, so that of each choice only the last move's
load is open but for a narrow range, which sorting finds.

The count of departures and arrivals (`keyshift.solvers.allocation.counting.bound`) says how many moves the nodes not yet settled
need at least: a branch with fewer left is cut. Key groups that are alike are chosen in their order. Each answer lowers the
distance in place; when nothing is left to look at, no assignment is nearer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models.compiling import njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.kernels import overwrite

SLICE = 200_000
"""Branches after which the clock is asked."""
BRANCH = 3.0
"""Steps of search that take as long as a branch."""


class FewMoves:
    """The search over all choices of a few moves, which can be stopped and goes on where it stopped.

    Parameters
    ----------
    instance : Instance
        One window.
    table : ndarray, shape (n, A + 1, A + 1)
        The least deviation of each node by its departures and arrivals (`CountBound.table`).
    distance : float
        Only what is nearer is looked for, in units of the mean.
    """

    def __init__(self, instance: Instance, table: FloatArray, distance: float) -> None:
        it = self.instance = instance
        self.ended = False
        self.table, self.needs = table, least_needs(table, distance)
        dev = it.deviations(it.current)
        # Nodes near the mean first: few moves settle them. Draining ones last: they have much choice.
        self.order = np.lexsort((np.abs(dev), it.draining)).astype(np.int64)
        movers = np.zeros(it.key_groups, dtype=bool)
        movers[it.space.movers] = True
        rank = np.argsort(self.order)
        self.lists, self.starts, self.deltas = self._candidates(movers, rank)
        self.twin = self._twins(movers)
        cost = it.cost / max(it.max_cost, 1e-300) if np.isfinite(it.max_cost) else np.zeros(it.key_groups)
        self.home = np.stack([rank[it.current], it.current]).astype(np.int64)
        self.cost = np.minimum(cost, 2.0)
        reach = it.max_moves + 1
        self.stack = np.full((3, 2 * reach + it.nodes + 2), -1, dtype=np.int64)
        self.before = np.zeros((3, self.stack.shape[1]))
        self.stack[0, 0] = 0
        self.counts = np.array([0, it.max_moves, 0, 0], dtype=np.int64)  # depth, moves left, away, branches looked at
        claimed = np.zeros(it.nodes, dtype=np.int64)
        self.now = np.full(it.key_groups, HOME, dtype=np.int64), it.current.copy(), claimed
        self.numbers = np.concatenate([dev, [distance, 1.0 + 1e-9]])  # deviations, the distance, what cost is left
        self.best = it.current.copy()

    @property
    def looked_at(self) -> int:
        """Branches so far."""
        return int(self.counts[3])

    def _candidates(self, movers: np.ndarray, rank: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Of each node, who may leave or enter it, by what that does to its deviation."""
        it, lists, deltas = self.instance, [], []
        for i in range(it.nodes):
            own = it.current == i
            k = np.flatnonzero(movers & (own | it.space.may_enter(np.arange(it.key_groups), i)))
            delta = np.where(own[k], -1.0, 1.0) * it.load[k] * it.weight[i]
            order = np.lexsort((k, delta))
            lists.append(k[order])
            deltas.append(delta[order])
        starts = np.concatenate([[0], np.cumsum([one.size for one in lists])]).astype(np.int64)
        return np.concatenate(lists).astype(np.int64), starts, np.concatenate(deltas)

    def _twins(self, movers: np.ndarray) -> IntArray:
        """The key group before each that is alike in all that counts; -1 for the first."""
        it, twin, last = self.instance, np.full(self.instance.key_groups, -1, dtype=np.int64), dict[tuple, int]()
        for k in np.flatnonzero(movers).tolist():
            mark = (it.current[k], it.load[k], it.cost[k], it.space.kind[k], *it.use[:, k])
            twin[k] = last.get(mark, -1)
            last[mark] = k
        return twin

    def go_on(
        self, steps: int, expired: Callable[[], bool], spend: Callable[[float], None] = lambda steps: None
    ) -> IntArray | None:
        """Look at so many more branches at most, or until something is nearer, which is returned; `ended`: all are done.

        `spend` hears of the work, as that of the other searches.
        """
        it, code, end = self.instance, 1, self.looked_at + steps
        while code == 1 and self.counts[3] < end and not expired():
            before = int(self.counts[3])
            code = settle_nodes(
                (self.lists, self.starts, self.deltas, self.twin, self.home, self.cost), (it.weight, it.draining, it.doubt),
                (self.table, self.needs), self.order, self.stack, self.before, self.counts, self.now, self.numbers, self.best,
                min(end, before + SLICE),
            )  # fmt: skip
            spend(BRANCH * (int(self.counts[3]) - before))
        self.ended = code == 0
        return self.best.copy() if code == 2 else None

    def lower(self, distance: float) -> None:
        """From now on only what is nearer than this counts."""
        self.numbers[-2] = min(self.numbers[-2], distance)

    @property
    def excluded(self) -> float:
        """The distance within which nothing is, once the search has ended."""
        return float(self.numbers[-2])


def least_needs(table: FloatArray, distance: float) -> IntArray:
    """Least further departures, arrivals, and both together of each node that c have left already, shape (3, n, A + 1)."""
    n, reach = table.shape[0], table.shape[1]
    needs = np.full((3, n, reach + 1), NEVER, dtype=np.int64)
    for i in range(n):
        a, b = np.nonzero(table[i] <= distance)
        for c in range(reach):
            may = a >= c
            if may.any():
                needs[:, i, c] = (a[may] - c).min(), b[may].min(), (a[may] - c + b[may]).min()
    return needs


# The compiled loop ---------------------------------------------------------------------------------------------------


HOME, AWAY, TAKEN = 0, 1, 2
"""Of a key group: not moved, left for a node that is settled later, moved."""
NEVER = 1 << 20
"""More moves than there are."""


@njit(cache=True)
def moves_to_spare(needs, order, claimed, after, left, away):
    """How many more moves may settle the node before `after`, at most; negative where those from there on need too many."""
    out, into, both = 0, 0, 0
    for at in range(after, order.size):
        i = order[at]
        c = min(claimed[i], needs.shape[2] - 1)
        out += needs[0, i, c]
        into += needs[1, i, c]
        both += needs[2, i, c]
    if left + away < into:
        return -1
    return min(left + away, 2 * left + away - both) if left >= out else -1


@njit(cache=True)
def touched(i, q, candidates, down, up, state):
    """How many moves at least bring node i, settled after the nodes of rank up to q, into its range: 0 to 3, 3 for three or more.

    `down` and `up` are how far its deviation may fall or rise, `state` says who has moved.
    """
    lists, starts, deltas, _, home, _ = candidates
    if down <= 0.0 <= up:
        return 0
    first, last = starts[i], starts[i + 1]
    open_ = np.empty(last - first)
    size = 0
    for at in range(first, last):
        k = lists[at]
        if (state[k] == AWAY) if home[0, k] <= q else (state[k] == HOME):
            open_[size] = deltas[at]
            size += 1
    least = 3
    j = size - 1
    for a in range(size):
        if down <= open_[a] <= up:
            return 1
        while j > a and open_[a] + open_[j] > up:
            j -= 1
        if j > a and open_[a] + open_[j] >= down:
            least = 2
    return least


@njit(cache=True)
def within_moves(table, candidates, nodes, order, q, now, numbers, left, away, layer):
    """Whether `left` moves may do for the nodes settled after rank q, and the moves under way: departures balance arrivals.

    `layer` holds two rows of 2 left + away + 1 numbers at least.
    """
    _, draining, doubt = nodes
    state, _, claimed = now
    reach = numbers[order.size] + doubt
    width = 2 * left + away + 1
    here, there = 0, 1
    layer[here, :width] = NEVER
    layer[here, left] = 0
    for at in range(q + 1, order.size):
        i = order[at]
        down = -1e300 if draining[i] else -reach - numbers[i]
        least = touched(i, q, candidates, down, reach - numbers[i], state)
        layer[there, :width] = NEVER
        gone = claimed[i]
        for x in range(min(left + 1, table.shape[1] - gone)):
            for y in range(min(left + away + 1, table.shape[2])):
                if x + y >= least and table[i, gone + x, y] <= reach:
                    for t in range(max(0, x - y), min(width, width + x - y)):
                        if layer[here, t] + x < layer[there, t + y - x]:
                            layer[there, t + y - x] = layer[here, t] + x
        here, there = there, here
    return layer[here, left + away] <= left


@njit(cache=True)
def settle_nodes(candidates, nodes, counted, order, stack, before, counts, now, numbers, best, end):  # noqa: C901  # a compiled loop is one function
    """Go on with the search: 0 when it has ended, 1 at the `end` of its branches, 2 when `best` is nearer than anything before.

    A level of the stack is a node's rank, the next candidate to look at (-1: settle the node first), and the key group that led
    there (-1: the node before was settled); `before` has what a choice changes as it was.
    """
    lists, starts, deltas, twin, home, cost = candidates
    weight, draining, doubt = nodes
    state, place, claimed = now
    table, needs = counted
    n = order.size
    layer = np.empty((2, 3 * needs.shape[2] + 3), np.int64)
    at_distance, at_cost = n, n + 1
    depth, left, away = counts[0], counts[1], counts[2]
    while depth >= 0:
        if counts[3] >= end:
            counts[0], counts[1], counts[2] = depth, left, away
            return 1
        counts[3] += 1
        q = stack[0, depth]
        i = order[q]
        dev, reach = numbers[i], numbers[at_distance] + doubt
        first, last = starts[i], starts[i + 1]
        spare = moves_to_spare(needs, order, claimed, q + 1, left, away)
        down = -1e300 if draining[i] else -reach
        at = stack[1, depth]
        if at == -1:
            if spare >= 0 and last > first:
                # Below this none is enough, even with the largest for each further move.
                want = down - dev - max(spare - 1, 0) * max(deltas[last - 1], 0.0)
                at = first + np.searchsorted(deltas[first:last], want)
                if stack[2, depth] >= 0 and depth > 0:
                    at = max(at, stack[1, depth - 1])
            else:
                at = last
            stack[1, depth] = at
            if spare >= 0 and down <= dev <= reach:
                if q + 1 < n and not within_moves(table, candidates, nodes, order, q, now, numbers, left, away, layer):
                    pass
                elif q + 1 < n:
                    depth += 1
                    stack[0, depth], stack[1, depth], stack[2, depth] = q + 1, -1, -1
                    continue
                if away == 0:
                    worst = 0.0
                    for j in range(n):
                        worst = max(worst, numbers[j] if draining[j] else abs(numbers[j]))
                    if worst < numbers[at_distance]:
                        overwrite(best, place)
                        numbers[at_distance] = worst
                        counts[0], counts[1], counts[2] = depth, left, away
                        return 2
        chosen = -1
        if spare >= 1:
            while at < last:
                delta = deltas[at]
                if dev + delta + (spare - 1) * min(delta, 0.0) > reach:
                    at = last
                    break
                k = lists[at]
                at += 1
                here, other = home[0, k], twin[k]
                if state[k] == HOME:
                    able = here >= q and left > 0 and cost[k] <= numbers[at_cost] and (here > q or q + 1 < n)
                else:
                    able = state[k] == AWAY and here < q
                if able and not (other >= 0 and state[other] == state[k]):
                    chosen = k
                    break
        stack[1, depth] = at
        if chosen >= 0:
            k, here, source = chosen, home[0, chosen], home[1, chosen]
            before[0, depth], before[1, depth], before[2, depth] = numbers[i], numbers[source], numbers[at_cost]
            numbers[i] += deltas[at - 1]
            if state[k] == HOME:
                left -= 1
                numbers[at_cost] -= cost[k]
                if here == q:
                    state[k] = AWAY
                    away += 1
                    claimed[i] += 1
                else:
                    state[k] = TAKEN
                    place[k] = i
                    claimed[source] += 1
                    numbers[source] -= deltas[at - 1] / weight[i] * weight[source]
            else:
                state[k] = TAKEN
                place[k] = i
                away -= 1
            depth += 1
            stack[0, depth], stack[1, depth], stack[2, depth] = q, -1, k
            continue
        k = stack[2, depth]
        depth -= 1
        if k >= 0:  # undo what led here
            source = home[1, k]
            numbers[source], numbers[i], numbers[at_cost] = before[1, depth], before[0, depth], before[2, depth]
            if home[0, k] < q:
                state[k], place[k] = AWAY, source
                away += 1
            else:
                away -= state[k] == AWAY
                state[k], place[k] = HOME, source
                left += 1
                claimed[source] -= 1
    counts[0] = depth
    return 0

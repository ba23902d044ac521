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

from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.few_moves_kernels import HOME, NEVER, settle_nodes

SLICE = 200_000
"""Branches after which the clock is asked."""


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

    def go_on(self, steps: int, expired: Callable[[], bool]) -> IntArray | None:
        """Look at so many more branches at most, or until something is nearer, which is returned; `ended`: all are done."""
        it, code, end = self.instance, 1, int(self.counts[3]) + steps
        while code == 1 and self.counts[3] < end and not expired():
            code = settle_nodes(
                (self.lists, self.starts, self.deltas, self.twin, self.home, self.cost), (it.weight, it.draining, it.doubt),
                (self.table, self.needs), self.order, self.stack, self.before, self.counts, self.now, self.numbers, self.best,
                min(end, int(self.counts[3]) + SLICE),
            )  # fmt: skip
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

r"""A lower bound over k windows in which nodes exchange their first key groups whole.

The joint relaxation moves small parts of many key groups. Here a node exchanges, sending or taking them, a set T of none, one
or two key groups as a whole, or at least three, and only these in parts: in the linear program of

.. math::

    (1) \quad & \sum_{|T| \le 2} w_{iT} + y_i = 1, \qquad \sum_k x_{ik} \ge 3 y_i, \qquad 0 \le x_{ik} \le y_i \\
    (2) \quad & d_s \ge \sum_{|T| \le 2} |dev_{is}(T)| \, w_{iT}
                \pm \Bigl( dev_{is}(\emptyset) \, y_i + \sum_k a_{iks} x_{ik} \Bigr)

node i has set T to the share w, and others to the share y; :math:`a_{iks}` is by what k changes the deviation of i in window s,
negative where i sends it. Every key group is taken as often as it is sent, at most ``maxMigrations`` are. Each assignment is a
solution, and (2) is stronger than the joint relaxation's, since half of one set and half of another no longer cancel out.

Columns w and x come as they pay. Whatever the multipliers are - :math:`\lambda_{is} \ge 0` for (2), whose sums over the nodes (8)
of `KeyGroupAllocation` allows, :math:`\kappa` of a move, :math:`\kappa'` of its cost, :math:`q_k` which the taker of k pays
to the sender - k costs node i :math:`c_{ik} = q_k` to take and :math:`\kappa + \kappa' mc_k - q_k` to send, and

.. math:: (3) \quad L = \sum_i \min_T \Bigl( \sum_s \lambda_{is} |dev_{is}(T)| + \sum_{k \in T} c_{ik} \Bigr)
          - \kappa \, maxMigrations - \kappa' \, maxMigrCost

is a lower bound, for which the sets of two and less are all tried. Those of three and more cost no less, for any
:math:`|u_{is}| \le \lambda_{is}`, than

.. math:: (4) \quad \sum_s u_{is} \, dev_{is}(\emptyset) + \min_{|T| \ge 3} \sum_{k \in T}
          \Bigl( c_{ik} + \sum_s u_{is} a_{iks} \Bigr),

which are the three least terms, and all further ones below 0. A pair costs no less than its own two terms, so that few are tried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.workload import FloatArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.joint_relaxation import AT_ONCE, PAYS, JointRelaxation, MoveMaster


class PairPrices(NamedTuple):
    """Multipliers of (3) and (4)."""

    size: FloatArray
    signed: FloatArray
    taken: FloatArray
    move: float
    cost: float
    sets: FloatArray
    """What the program's cheapest set of each node costs, shape (n,)."""
    parts: FloatArray
    """What each node's x cost at least to be of use, shape (n,)."""


class PairMaster(MoveMaster):
    """The linear program over the sets and shares met so far.

    Rows, after those of its base: (1), the balance of each key group, (2) with either sign, the number of shares.
    """

    def __init__(self, instance: Instance, rest: FloatArray) -> None:
        super().__init__(instance, rest)
        n, p, k = instance.nodes, instance.key_groups, instance.windows
        first = int(self.highs.getNumRow())
        self.one, self.balance = first, first + n
        self.above, self.below, self.least = first + n + p, first + n + p + n * k, first + n + p + 2 * n * k
        low = np.repeat([1.0, 0.0], [n, p + 2 * n * k + n])
        high = np.repeat([1.0, 0.0, self.infinity], [n, p, 2 * n * k + n])
        self.highs.addRows(low.size, low, high, 0, np.zeros(low.size, np.int32), np.empty(0, np.int32), np.empty(0))
        for s in range(k):
            for i in range(n):
                self.highs.changeCoeff(self.above + i * k + s, s, 1.0)
                self.highs.changeCoeff(self.below + i * k + s, s, 1.0)
        self.shares, self.sets = set[tuple[int, int]](), set[tuple[int, ...]]()
        self.others = int(self.highs.getNumCol())
        for i in range(n):
            self._column([(self.one + i, 1.0), (self.least + i, -3.0), *self._parts(i, rest[i])])
        for i in range(n):
            self.add_set(i)

    def _column(self, entries: list[tuple[int, float]]) -> None:
        sums = defaultdict[int, float](float)  # two that are sent have rows in common
        for row, value in entries:
            sums[row] += value
        rows = [row for row, value in sums.items() if value != 0.0]
        values = np.array([sums[row] for row in rows])
        self.highs.addCol(0.0, 0.0, self.infinity, len(rows), np.array(rows, np.int32), values)

    def _parts(self, i: int, dev: FloatArray) -> list[tuple[int, float]]:
        """Entries of (2), where a draining node's deviation counts upwards only."""
        at, some = i * dev.size, list(enumerate(dev.tolist()))
        down = [] if self.instance.draining[i] else [(self.below + at + s, value) for s, value in some]
        return [(self.above + at + s, -value) for s, value in some] + down

    def _exchanged(self, i: int, k: int) -> list[tuple[int, float]]:
        """Entries of a key group that a node sends or takes."""
        if self.instance.current[k] != i:
            return [(self.balance + k, 1.0)]
        cost = float(self.instance.cost[k]) / self.cost_unit
        return [(self.balance + k, -1.0), (self.limits, 1.0), (self.limits + 1, cost)]

    def add_set(self, i: int, *some: int) -> bool:
        """Add a set of a node, and whether it is new."""
        if (i, *some) in self.sets:
            return False
        it = self.instance
        self.sets.add((i, *some))
        dev = self.rest[i] + sum(signed_loads(it, i)[list(some)])
        size = np.maximum(dev, 0.0) if it.draining[i] else np.abs(dev)
        at = i * it.windows
        both = [(row + at + s, -value) for row in (self.above, self.below) for s, value in enumerate(size.tolist())]
        self._column([(self.one + i, 1.0), *both, *(entry for k in some for entry in self._exchanged(i, k))])
        return True

    def add_share(self, i: int, k: int) -> None:
        """Add x of a key group on a node, with the row that y limits it by."""
        it, column = self.instance, int(self.highs.getNumCol())
        self.shares.add((i, k))
        sign = -1.0 if it.current[k] == i else 1.0
        self._column(
            [(self.least + i, 1.0), *self._parts(i, sign * it.loads[k] * it.weight[i]), *self._exchanged(i, k)]
        )
        self._row(-self.infinity, 0.0, [self.others + i, column], [-1.0, 1.0])

    def prices(self) -> PairPrices:
        """The duals as multipliers that the bound may take."""
        it, duals = self.instance, np.array(self.highs.getSolution().row_dual)
        shape, planned = (it.nodes, it.windows), it.problem.planned
        up, down = np.maximum(duals[self.above : self.least], 0.0).reshape(2, *shape)
        sums = (up + down).sum(axis=0)
        over = float((sums / planned.most).max(initial=1.0))
        shrink = 1 / (max(1.0, over, 1.0 if planned.over == "mean" else float(sums.sum())) * (1 + 1e-12))
        size, signed = shrink * (up + down), shrink * np.where(it.draining[:, None], up, up - down) * (1 - 1e-12)
        move, cost = np.maximum(-duals[self.limits : self.limits + 2], 0.0)
        return PairPrices(
            size, signed, -duals[self.balance : self.above], float(move), float(cost) / self.cost_unit,
            duals[self.one : self.balance], duals[self.least : self.least + it.nodes],
        )  # fmt: skip


def pass_of(instance: Instance) -> float:
    """A pass over all moves in all windows, in steps of a search."""
    return 0.04 * instance.space.pairs * (4 + instance.windows)


def pairs_fit(instance: Instance) -> bool:
    """Whether a round of whole pairs is not long."""
    return 8 * instance.space.pairs * instance.windows <= AT_ONCE


def bounds_over_windows(
    instance: Instance, budget: Budget, waits: Callable[[float], bool] = lambda steps: False
) -> Iterator[float]:
    """Ever better bounds, in units of the mean: the joint relaxation's, then those of whole pairs where these are not long.

    Before a first round of so many steps of search these wait for as long as they are told to.
    """
    joint = JointRelaxation(instance, lambda: budget.expired)
    yield joint.begin()
    while not (joint.ended or budget.expired):
        yield joint.improve(1)
        budget.spend(pass_of(instance) + joint.master.steps)
    if not pairs_fit(instance) or instance.max_moves == 0:
        return
    steps = 80.0 * instance.space.pairs * instance.windows  # of search, which take about as long as a round
    while waits(steps):
        yield joint.best
    for low in WholePairs(joint).improve():
        budget.spend(steps)
        yield low


def signed_loads(it: Instance, i: int) -> FloatArray:
    """By what each key group changes the deviations of a node that sends or takes it, shape (p, k)."""
    return np.where(it.current == i, -it.weight[i], it.weight[i])[:, None] * it.loads


class WholePairs:
    """The best bound so far, in units of the mean; it goes on where a joint relaxation has ended.

    Parameters
    ----------
    joint : JointRelaxation
    """

    def __init__(self, joint: JointRelaxation) -> None:
        self.instance, self.joint, self.best = joint.instance, joint, joint.best
        self.master = PairMaster(joint.instance, joint.rest)
        self.open_to = joint.open_to(np.arange(joint.instance.key_groups))
        current = joint.instance.current.tolist()
        moved = {(i, k) for k, j in joint.master.moves for i in (j, current[k])}
        for share in sorted(moved):
            self.master.add_share(*share)

    def improve(self) -> Iterator[float]:
        """The best bound after every round, until none adds columns."""
        new = 1
        while new and self.master.solve():
            prices, new = self.master.prices(), 0
            total = -prices.move * self.instance.max_moves
            total -= prices.cost * self.instance.max_cost if prices.cost > 0 else 0.0
            for i in range(self.instance.nodes):
                if self.joint.expired():
                    return
                least, added = self._node(i, prices)
                total, new = total + least, new + added
            self.best = max(self.best, total - self._rounding(prices))
            yield self.best

    def _rounding(self, prices: PairPrices) -> float:
        """The most that rounding can have added to (3)."""
        it = self.instance
        each = 2 * np.abs(prices.taken).sum() + prices.cost * it.cost.sum()
        each += prices.move * it.key_groups + (prices.cost * it.max_cost if prices.cost > 0 else 0.0)
        return 8 * it.error_bound * float(prices.size.sum()) + 1e-12 * float(each)

    def _node(self, i: int, prices: PairPrices) -> tuple[float, int]:
        """The least of (3) for a node, and how many columns were added."""
        it, weight, change = self.instance, prices.size[i], signed_loads(self.instance, i)
        own = it.current == i
        cost = np.where(own, prices.move + prices.cost * it.cost - prices.taken, prices.taken)
        cost[~own & ~self.open_to[:, i]] = np.inf
        size: Callable[[FloatArray], FloatArray] = (lambda dev: np.maximum(dev, 0.0)) if it.draining[i] else np.abs
        reduced, base = cost + change @ prices.signed[i], float(prices.signed[i] @ self.joint.rest[i])
        order = np.argsort(reduced)
        part = np.sort(reduced)
        others = base + float(part[:3].sum() + np.minimum(part[3:], 0.0).sum()) if part.size > 2 else np.inf
        single = self.joint.rest[i] + change
        values = size(single) @ weight + cost
        least = min(float(size(self.joint.rest[i]) @ weight), float(values.min()))
        singles = np.argsort(values)[:3]
        sets: list[tuple[int, ...]] = [(k,) for k in singles.tolist() if values[k] < prices.sets[i] - PAYS]
        for at, k in enumerate(order.tolist()):
            near = order[at + 1 : int(np.searchsorted(part, least - base - part[at], side="right"))]
            if near.size == 0:
                break
            pairs = size(single[k] + change[near]) @ weight + cost[k] + cost[near]
            best = int(pairs.argmin())
            least = min(least, float(pairs[best]))
            if pairs[best] < prices.sets[i] - PAYS:
                sets.append((min(k, int(near[best])), max(k, int(near[best]))))
        added = sum(self.master.add_set(i, *some) for some in sets[-20:])
        paying = order[: int(np.searchsorted(part, prices.parts[i] - PAYS))].tolist()
        new = [k for k in paying if (i, k) not in self.master.shares][:20]
        for k in new:
            self.master.add_share(i, k)
        return min(least, others), added + len(new)

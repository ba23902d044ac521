r"""A search for MCLB in few windows: by the best of all splits of what two nodes have.

Let nodes i and j hold the key groups F and what is left where it is, with loads :math:`r_i` and :math:`r_j`. Whatever
part S of F is on i,

.. math::

    (1) \quad |d_i|^2 + |d_j|^2 = \tfrac{1}{2} |d_i + d_j|^2 + 2 \, |y_S - t|^2, \qquad
    t = \tfrac{1}{2} (r_j + y_F - r_i), \quad y_S = \sum_{k \in S} y_k,

with d the deviations from the mean. The S nearest to t is a pair of a subset of one half of F and of the other, sorted by
their loads in the direction in which these differ most [Horowitz1974]. Two nodes are settled so, then two others, until no
pair gains; then a few key groups are shaken. Where windows are few, all splits of twenty key groups come nearer to the mean
than any moves and swaps do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from keyshift.models import Budget
from keyshift.models.base.compiling import njit
from keyshift.models.mclb.problem import Core, sums_on_nodes
from keyshift.models.workload import IntArray
from keyshift.solvers.set_partitioning import half_sums
from keyshift.solvers.tuning import MCLBSettings

MOST_NODES = 40
"""More have too many pairs."""
SIZES = (18, 22, 26)
"""How many key groups of two nodes are split anew, chosen at random where there are more; from round to round in turn."""
IDLE, LOOKED = 30, 60_000_000
"""At `effort` 1 the search ends after so many rounds without a better placement, or so many pairs of subsets looked at; no round
looks at more: where a budget leaves out most subsets, each pair of nodes gains little and looks at nearly all."""
LEAST = 1e-6
"""Two nodes whose split can gain no more than this share of the sum of squares are left."""
LOOK = 6.0
"""A pair of subsets takes as long as so many candidates of an annealing."""
ROUNDING = 1e-13
"""By less than this share of all load, what two nodes differ by is rounding."""


class PlacementTurns(ABC):
    """A search that can be interrupted, and goes on as if it had not been.

    Attributes
    ----------
    best, value, own : ndarray, float, float
        The best placement, and its sum of squares; the least that it came to by itself.
    """

    def __init__(self, core: Core, best: IntArray) -> None:
        self.core, self.best, self.value, self.own = core, best, core.squares(best), math.inf

    @abstractmethod
    def unfinished(self, effort: float, enough: float) -> bool:
        """Whether there is more to do within so much effort, and something better to find than `enough`."""

    @abstractmethod
    def turn(self, budget: Budget) -> None:
        """A little work."""

    def go_on(self, budget: Budget, effort: float = 1.0, enough: float = 0.0) -> IntArray:
        """The best placement after so much effort in all, or once the sum of squares is `enough`."""
        while self.unfinished(effort, enough) and not budget.expired:
            self.turn(budget)
        return self.best

    def take(self, found: IntArray) -> bool:
        """Whether a placement within the budget is better: then it is the best."""
        value = self.core.squares(found)
        better = value < self.value and self.core.moved(found) <= self.core.budget
        if better:
            self.best, self.value = found.copy(), value
        return better


class PairSplits(PlacementTurns):
    """Rounds: a few key groups are shaken, and pair after pair is split anew."""

    def __init__(self, core: Core, best: IntArray, seed: int) -> None:
        super().__init__(core, best)
        self.rng = np.random.default_rng([seed, 7])
        self.load = np.ascontiguousarray(core.load @ np.linalg.eigh(core.load.T @ core.load)[1][:, ::-1])
        self.noise = float(np.square(ROUNDING * self.load.sum(axis=0)).sum())
        self.rounds, self.idle, self.looked = 0, 0, 0

    @staticmethod
    def suits(core: Core, settings: MCLBSettings) -> bool:
        """Whether windows and nodes are few enough, and no rules tell nodes apart."""
        few_windows = core.load.shape[1] <= settings.split_windows
        return 1 < core.nodes <= MOST_NODES and few_windows and not core.labelled

    def unfinished(self, effort: float, enough: float) -> bool:
        """Whether it found something better lately, and there is something better to find."""
        return self.idle <= effort * IDLE and self.looked <= effort * LOOKED and self.value > enough

    def turn(self, budget: Budget) -> None:
        """One round: shake, and split pair after pair anew."""
        start = shaken(self.core, self.best, self.rng) if self.rounds else self.best
        found = self._settled(start, SIZES[self.rounds % len(SIZES)], budget)
        self.rounds, self.idle = self.rounds + 1, self.idle + 1
        self.own = min(self.own, self.core.squares(found))
        if self.take(found):
            self.idle = 0

    @property
    def work(self) -> float:
        """The candidates of an annealing that take as long as the pairs that were looked at."""
        return LOOK * self.looked

    def _settled(self, start: IntArray, most: int, budget: Budget) -> IntArray:
        """Split pair after pair anew, the one that can gain most first, until none does."""
        core, place, n = self.core, start.copy(), self.core.nodes
        away = sums_on_nodes(self.load, place, n) - self.load.sum(axis=0) / n
        open_ = np.triu(np.ones((n, n), dtype=bool), 1)
        begun = self.looked
        while self.looked - begun < LOOKED and not budget.expired:
            gains = np.square(away[:, None] - away[None]).sum(axis=2) / 2
            i, j = np.unravel_index(np.where(open_, gains, 0.0).argmax(), gains.shape)
            gain = float(gains[i, j])
            if not open_[i, j] or gain <= max(self.noise, LEAST * float(np.square(away).sum())):
                break
            open_[i, j] = False
            free = np.flatnonzero((place == i) | (place == j))
            free = free if free.size <= most else np.sort(self.rng.choice(free, most, replace=False))
            on_i = place[free] == i
            rest = away[i] - self.load[free[on_i]].sum(axis=0)
            target = (away[i] + away[j]) / 2 - rest  # (1), in deviations
            move_cost = core.state[free] * (1.0 * (core.current[free] != i) - (core.current[free] != j))
            place[free] = j
            room = core.budget - core.moved(place) if core.limited else math.inf
            rows, half = np.c_[self.load[free], move_cost], free.size // 2
            low, high = half_sums(rows[:half]), half_sums(rows[half:])
            bits, looked = nearest_subset(low, high, half, target, room, gain / 2 * (1 - 1e-9))
            budget.spend(looked / 10)
            self.looked += looked
            chosen = on_i if bits < 0 else (bits >> np.arange(free.size)) & 1 > 0
            place[free[chosen]] = i
            if bits >= 0:
                now = rest + self.load[free[chosen]].sum(axis=0)
                away[j] += away[i] - now
                away[i] = now
                others = np.arange(n)
                for one in (i, j):
                    open_[np.minimum(one, others), np.maximum(one, others)] = others != one
                open_[i, j] = False
        return place


def shaken(core: Core, best: IntArray, rng: np.random.Generator) -> IntArray:
    """A few key groups anywhere; where that is beyond the budget, others go back until it is not."""
    made = best.copy()
    some = rng.permutation(made.size)[: int(rng.integers(2, 6))]
    made[some] = rng.integers(0, core.nodes, some.size)
    back = rng.permutation(made.size)
    over = core.moved(made) - core.budget
    for k in back[(made[back] != core.current[back]) & (core.state[back] > 0)]:
        if over <= 0:
            break
        over -= core.state[k]
        made[k] = core.current[k]
    return made if core.moved(made) <= core.budget else best.copy()


# The compiled loops --------------------------------------------------------------------------------------------------


@njit(cache=True)
def nearest_subset(low, high, half, target, room, least):
    """The bits of the subset within the room that is nearest to the target, and the pairs looked at.

    `low` and `high` hold the loads of all subsets of the first `half` key groups and of the others, and in a last column their
    state. The bits are -1 where no square is below `least`.
    """
    order = np.argsort(high[:, 0])
    high = high[order]
    first = high[:, 0].copy()
    best, looked = np.int64(-1), 4 * target.size * (low.shape[0] + high.shape[0])
    for a in range(low.shape[0]):
        want = target - low[a, :-1]
        at = np.searchsorted(first, want[0])
        for way in (1, -1):
            b = at if way == 1 else at - 1
            while 0 <= b < first.size:
                off = first[b] - want[0]
                square = off * off
                if square >= least:
                    break
                looked += 1
                for t in range(1, want.size):
                    off = high[b, t] - want[t]
                    square += off * off
                    if square >= least:
                        break
                if square < least and low[a, -1] + high[b, -1] <= room:
                    least, best = square, a | order[b] << half
                b += way
    return best, looked

r"""Annealed search for key-group allocation: how "milp" finds most of its answers.

The largest deviation alone says nothing about which step helps; :math:`\sum_i |dev_i|^4` does. A step edits what has moved: two
exchange their nodes; another key group of the same node leaves instead; a move starts or ends elsewhere; a node is put between
the ends of a move, or taken out from there (`keyshift.solvers.search.moves`). Half of the key groups that a step draws are
those whose load comes nearest to the difference wanted. No guarantee on the objective; a step takes O(log p).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import LEAF, generator, njit
from keyshift.models.workload import IntArray
from keyshift.solvers.allocation.arrays import Instance, alike
from keyshift.solvers.search.annealing import Cooling, LocalSearch, shares_of
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.search.program import Aim
from keyshift.solvers.tuning import AllocationSettings

SHARES = shares_of(
    insert=0.15, swap_targets=0.2125, replace=0.2125, retarget=0.085, replace_source=0.085, reinsert=0.034, go_home=0.017,
    reroute_chain=0.136, shorten_chain=0.034, lengthen_chain=0.034,
)  # fmt: skip
COUNTS_KEPT = shares_of(swap_targets=0.5, replace=0.5)
"""Moves that keep how many key groups leave and reach each node."""


class Round(NamedTuple):
    """Settings of a round of annealing; `fresh` ones start from the current assignment, the others from the best assignment."""

    steps: int
    hot: float
    cold: float
    doublings: int
    fresh: bool


class Search:
    """Rounds of annealing; each starts from an assignment of the caller's.

    Parameters
    ----------
    instance : Instance
    seed : int
    expired : callable, optional
        Ends a long round when it says so.
    spend : callable, optional
        Told of the steps that are taken.
    """

    def __init__(
        self,
        instance: Instance,
        seed: int,
        expired: Callable[[], bool] = lambda: False,
        spend: Callable[[float], None] = lambda steps: None,
        settings: AllocationSettings | None = None,
    ) -> None:
        self.seed, self.expired, self.spend = seed, expired, spend
        self.steps = (settings or AllocationSettings()).steps
        it = self.instance = instance
        posed = Posed(it.problem, goal="load_distance", guided=True)
        self.ratio = it.problem.scale / posed.unit
        self.search = LocalSearch(posed.placing, SHARES, seed, 0)
        self.rows = posed.placing.program.rows if it.problem.lowered else None
        self.heaviest = float(it.load.max(initial=0.0))
        # Between two looks at the clock; a step on a large instance waits for memory.
        self.chunk = min(20_000 + 4 * it.key_groups, (1_000_000 + it.key_groups // 10) // it.windows)
        # Few nodes are far from the mean then, and must outweigh the many near it.
        self.sharper = 2 if it.nodes > 64 and it.max_moves < 2 * it.nodes else 0

    @property
    def polish(self) -> Round:
        """The round that improves an assignment without leaving its neighbourhood."""
        return Round(self.steps // 3, 0.3, 0.03, 2, False)

    @property
    def size(self) -> float:
        """By what rounds are longer where many may move."""
        return float(np.clip((self.instance.max_moves / 40) ** 1.5, 1.0, 100.0))

    @property
    def uneven(self) -> bool:
        """Whether loads differ so much, on so large an instance under rules, that longer rounds find more."""
        load = self.instance.load
        large = self.rows is not None and self.instance.space.pairs > 5_000
        return large and bool(load.std() >= 0.5 * load.mean())

    def schedule(self, turn: int) -> Round:
        """Steps and temperatures of a round.

        Many short rounds from the current assignment find more than one long one, and fourth powers and squares find
        different things.
        Large instances need long rounds. There short and cold ones, each twice as long, improve the given start first,
        so that a short time limit is served too; later every third round continues from the best. Uneven loads under rules
        need long rounds, too, and every third heats the best up again, with squares and eighth powers in turn.
        """
        if self.instance.windows > 1:
            return self._over_windows(turn)
        size, last_of_cycle = self.size, turn % 3 == 2
        if self.uneven and size < 10.0:
            steps = int(self.steps * min(size * 2.0**turn, 10.0))
            if last_of_cycle:
                return Round(steps, 2.0, 0.05, 1 if turn % 2 == 0 else 3, False)
            return Round(steps, 3.0, 0.1, 2, True) if turn % 2 == 0 else Round(steps, 1.0, 0.1, 1, True)
        short = 2.0 ** min(turn, 30) < size
        steps = int(self.steps * (2.0**turn if short else size * (1.0 + turn / 60)))
        if short or (size > 1 and last_of_cycle):
            return Round(steps, 0.1, 0.01, 1, False) if turn % 2 == 0 else Round(steps, 0.3, 0.03, 2, False)
        return Round(steps, 3.0, 0.1, 2, True) if turn % 2 == 0 else Round(steps, 1.0, 0.1, 1, True)

    def _over_windows(self, turn: int) -> Round:
        """Temperatures and exponents in turn: at the highest almost every move is accepted, which finds what no step leads to.

        Where a round takes a second or more, the first one is cold, on squares and from the start, which comes down soonest.
        """
        most = self.instance.max_moves
        size = float(np.clip(most / 20, 1.0, 20.0))
        if turn == 0 and most > 100 * size:
            return Round(int(2 / 3 * self.steps * size * np.clip(most / 30_000, 0.5, 2.0)), 0.05, 0.005, 1, False)
        hot = (0.6, 1.5, 0.3, 30.0)[turn % 4]
        doublings = (3, 2, 4, 3, 5)[turn % 5]
        if self.instance.problem.planned.over != "max":  # there the energy counts distance, not nodes
            hot *= 2.0**doublings / 30
        return Round(int(2 / 3 * self.steps * size), hot, 0.02 * hot, doublings, turn % 3 == 0)

    def begin(self, start: IntArray, stream: int, *, counts_kept: bool = False) -> None:
        """Start a round from an assignment within the migration limits; others may be broken, to be repaired."""
        moved = int((start != self.instance.current).sum())
        if moved > self.instance.max_moves:
            raise ValueError(f"{moved} key groups have moved, the limit is {self.instance.max_moves}")
        self.search.shares = COUNTS_KEPT if counts_kept else SHARES
        self.search.rng = generator(self.seed, stream)
        self.search.begin(start)
        self.level = self.instance.level(start) if moved else 0.0

    def cool(self, turn: int, start: IntArray | None = None) -> IntArray | None:
        """Anneal by deviations that are given, not by the best one known: slower, and it ends elsewhere each time.

        Returns
        -------
        ndarray or None
            The best assignment met, None when none is below the first level.
        """
        it = self.instance
        typical = float(it.load.mean())
        first = typical * (0.2 if start is None else 0.12)
        steps = int(self.steps * self.size)
        chunks = max(5, steps // self.chunk)
        doublings = 1 + turn % 2
        levels = np.geomspace(first, typical * 0.006, chunks + 1)
        best, value = None, first
        self.begin(it.current if start is None else start, turn)
        for hot, cold in pairwise(levels):
            power = 2.0**doublings
            found = self.run(steps // chunks, (hot / value) ** power, (cold / value) ** power, value, doublings)
            if found is not None:
                best, value = found, it.distance(found)
            if value == 0.0 or self.expired():
                break
        return best

    def realise(self, start: IntArray, distance: float, stream: int) -> IntArray | None:
        """Anneal by moves alone that keep how many key groups leave and reach each node; None where it ends far off."""
        if distance <= 0.0:
            return None
        self.begin(start, stream, counts_kept=True)
        best, value, steps = None, 8.0 * distance, self.steps // 2
        chunks = max(5, steps // self.chunk)
        heats = np.geomspace(1.0, 0.01, chunks + 1)
        for hot, cold in pairwise(heats):
            unit = (distance / value) ** 8
            found = None if self.expired() else self.run(steps // chunks, hot * unit, cold * unit, value, 3)
            if found is not None:
                best, value = found, self.instance.distance(found)
            if value == 0.0:
                break
        return best

    def run(self, steps: int, hot: float, cold: float, value: float, doublings: int = 2) -> IntArray | None:
        """Anneal for some steps.

        Parameters
        ----------
        steps : int
        hot, cold : float
            Temperature first and last, in units of one node at the best distance.
        value : float
            Load distance to beat, in units of the mean; `inf` takes the first assignment within all capacities.
        doublings : int, default 2
            The exponent is 2 to this power, or `sharper`.

        Returns
        -------
        ndarray or None
            The best assignment found, None when none is below `value`.
        """
        it, planned = self.instance, self.instance.problem.planned
        self.spend(2 * steps * it.windows)
        value = min(value, it.excess_weight)
        unit, doublings = max(value, 1e-9), doublings + self.sharper
        # Far from the mean any move changes the energy by little: hotter than what the heaviest does, all moves are alike.
        colder = min(1.0, 0.7 * 2.0**doublings * self.heaviest / unit)
        aim = Aim(
            doublings, unit * self.ratio, most=np.ascontiguousarray(planned.most), worst=it.windows == 1 or planned.over == "max",
            level=self.level * self.ratio,
        )  # fmt: skip
        broken = (it.excess_weight / unit) ** (2.0**doublings)  # what a unit in excess of a row counts for
        cooling = Cooling(steps, float(colder * hot), float(colder * cold), broken, broken, least=value * self.ratio)
        assignment, found = self.search.cool(aim, cooling)
        if (
            found == np.inf or it.distance(assignment) >= value
        ):  # the kernel's sums, kept up move by move, are off by rounding
            return None
        self.level = it.level(assignment) if self.level else 0.0  # a round from the current nodes looks at all windows
        return assignment


# Where it begins -------------------------------------------------------------------------------------------------------


def from_highest_to_lowest(it: Instance, expired: Callable[[], bool] = lambda: False) -> IntArray | None:
    """Move one key group after another from the node furthest above the mean to the one furthest below.

    Of those that have not moved it is the one whose load is nearest to what would make the two nodes even, as long as that
    brings them nearer to each other. So few moves carry the most load, and of many the last are small. A draining node is
    above by all that it has, and receives nothing. No guarantee; O(n + log p) a move. Over windows it goes by the mean load. None
    unless nodes are `alike`.
    """
    if not alike(it.problem):
        return None
    movers = it.space.movers
    order = movers[np.lexsort((it.load[movers], it.current[movers]))]
    starts = np.searchsorted(it.current[order], np.arange(it.nodes + 1))
    place, dev = it.current.copy(), it.deviations(it.current) + it.mean * it.draining
    links = np.array([np.arange(order.size + 1)] * 2)
    moves, left, most = -1, it.max_moves, max(1, 50_000_000 // it.nodes)
    cost = it.max_cost
    while moves and left and not expired():
        moves, cost = move_to_lowest(
            it.load, it.weight, it.cost, ~it.draining, order, starts, dev, (min(left, most), cost), links, place
        )
        left -= moves
    return place


@njit(**LEAF)
def unmoved(at, links):
    """The next place, from one on, of a key group that has not moved; ways to it are halved."""
    while links[at] != at:
        links[at] = links[links[at]]
        at = links[at]
    return at


@njit(**LEAF)
def move_to_lowest(load, weight, cost, kept, order, starts, dev, limits, links, place):
    """`from_highest_to_lowest`, so many moves of it; key groups that may move are ordered by node, then by load.

    ``links[0, x]`` leads from place x to the next one above that has not moved, ``links[1, x + 1]`` to the next below.
    """
    most, cost_left = limits
    for moves in range(most):
        high, low = 0, -1
        for i in range(dev.size):
            high = i if dev[i] > dev[high] else high
            low = i if kept[i] and (low < 0 or dev[i] < dev[low]) else low
        even = (dev[high] - dev[low]) / (weight[high] + weight[low])
        first, last = starts[high], starts[high + 1]
        above, end = first, last
        while above < end:
            middle = (above + end) // 2
            above, end = (middle + 1, end) if load[order[middle]] < even else (above, middle)
        below, above = unmoved(above, links[1]) - 1, unmoved(above, links[0])
        best, off = -1, even * (1 - 1e-9)
        for at in (below, above):
            if first <= at < last and abs(load[order[at]] - even) < off and cost[order[at]] <= cost_left:
                best, off = at, abs(load[order[at]] - even)
        if best < 0:
            return moves, cost_left
        k, links[0, best], links[1, best + 1] = order[best], best + 1, best
        place[k] = low
        dev[high] -= load[k] * weight[high]
        dev[low] += load[k] * weight[low]
        cost_left -= cost[k]
    return most, cost_left

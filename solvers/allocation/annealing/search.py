r"""Annealed search over lists of moves: how "milp" finds most of its answers.

The largest deviation alone says nothing about which step helps; :math:`\sum_i |dev_i|^4` does. An assignment is a list
of moves (key group, node), and a step edits one or two of them: two exchange their nodes; another key group of the same
node leaves instead; a move starts or ends elsewhere; a node is put between the ends of a move, or taken out from there.
Half of the key groups that a step draws are those whose load comes nearest to the difference wanted. A step is taken
when the sum does not rise, or with a probability that falls as the search cools. No guarantee on the objective; a step
takes O(log p).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from keyshift.models.rules.ruled import MergedItems
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.kernels import Pass, Touched, anneal
from keyshift.solvers.allocation.annealing.move_kernels import Edit
from keyshift.solvers.allocation.annealing.state_kernels import SearchData, SearchState, put_all
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.settings import AllocationSettings
from keyshift.solvers.kernels import generator
from keyshift.solvers.rows import RuleRows, rule_rows

SHARES = np.array([0.15, 0.25, 0.50, 0.60, 0.70, 0.74, 0.76, 0.92, 0.96])
"""The share of steps that try one migration more; then the shares of the other moves in the order of `propose`, summed up, of
which the last has the rest."""
FIRST_LEVEL = 0.2
"""The deviation at which `cool` begins, in units of the mean load of a key group."""
COUNTS_KEPT = np.array([0.0, 0.5, *[1.0] * 7])
"""Shares of the moves that keep how many key groups leave and reach each node: targets change places, or another leaves."""


def data_of(instance: Instance, order: IntArray, rows: RuleRows | None) -> SearchData:
    """The instance as the kernels take it; who may leave, by current node, in the order given."""
    it, planned = instance, instance.problem.planned
    load, mean, windows = it.load, it.means, None
    if it.windows > 1:
        load, mean, windows = np.column_stack([load, it.loads]), np.concatenate([[it.mean], mean]), it.windows
    return SearchData(
        load, load if windows is None else load[:, 0], it.weight, mean, windows, np.ascontiguousarray(planned.most),
        windows is None or planned.over == "max", it.draining, it.space.open, it.space.enter, it.space.kind, it.current, it.use,
        it.room, it.bump, it.cost, it.max_cost, it.max_moves, order, it.space.by_node[1],
        np.array([it.window_deviations(it.current)[:, 0], np.zeros(it.nodes)]), rows,
    )  # fmt: skip


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
    ) -> None:
        self.seed, self.steps, self.expired, self.spend = seed, AllocationSettings.now().steps, expired, spend
        self.items = MergedItems.of(instance.problem.lowered)
        it = self.instance = Instance(self.items.problem(instance.problem)) if self.items.lowered.merged else instance
        self.rows = rule_rows(it.problem.lowered, it.nodes) if it.problem.lowered else None
        self.data = data_of(it, it.by_load, self.rows)
        self.chunk = 20_000 + 4 * it.key_groups  # between two looks at the clock
        # Few nodes are far from the mean then, and must outweigh the many near it.
        self.sharper = 2 if it.nodes > 64 and it.max_moves < 2 * it.nodes else 0
        self.best_moves = np.full((2, it.max_moves + 1), -1, np.int64)
        slots, keys, targets = np.full((3, 2), -1, np.int64)
        self.edit = Edit(slots, keys, targets, SHARES.copy())
        self.touched = Touched(
            np.empty(8, np.int64), self.empty(8), np.empty((it.use.shape[0], 8)), self.empty(8), self.empty(8),
            np.empty(it.windows), self.empty(3),
        )  # fmt: skip

    def empty(self, size: int, more: int = 0) -> FloatArray:
        """Room for a number a window, and so many more, of each node or key group; of one window without columns."""
        return np.empty(size) if self.data.windows is None else np.empty((size, self.data.windows + more))

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
        """Temperatures and exponents in turn: at the highest almost every move is accepted, which finds what no step leads to."""
        size = float(np.clip(self.instance.max_moves / 20, 1.0, 20.0))
        hot = (0.6, 1.5, 0.3, 30.0)[turn % 4]
        doublings = (3, 2, 4, 3, 5)[turn % 5]
        if self.instance.problem.planned.over != "max":  # there the energy counts distance, not nodes
            hot *= 2.0**doublings / 30
        return Round(int(2 / 3 * self.steps * size), hot, 0.02 * hot, doublings, turn % 3 == 0)

    def begin(self, start: IntArray, stream: int, shares: FloatArray | None = None) -> None:
        """Start a round from an assignment within the migration limits; capacities may be broken, to be repaired.

        `shares` says how often each move is drawn.
        """
        self.edit.shares[:] = SHARES if shares is None else shares
        it, start = self.instance, self.items.contracted(start)
        self.rng = generator(self.seed, stream)
        away = np.flatnonzero(start != it.current)
        if away.size > it.max_moves:
            raise ValueError(f"{away.size} key groups have moved, the limit is {it.max_moves}")
        slots = it.max_moves + 1
        dev = self.empty(it.nodes, 1)
        self.state = SearchState(
            np.full((4, slots), -1, np.int64), np.full(it.key_groups, -1, np.int64), np.full(it.nodes, -1, np.int64),
            dev, dev if dev.ndim == 1 else dev[:, 0], it.used(it.current), self.empty(it.nodes), self.empty(it.nodes),
            np.zeros(3), *self._empty_rows(),
        )  # fmt: skip
        self.level = it.level(start) if away.size else 0.0
        put_all(away, np.asarray(start, dtype=np.int64), self.data, self.state)

    def _empty_rows(self) -> tuple[FloatArray, IntArray, IntArray] | tuple[None, None, None]:
        """Arrays for the sums of the rules' rows, the current nodes and the list of broken rows; None without rules."""
        if self.rows is None:
            return None, None, None
        count = self.rows.most.size
        return np.zeros(count), self.instance.current.copy(), np.zeros(count + 1, np.int64)

    def cool(self, turn: int, start: IntArray | None = None) -> IntArray | None:
        """Anneal by deviations that are given, not by the best one known: slower, and it ends elsewhere each time.

        From the current assignment, a node that nothing has come to or gone from counts for the first level, however near
        the mean it lies: left alone, it would be the worst in the end, when no move is left for it.

        Returns
        -------
        ndarray or None
            The best assignment met, None when none is below the first level.
        """
        it = self.instance
        typical = float(it.load.mean())
        first = typical * (FIRST_LEVEL if start is None else 0.12)
        steps = int(self.steps * self.size)
        chunks = max(5, steps // self.chunk)
        doublings = 1 + turn % 2
        levels = np.geomspace(first, typical * 0.006, chunks + 1)
        best, value = None, first
        start = None if start is None else self.items.contracted(start)
        if start is None:
            self.data.still[1] = np.where(np.abs(it.deviations(it.current)) > typical * 4e-4, first, 0.0)
        self.begin(self.items.expanded(it.current if start is None else start), turn)
        for hot, cold in pairwise(levels):
            power = 2.0**doublings
            found = self.run(steps // chunks, (hot / value) ** power, (cold / value) ** power, value, doublings)
            if found is not None:
                best, value = found, it.distance(self.items.contracted(found))
            if self.expired():
                break
        self.data.still[1] = 0.0
        return best

    def realise(self, start: IntArray, distance: float, stream: int) -> IntArray | None:
        """Anneal by moves alone that keep how many key groups leave and reach each node; None where it ends far off."""
        self.begin(start, stream, COUNTS_KEPT)
        best, value, steps = None, 8.0 * distance, self.steps // 2
        chunks = max(5, steps // self.chunk)
        heats = np.geomspace(1.0, 0.01, chunks + 1)
        for hot, cold in pairwise(heats):
            unit = (distance / value) ** 8
            found = None if self.expired() else self.run(steps // chunks, hot * unit, cold * unit, value, 3)
            if found is not None:
                best, value = found, self.instance.distance(self.items.contracted(found))
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
        it = self.instance
        self.spend(2 * steps * it.windows)
        value = min(value, self.data.bump)
        given = Pass(steps, doublings + self.sharper, float(hot), float(cold), self.level)
        found = anneal(self.rng, given, self.best_moves, value, self.edit, self.touched, self.data, self.state)
        if found >= value:
            return None
        count = self.best_moves[0, -1]
        assignment = it.current.copy()
        assignment[self.best_moves[0, :count]] = self.best_moves[1, :count]
        if it.distance(assignment) >= value:  # the kernel's sums, kept up move by move, are off by rounding
            return None
        self.level = it.level(assignment) if self.level else 0.0  # a round from the current nodes looks at all windows
        return self.items.expanded(assignment)

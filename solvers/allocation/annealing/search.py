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
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from keyshift.models.answer import Settings
from keyshift.models.rules.ruled import MergedItems
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.kernels import Pass, Touched, anneal
from keyshift.solvers.allocation.annealing.move_kernels import Edit
from keyshift.solvers.allocation.annealing.state_kernels import SearchData, SearchState, put_all
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.kernels import generator
from keyshift.solvers.rows import RuleRows, rule_rows


@dataclass(frozen=True)
class AnnealingSettings(Settings):
    """Tuning parameters of the annealed search.

    Attributes
    ----------
    steps : int
        Steps of the first round, and of all on small instances.
    many_moves, longest : float
        With more than `many_moves` migrations, rounds grow with their number to the power of 3/2, at most by the factor
        `longest`.
    chunk : int
        Steps between two checks of the clock; at least four times the number of key groups.
    continue_every : int
        On large instances one round in this many continues from the best assignment.
    many_nodes, sharper : int
        With more than `many_nodes` nodes and few migrations, exponents are doubled `sharper` more times, so that the
        few nodes far from the mean outweigh the many near it.
    insert : float
        Share of steps that try one migration more.
    swap_targets, replace, relocate, replace_source, reinsert, remove, reroute_chain, shorten_chain : float
        Share of each move among the other steps; the rest lengthens chains.
    first_level, last_level, again_level : float
        Deviations between which `cool` lowers the temperature, in units of the mean load of a key group; rounds that
        continue from an assignment begin at the last one.
    cooled_doublings : tuple of int
        The exponents of such rounds, used in turn.
    uneven : float
        Under rules, loads whose standard deviation is this share of their mean or more: longer rounds find more.
    uneven_pairs : int
        With at most this many (key group, node) pairs a solver proves more than longer rounds find.
    uneven_longer : float
        By what such rounds are longer in the end; each of the first is twice as long as the one before.
    still : float
        Nodes this near the mean may be left unchanged, in units of the mean load of a key group.
    exchange_moved, exchange_staying : int
        How many moved and how many unmoved key groups an exchange between three nodes chooses from.
    window_steps : int
        Steps of a round over more than one window; up to `window_longest` times as many where more than `window_moves` may move.
    window_moves, window_longest : float
    window_heats, window_doublings : tuple
        First temperatures and exponents of such rounds, used in turn. At the highest temperature almost every move is
        accepted, which finds assignments that no single improving move leads to.
    window_cooler : float
        Factor of these temperatures, besides P, for the mean and CVaR.
    window_cooling : float
        The last temperature as a share of the first.
    window_fresh : int
        One in this many rounds starts afresh, the others from the best assignment.
    """

    steps: int = 300_000
    many_moves: float = 40
    longest: float = 100.0
    chunk: int = 20_000
    continue_every: int = 3
    many_nodes: int = 64
    sharper: int = 2
    insert: float = 0.15
    swap_targets: float = 0.25
    replace: float = 0.25
    relocate: float = 0.10
    replace_source: float = 0.10
    reinsert: float = 0.04
    remove: float = 0.02
    reroute_chain: float = 0.16
    shorten_chain: float = 0.04
    first_level: float = 0.2
    last_level: float = 0.006
    again_level: float = 0.12
    cooled_doublings: tuple[int, ...] = (1, 2)
    uneven: float = 0.5
    uneven_pairs: int = 5_000
    uneven_longer: float = 10.0
    still: float = 4e-4
    exchange_moved: int = 8
    exchange_staying: int = 60
    window_steps: int = 200_000
    window_moves: float = 20
    window_longest: float = 20.0
    window_heats: tuple[float, ...] = (0.6, 1.5, 0.3, 30.0)
    window_doublings: tuple[int, ...] = (3, 2, 4, 3, 5)
    window_cooler: float = 1 / 30
    window_cooling: float = 0.02
    window_fresh: int = 3

    @property
    def shares(self) -> FloatArray:
        """The share of insertions, then the cumulative shares of the other moves in the order above."""
        others = (
            self.swap_targets, self.replace, self.relocate, self.replace_source, self.reinsert, self.remove,
            self.reroute_chain, self.shorten_chain,
        )  # fmt: skip
        return np.round(np.concatenate(([self.insert], np.cumsum(others))), 9)


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
        self.seed, self.settings, self.expired, self.spend = seed, AnnealingSettings.now(), expired, spend
        self.items = MergedItems.of(instance.problem.lowered)
        it = self.instance = Instance(self.items.problem(instance.problem)) if self.items.lowered.merged else instance
        self.rows = rule_rows(it.problem.lowered, it.nodes) if it.problem.lowered else None
        self.data = data_of(it, it.by_load, self.rows)
        self.chunk = self.settings.chunk + 4 * it.key_groups
        few = it.nodes > self.settings.many_nodes and it.max_moves < 2 * it.nodes
        self.sharper = self.settings.sharper if few else 0
        self.best_moves = np.full((2, it.max_moves + 1), -1, np.int64)
        slots, keys, targets = np.full((3, 2), -1, np.int64)
        self.edit = Edit(slots, keys, targets, self.settings.shares)
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
        return Round(self.settings.steps // 3, 0.3, 0.03, 2, False)

    @property
    def size(self) -> float:
        """By what rounds are longer where many may move."""
        return min(self.settings.longest, max(1.0, (self.instance.max_moves / self.settings.many_moves) ** 1.5))

    @cached_property
    def uneven(self) -> bool:
        """Whether loads differ so much, on so large an instance under rules, that rounds are longer."""
        it, settings = self.instance, self.settings
        if self.rows is None or it.space.pairs <= settings.uneven_pairs:
            return False
        return bool(it.load.std() >= settings.uneven * it.load.mean())

    def schedule(self, turn: int) -> Round:
        """Steps and temperatures of a round.

        Many short rounds from the current assignment find more than one long one, and fourth powers and squares find
        different things.
        Large instances need long rounds. There short and cold ones, each twice as long, improve the given start first,
        so that a short time limit is served too; later every third round continues from the best. Uneven loads under rules
        need long rounds, too, and every third heats the best up again, with squares and eighth powers in turn.
        """
        settings = self.settings
        if self.instance.windows > 1:
            return self._over_windows(turn)
        size = self.size
        last_of_cycle = turn % settings.continue_every == settings.continue_every - 1
        if self.uneven and size < settings.uneven_longer:
            steps = int(settings.steps * min(size * 2.0**turn, settings.uneven_longer))
            if last_of_cycle:
                return Round(steps, 2.0, 0.05, 1 if turn % 2 == 0 else 3, False)
            return Round(steps, 3.0, 0.1, 2, True) if turn % 2 == 0 else Round(steps, 1.0, 0.1, 1, True)
        short = 2.0 ** min(turn, 30) < size
        steps = int(settings.steps * (2.0**turn if short else size * (1.0 + turn / 60)))
        if short or (size > 1 and last_of_cycle):
            return Round(steps, 0.1, 0.01, 1, False) if turn % 2 == 0 else Round(steps, 0.3, 0.03, 2, False)
        return Round(steps, 3.0, 0.1, 2, True) if turn % 2 == 0 else Round(steps, 1.0, 0.1, 1, True)

    def _over_windows(self, turn: int) -> Round:
        it = self.settings
        size = min(it.window_longest, max(1.0, self.instance.max_moves / it.window_moves))
        hot = it.window_heats[turn % len(it.window_heats)]
        doublings = it.window_doublings[turn % len(it.window_doublings)]
        if self.instance.problem.planned.over != "max":  # there the energy counts distance, not nodes
            hot *= it.window_cooler * 2.0**doublings
        return Round(int(it.window_steps * size), hot, it.window_cooling * hot, doublings, turn % it.window_fresh == 0)

    def begin(self, start: IntArray, stream: int) -> None:
        """Start a round from an assignment within the migration limits; capacities may be broken, to be mended."""
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
        it, settings = self.instance, self.settings
        typical = float(it.load.mean())
        first = typical * (settings.first_level if start is None else settings.again_level)
        steps = int(settings.steps * self.size)
        chunks = max(5, steps // self.chunk)
        doublings = settings.cooled_doublings[turn % len(settings.cooled_doublings)]
        levels = np.geomspace(first, typical * settings.last_level, chunks + 1)
        best, value = None, first
        start = None if start is None else self.items.contracted(start)
        if start is None:
            self.data.still[1] = np.where(np.abs(it.deviations(it.current)) > typical * self.settings.still, first, 0.0)
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

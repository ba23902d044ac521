"""The placement program: what a search, whatever its problem, reads and keeps in step.

Key groups that move as one are one item. A limit is a row (`keyshift.solvers.rows`) or a band of load; so is a measure that is
linear: a row whose most is 0. What else is minimised is the traffic between nodes or how far loads are from the mean (`Aim`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from keyshift.models.objectives import Searched
from keyshift.models.rules.lowered import ROUNDING, Lowered, MoveBudget, Rooms
from keyshift.models.rules.ruled import MergedItems
from keyshift.models.workload import BoolArray, FloatArray, IntArray, MoveSpace
from keyshift.solvers.rows import RowFamily, RuleRows, families, leaving, rows_of, sharing

UNLIMITED = 1e18
"""Stands for "no limit" in compiled loops."""
MOST_SHIFTS = 8
"""Key groups that one step moves, at most."""


class Loads(NamedTuple):
    """Loads in k windows; node i of capacity 1 / weight_i deviates by its load times weight_i, less the mean."""

    load: FloatArray
    """Of each key group, were all its traffic remote, shape (p, k)."""
    share: FloatArray
    """The windows' weights in a mean, shape (k,)."""
    weight: FloatArray
    mean: FloatArray
    """A share of all load and a rest, shape (2, k)."""
    draining: BoolArray
    """Nodes whose deviation counts upwards only."""
    bands: FloatArray
    """The most that a node may carry, as a share of all load and a rest, then the least, shape (4, k, n), or (4, k, 0)."""
    total: FloatArray
    """Load of the whole system, were all traffic remote, shape (k,)."""
    serialisation: FloatArray
    """The load of all traffic together, shape (k,)."""
    fixed: bool
    """Whether that is nothing: then a step changes the nodes that it touches alone."""


class TrafficGraph(NamedTuple):
    """Traffic between key groups, as shares of all, in t rows: one for each window where that matters, else one."""

    indptr: IntArray
    neighbour: IntArray
    weight: FloatArray
    """Of a pair, both ways, shape (t, entries)."""
    first: IntArray
    second: IntArray
    by_weight: IntArray
    """Pairs, each as often as its share of the traffic: heavy tails are met as often as they matter."""
    near: FloatArray
    """The share of a tuple's cost that two nodes save, shape (n, n); shape (0, 0): all on one node, else none."""


class Guide(NamedTuple):
    """What key groups that move are drawn by."""

    current: IntArray
    max_moves: int
    size: FloatArray
    """Load, in the mean over the windows, shape (p,)."""
    weight: FloatArray
    entered: BoolArray
    """Nodes that some key group may enter."""
    typical: float
    """The mean load of a node, over the windows."""
    single: bool
    """Whether there is one window and no limit beside that on moves: then two change places only on two nodes."""
    by_load: IntArray
    """Key groups that may leave, by current node, the lightest first; those of node i begin at ``starts[i]``."""
    starts: IntArray


class Program(NamedTuple):
    """All that a search never changes."""

    current: IntArray
    enter: BoolArray
    """The nodes that key groups of each kind may enter, shape (kinds, n)."""
    kind: IntArray
    stay: BoolArray
    """Whether a key group may be where it is now."""
    max_moves: int
    loads: Loads
    graph: TrafficGraph
    rows: RuleRows
    guide: Guide


class Aim(NamedTuple):
    """What is minimised: a sum of terms, of which each may be absent, within the limits of two of them.

    Over k windows deviations and traffic come to one number by (8) and (15) of the formulations; see
    `keyshift.solvers.search.terms`.
    """

    doublings: int = 0
    """Deviations count with the power 2 to this, in units of `unit`; 0: they do not count."""
    unit: float = 1.0
    centre: float = 0.0
    """Deviations are from so much above the mean: the middle of the range that is made narrower."""
    squares: bool = False
    """Whether the sum of the powers itself is the measure, not the largest deviation."""
    most: FloatArray = np.ones(1)
    """The largest weight of each window."""
    worst: bool = True
    """Whether the worst window counts alone."""
    level: float = 0.0
    """The t of CVaR."""
    cut: float = 0.0
    """The weight of the traffic between nodes."""
    apart: FloatArray = np.ones(1)
    """That traffic in each window, were all of it remote."""
    blend: float = 0.0
    """While the worst windows count, the share of the mean: they alone say nothing of most moves."""
    most_cut: float = UNLIMITED
    goal: float = 0.0
    """The weight of what the goals' rows exceed."""


class Placed(NamedTuple):
    """Where every key group is, and those that have moved."""

    place: IntArray
    lead: FloatArray
    """Deviation of each node by the mean load over the windows, shape (n,)."""
    moved: IntArray
    """How many have moved, shape (1,)."""
    movers: IntArray
    """They, in front; `slot` says where each stands there."""
    slot: IntArray
    arrivals: IntArray
    """The first that has moved to each node, -1 without one; `links` has the next and the one before, shape (2, p)."""
    links: IntArray


class State(NamedTuple):
    """Where a search stands, and every sum that follows from it."""

    placed: Placed
    load: FloatArray
    """Shape (n, k)."""
    raised: FloatArray
    """Powers of the deviations, shape (n, k)."""
    over: FloatArray
    """By how much each node's bands are exceeded, shape (n,)."""
    powers: FloatArray
    """The sum of the powers of each window and its root, shape (2, k)."""
    on_node: FloatArray
    """Traffic of each key group with each node, shape (t, p, n)."""
    together: FloatArray
    """Traffic that stays on a node, shape (t,)."""
    held: FloatArray
    """What each row has."""
    broken_rows: IntArray
    """The limits that were broken at the last refreshing; the last entry says how many."""
    bands: FloatArray
    broken: FloatArray
    missed: FloatArray
    """By how much bands, limits and goals are exceeded in all, shape (1,) each."""
    witness: IntArray
    """A node and a window that were as far from the mean as in the best assignment, shape (2,)."""


class Step(NamedTuple):
    """A proposed step: key group ``who[s]`` to node ``where[s]``."""

    who: IntArray
    where: IntArray


class Trial(NamedTuple):
    """A step, and what it would change."""

    step: Step
    lost: FloatArray
    won: FloatArray
    """Traffic with the node that each leaves and with that which it comes to, after the shifts before, shape (t, MOST_SHIFTS)."""
    nodes: IntArray
    """The nodes whose loads change, and by how much, shape (nodes, k)."""
    change: FloatArray
    fresh: FloatArray
    """The powers of their deviations afterwards, and by how much they exceed their bands."""
    over: FloatArray
    together: FloatArray
    powers: FloatArray


class Placing:
    """A problem of placing, compiled, with its items.

    Parameters
    ----------
    it : Searched
        The placement program, in units of the search: what it allows of measures is among the rules and rows.
    lowered : Lowered
        The rules.
    capacity : ndarray, shape (n,)
    draining : ndarray of bool, shape (n,), optional
    rows : iterable of RowFamily
        More limits.
    goals : Lowered or iterable of RowFamily
        The forms or rows that say what is minimised.
    max_moves : int, optional
    worth : ndarray, shape (p,), optional
        Rows are in units of what it costs to move their members, so that one price serves all; else in those of their heaviest.
    guided : bool
        Whether key groups are drawn by the deviations of nodes.
    """

    def __init__(
        self, it: Searched, lowered: Lowered, capacity: FloatArray, *, draining: BoolArray | None = None,
        rows: Iterable[RowFamily] = (), goals: Lowered | Iterable[RowFamily] = (), max_moves: int | None = None,
        worth: FloatArray | None = None, guided: bool = False,
    ) -> None:  # fmt: skip
        items = self.items = MergedItems.of(lowered)
        n, p, k, space = capacity.size, items.current.size, len(it.load), it.space
        if lowered.merged:
            closed = items.forms(space.allowed).closed
            assert closed is not None
            space = MoveSpace.of(items.current, np.ones(n, dtype=bool)).without(closed)
        stay = np.ones(p, dtype=bool) if space.stay is None else np.array(space.stay)
        forms = _with(lowered, it, n)
        free = not (forms or rows or (~stay).any())
        limits = [*self._families(forms, n), *self._families(rows, n), *leaving(items.current, stay, n)]
        of_items, cost = np.asarray((items.sums.T @ it.load.T).reshape(p, k)), np.full(k, it.per_tuple)
        graph = self._graph(it.pairs, of_items, cost, np.zeros((0, 0)) if it.near is None else np.array(it.near))
        drains = np.zeros(n, dtype=bool) if draining is None else np.array(draining)
        mean = np.zeros((2, k))
        mean[0 if it.mean is None else 1] = 1.0 / float(capacity[~drains].sum()) if it.mean is None else it.mean
        loads = Loads(
            load=np.ascontiguousarray(of_items), share=it.shares, weight=1.0 / capacity, mean=mean,
            draining=drains, total=of_items.sum(axis=0), serialisation=cost, fixed=not cost.any(),
            bands=np.zeros((4, k, 0)) if it.bands is None else np.clip(it.bands, -UNLIMITED, UNLIMITED),
        )  # fmt: skip
        value = None if worth is None else items.sums.T @ worth
        most = p if max_moves is None else int(max_moves)
        self.highest, self.slack = 1.0, 1e-12
        self.program = Program(
            current=items.current.astype(np.int64), enter=np.ascontiguousarray(space.enter),
            kind=np.array(space.kind, dtype=np.int64), stay=stay, max_moves=most, loads=loads, graph=graph,
            rows=self._rows(limits, list(self._families(goals, n)), value, n),
            guide=_guide(loads, items.current, space, most, guided, free),
        )  # fmt: skip

    def _families(self, given: Lowered | Iterable[RowFamily], nodes: int) -> Iterator[RowFamily]:
        """Forms, or rows, of key groups by items, but for what is closed."""
        items, merged = self.items, self.items.lowered.merged
        if isinstance(given, Lowered):
            every = np.ones((items.label.size, 1), dtype=bool)
            forms = MergedItems(items.label, items.current, given).forms(every) if merged else given
            yield from families(replace(forms, closed=None), nodes)
            return
        for family in given:
            total = np.bincount(items.label[family.key_groups], family.weights, items.current.size)
            some = np.flatnonzero(total)
            yield family._replace(key_groups=some, weights=total[some])

    def _graph(
        self, pairs: tuple[IntArray, IntArray, FloatArray] | None, load: FloatArray, cost: FloatArray, near: FloatArray
    ) -> TrafficGraph:
        """Traffic between items; what is within one is taken off its load."""
        p, label = self.items.current.size, self.items.label
        none = np.zeros(0, dtype=np.int64)
        if pairs is None:
            return TrafficGraph(np.zeros(p + 1, dtype=np.int64), none, np.zeros((0, 0)), none, none, none, near)
        one, two, traffic = label[pairs[0]], label[pairs[1]], np.atleast_2d(pairs[2])
        within = one == two
        inside = np.array([np.bincount(one[within], row[within], p) for row in traffic])
        load -= cost * (inside.T if len(inside) == cost.size else inside.T[:, :1])
        low, high = np.minimum(one, two)[~within], np.maximum(one, two)[~within]
        names, at = np.unique(low * p + high, return_inverse=True)
        weight = np.array([np.bincount(at.ravel(), row[~within], names.size) for row in traffic]).reshape(
            len(traffic), -1
        )
        first, second = names // p, names % p
        ends, order = np.r_[first, second], np.lexsort((np.r_[second, first], np.r_[first, second]))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=p))]).astype(np.int64)
        return TrafficGraph(
            indptr, np.r_[second, first][order], np.ascontiguousarray(np.tile(weight, 2)[:, order]), first, second,
            _drawn_by_weight(weight.mean(axis=0) if len(weight) else np.zeros(0)), near,
        )  # fmt: skip

    def _rows(self, limits: list[RowFamily], goals: list[RowFamily], worth: FloatArray | None, nodes: int) -> RuleRows:
        """Rows in their units; notes the most that one of the limits costs, and what rounding is."""
        ready: list[RowFamily] = []
        for parts, heaviest in sharing(limits):
            factor = 1.0
            if worth is not None:
                some = np.concatenate([one.key_groups for one in parts])
                weights = np.concatenate([one.weights for one in parts]) / heaviest
                costly = (worth[some] > 0) & (weights > 0)
                each = worth[some[costly]] / weights[costly]
                factor = max(1e-6, float(np.median(each))) if each.size else 1.0  # far above rounding
                self.highest = max(self.highest, float(each.max()) / factor if each.size else 1.0)
            self.slack = max(self.slack, ROUNDING * factor)
            ready += [one.in_units(heaviest / factor) for one in parts]
        aims = [one.in_units(heaviest) for parts, heaviest in sharing(goals) for one in parts]
        return rows_of([*ready, *aims], self.items.current, nodes, len(ready))

    def state(self) -> State:
        """Room for a search."""
        it = self.program
        p, n, (t, _), k = it.current.size, it.enter.shape[1], it.graph.weight.shape, it.loads.load.shape[1]
        placed = Placed(
            it.current.copy(), np.zeros(n), np.zeros(1, np.int64), np.zeros(p, np.int64), np.full(p, -1, np.int64),
            np.full(n, -1, np.int64), np.full((2, p), -1, np.int64),
        )  # fmt: skip
        return State(
            placed, np.zeros((n, k)), np.zeros((n, k)), np.zeros(n), np.zeros((2, k)), np.zeros((t, p, n)), np.zeros(t),
            np.zeros(it.rows.most.size), np.zeros(it.rows.most.size + 1, np.int64),
            np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(2, np.int64),
        )  # fmt: skip

    def trial(self) -> Trial:
        """Room for a step."""
        t, k = self.program.graph.weight.shape[0], self.program.loads.load.shape[1]
        size = max(2 * MOST_SHIFTS, 0 if self.program.loads.fixed else self.program.enter.shape[1])
        step, (lost, won) = Step(*np.zeros((2, MOST_SHIFTS), np.int64)), np.zeros((2, t, MOST_SHIFTS))
        change, fresh = np.zeros((2, size, k))
        return Trial(step, lost, won, np.arange(size), change, fresh, np.zeros(size), np.zeros(t), np.zeros((2, k)))


def _guide(loads: Loads, current: IntArray, space: MoveSpace, max_moves: int, guided: bool, free: bool) -> Guide:
    """What key groups are drawn by; none are where the search is not guided."""
    movers = space.movers if guided else np.zeros(0, dtype=np.int64)
    size, at = loads.load @ loads.share, current[movers]
    return Guide(
        current.astype(np.int64), max_moves, size, loads.weight, space.open,
        float((loads.mean[0] * loads.total + loads.mean[1]) @ loads.share), loads.share.size == 1 and free,
        movers[np.lexsort((size[movers], at))],
        np.concatenate([[0], np.cumsum(np.bincount(at, minlength=loads.weight.size))]).astype(np.int64),
    )  # fmt: skip


def _with(lowered: Lowered, it: Searched, nodes: int) -> Lowered:
    """The rules, and a problem's own limits as forms of theirs."""
    more, budgets = [], [] if it.cost is None or it.cost_limit is None else [(it.cost, it.cost_limit)]
    for use, room in it.rooms:
        some = np.flatnonzero(use)
        more.append(Rooms(some, use[some], np.arange(nodes), np.zeros(nodes), np.array(room, dtype=float)))
    paid = [MoveBudget(np.flatnonzero(c), c[c != 0], np.ones(nodes, dtype=bool), most) for c, most in budgets]
    return replace(lowered, rooms=(*lowered.rooms, *more), budgets=(*lowered.budgets, *paid))


def _drawn_by_weight(traffic: FloatArray, most: int = 1 << 16) -> IntArray:
    """Pairs, each as often as its share of the traffic, by systematic sampling; all of them once where there is none."""
    total, size = float(traffic.sum()), min(4 * traffic.size, most)
    if total <= 0 or size == 0:
        return np.arange(traffic.size)
    wanted = (np.arange(size) + 0.5) / size * total
    return np.minimum(np.searchsorted(np.cumsum(traffic), wanted), traffic.size - 1)

"""The few large keys placed exactly, all others divisible: a bound that prices alone miss, and where the large keys go."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.answer import Termination
from keyshift.models.routing.compact import CompactKeys
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers import highs
from keyshift.solvers.routing.lagrangian import Relaxation, RoutingSettings
from keyshift.solvers.safe_bounds import LinearProgram, LinearRows

OFF_STATE, OFF_ENTRIES = 1e-3, 3.0
"""How far below the cost two lines may meet: in states of a mean node, and in entries."""


@dataclass(frozen=True)
class Placement:
    """Where the large keys go, as records and their nodes; a lower bound on the state moved, or on the entries; how it ended."""

    record: IntArray
    node: IntArray | None
    bound: float
    termination: Termination


def singled_out(keys: CompactKeys, upper: FloatArray) -> tuple[CompactKeys, IntArray]:
    """The same keys with each large one on a full node a record of its own, and which records these are."""
    settings = RoutingSettings.now()
    full = np.bincount(keys.current, keys.load * keys.count, upper.size) > upper
    by_load = np.argsort(-keys.load, kind="stable")
    by_load = by_load[full[keys.current[by_load]] & (keys.load[by_load] > settings.large * upper.max())]
    by_load = by_load[np.cumsum(keys.count[by_load]) <= settings.most]
    large = np.zeros(keys.size, dtype=bool)
    large[by_load] = True
    origin = np.repeat(np.arange(keys.size), np.where(large, keys.count, 1))
    count = np.where(large[origin], 1, keys.count[origin])
    split = CompactKeys(
        keys.current[origin], keys.home[origin], keys.load[origin], keys.state[origin], count, keys.members
    )
    return split, np.flatnonzero(large[origin])


class LargeKeys:
    r"""A relaxation of mixed routing in which only the large keys k in B are whole.

    They are placed by :math:`x_{ki}`. The small keys now on node i shed load :math:`s_i` at the price of state :math:`m_i` and
    entries :math:`y_i`; what they shed is a pool, of which node i takes :math:`w_i`. In units of the mean load :math:`\bar L`:

    .. math:: \min \; & \sum_i m_i + \sum_{k \in B} S_k \sum_{i \ne F_k} x_{ki} \quad \text{subject to} \\
              (1) \quad & \textstyle\sum_i x_{ki} = 1 \quad \text{for every large key } k, \\
              (2) \quad & \textstyle B_i \le \sum_k c_k x_{ki} + T_i - s_i + w_i \le U_i \quad \text{for every node } i, \\
              (3) \quad & \textstyle\sum_i s_i = \sum_i w_i, \\
              (4) \quad & \textstyle\sum_i y_i + \sum_k \sum_{i \ne h_k} x_{ki} \le A_{max}, \\
              (5) \quad & a\, m_i + b\, y_i \ge g_i^{ab}(s_i) \quad \text{for every node, and some weights } a, b \ge 0

    with :math:`g_i^{ab}` the least weighted cost at which node i's small keys, each in any part, shed so much: the cheapest by
    unit of load first, convex and piecewise linear, replaced by tangents. A key that is off its hash already gives its entry
    back when it leaves, as if it went home; where it really goes is left out. The state's unit is that of a node's mean. The
    entries :math:`y_i` are whole.

    A node sheds its last units at the highest price, and parts of large keys would spare all nodes just these. So what whole ones
    cost is said once more, with :math:`z_{iJ}` for the set J of the large keys now on i that leaves:

    .. math:: (6) \quad & \textstyle\sum_J z_{iJ} = 1, \quad \sum_{J \ni k} z_{iJ} + x_{ki} = 1
              \quad \text{for every large key k now on node i}, \\
              (7) \quad & \textstyle a\, m_i + b\, y_i \ge \sum_J f_i(e_i - c(J))\, z_{iJ}
              + \sum_k \bigl(f_i(r_i + c_k) - f_i(r_i)\bigr) x_{ki} \quad \text{over the large keys k now elsewhere}

    with :math:`f_i(l)` the least cost of shedding l or more, :math:`e_i` what is too much on node i where nothing leaves, and
    :math:`r_i` where all its large keys do. It holds since :math:`f_i` is convex: the more there is, the more one key adds.
    The sets are those of the `together` largest (`RoutingSettings`); another key that leaves takes off what it would alone,
    which is most.

    Parameters
    ----------
    relaxation : Relaxation
        Its records, limits and units.
    large : ndarray of int
        Records placed exactly, of one key each.
    entries_only : bool, default False
        Minimise the entries of the table, whatever moves.
    """

    def __init__(self, relaxation: Relaxation, large: IntArray, entries_only: bool = False) -> None:
        self.relaxation, self.large, self.entries_only = relaxation, large, entries_only
        self.spare, self.settings = 0, RoutingSettings.now()
        self.n = relaxation.upper.size
        self.unit = 1.0 if entries_only else relaxation.problem.scale / self.n
        self.nodes = [SmallKeys.of(relaxation, large, i) for i in range(self.n)]
        self.sets = _LeavingSets.of(relaxation, large)
        self.weights = [(0.0, 1.0)] if entries_only else [(1.0, 0.0), (0.0, 1.0)]
        self.lines: list[tuple[int, float, float, float, float]] = []
        for i, node in enumerate(self.nodes):
            for a, b in self.weights:
                self._draw(i, a, b, node.spread(a, b, a * OFF_STATE + b * OFF_ENTRIES))

    def _draw(self, i: int, a: float, b: float, at: IntArray) -> None:
        """Tangents under node i's cost with these weights, where so many of its keys have left."""
        slope, height = self.nodes[i].tangents(a, b, at)
        self.lines += [(i, a, b, float(s), float(h)) for s, h in zip(slope, height, strict=True)]

    def solve(self, budget: Budget, seed: int = 0, nodes: int = 2_000) -> Placement:
        """Lines where the relaxation's optimum lies, round by round; then the program with whole keys."""
        program = self.program()
        table = self.large.size + self.n + 1
        for _ in range(0 if self.entries_only else 6):
            relaxed = highs.minimise(program, budget, seed=seed, relax=True)
            if relaxed.values is None or relaxed.row_duals is None:
                break
            price = max(0.0, -float(relaxed.row_duals[table]))
            self.weights = [(1.0, price), (1.0, 0.0), (0.0, 1.0)]
            shed, before = self._split(relaxed.values)[1], len(self.lines)
            for i, node in enumerate(self.nodes):
                for a, b in self.weights:
                    self._draw(i, a, b, node.left(a, b, shed[i]))
            self.lines = list(dict.fromkeys(self.lines))
            if len(self.lines) == before:
                break
            program = self.program()
        options = {"mip_rel_gap": self.settings.enough, "mip_max_nodes": nodes}
        result = highs.minimise(program, budget, seed=seed, options=options)
        place = None if result.values is None else self._split(result.values)[0].argmax(axis=1)
        return Placement(self.large, place, result.bound * self.unit, result.termination)

    def _split(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        cells = self.large.size * self.n
        return values[:cells].reshape(-1, self.n), values[cells : cells + self.n]

    def program(self) -> LinearProgram:
        """The relaxation as matrices, with the lines drawn so far."""
        r, n, at = self.relaxation, self.n, _Columns.of(self.large.size, self.n, self.sets.node.size)
        away, moves = (at.node != where[self.large][:, None] for where in (r.home, r.current))
        total, keys, states = (
            np.array([getattr(node, name) for node in self.nodes]) for name in ("total", "keys", "states")
        )
        rows = LinearRows(at.size)
        self._somewhere(rows, at)
        self._loads(rows, at, total)
        self._pool(rows, at)
        self._table(rows, at, away)
        self._lines(rows, at)
        self._leaving(rows, at)
        self._together(rows, at)
        cost, least, most, whole = np.zeros((4, at.size))
        cost[at.x] = away if self.entries_only else moves * (n * r.state[self.large])[:, None]
        cost[at.y if self.entries_only else at.m] = 1.0
        least[at.s] = np.where(r.kept, 0.0, total)
        most[at.x], most[at.s], most[at.y], most[at.m] = r.kept, total, keys, states
        most[at.w] = np.where(r.kept, r.upper, 0.0)
        most[at.z] = 1.0
        whole[at.x], whole[at.z], whole[at.y] = True, True, True
        limits = np.concatenate(rows.lower), np.concatenate(rows.upper)
        return LinearProgram(cost, 0.0, rows.matrix(), *limits, least, most, whole.astype(bool))

    def _somewhere(self, rows: LinearRows, at: _Columns) -> None:
        """(1) Every large key is on one node."""
        one = np.ones(self.large.size)
        rows.add(np.repeat(np.arange(one.size), self.n), at.x.ravel(), np.ones(at.x.size), one, one)

    def _loads(self, rows: LinearRows, at: _Columns, total: FloatArray) -> None:
        """(2) Every node keeps its limits."""
        r, one = self.relaxation, np.ones(self.n)
        rows.add(
            np.concatenate([np.tile(at.node, self.large.size), at.node, at.node]),
            np.concatenate([at.x.ravel(), at.s, at.w]),
            np.concatenate([np.repeat(r.load[self.large], self.n), -one, one]),
            r.lower - total,
            r.upper - total,
        )

    def _pool(self, rows: LinearRows, at: _Columns) -> None:
        """(3) What small keys shed is what nodes take."""
        both, none = np.concatenate([at.s, at.w]), np.zeros(1)
        rows.add(np.zeros(both.size, dtype=np.int64), both, np.repeat([1.0, -1.0], self.n), none, none)

    def _table(self, rows: LinearRows, at: _Columns, away: np.ndarray) -> None:
        """(4) The table has room for all entries."""
        r, entries = self.relaxation, np.concatenate([at.x.ravel(), at.y])
        room = np.array([np.inf if self.entries_only else round(r.limit * r.entries) - self.spare])
        weight = np.concatenate([away.ravel().astype(float), np.ones(self.n)])
        rows.add(np.zeros(entries.size, dtype=np.int64), entries, weight, -room, room)

    def _lines(self, rows: LinearRows, at: _Columns) -> None:
        """(5) What small keys shed costs what each line says at least."""
        i, of_state, of_entries, slope, height = np.array(self.lines).reshape(-1, 5).T
        line, i = np.arange(len(self.lines)), i.astype(np.int64)
        weight = np.concatenate([of_state, of_entries, -slope])
        rows.add(
            np.tile(line, 3), np.concatenate([at.m[i], at.y[i], at.s[i]]), weight, height, np.full(line.size, np.inf)
        )

    def _leaving(self, rows: LinearRows, at: _Columns) -> None:
        """(6) One set of a node's large keys leaves, and what is in it is elsewhere."""
        rows.add(self.sets.node, at.z, np.ones(at.z.size), np.ones(self.n), np.ones(self.n))
        chosen, key = np.nonzero(self.sets.gone)
        known, row = np.unique(key, return_inverse=True)
        here = at.x[known, self.relaxation.current[self.large[known]]]
        column, one = np.concatenate([at.z[chosen], here]), np.ones(known.size)
        rows.add(np.concatenate([row, np.arange(known.size)]), column, np.ones(column.size), one, one)

    def _together(self, rows: LinearRows, at: _Columns) -> None:
        """(7) What whole large keys make a node's small ones cost."""
        r, load, infinite = self.relaxation, self.relaxation.load[self.large], np.full(len(self.weights), np.inf)
        of_state, of_entries = np.array(self.weights).T
        for i, small in enumerate(self.nodes):
            z, here = np.flatnonzero(self.sets.node == i), r.current[self.large] == i
            gone = self.sets.gone[z]
            bare = small.total - r.upper[i]
            full = bare + load[here].sum()
            more = np.where(here, min(full, small.total), bare + load)
            less = np.where(here, more - load, bare)
            amounts = np.concatenate([full - gone @ load, more, less])
            cost = np.array([small.at_least(a, b, amounts) for a, b in self.weights])
            of_set, of_more, of_less = np.split(cost, [z.size, z.size + load.size], axis=1)
            of_key = np.where(gone.any(axis=0), 0.0, of_more - of_less)
            column = np.concatenate([[at.m[i], at.y[i]], at.z[z], at.x[:, i]])
            value = np.column_stack([of_state, of_entries, -of_set, -of_key])
            row = np.repeat(np.arange(len(self.weights)), column.size)
            # The most that rounding may have added to the costs of a row, relative to their sum.
            least = -of_key[:, here].sum(axis=1) - 1e-12 * (1 + np.abs(cost).sum(axis=1))
            rows.add(row, np.tile(column, len(self.weights)), value.ravel(), least, infinite)


class _LeavingSets(NamedTuple):
    """Sets of the largest large keys now on each node: which node, shape (q,), and which keys, shape (q, b)."""

    node: IntArray
    gone: np.ndarray

    @classmethod
    def of(cls, r: Relaxation, large: IntArray) -> _LeavingSets:
        node, gone, together = [], [], RoutingSettings.now().together
        for i in range(r.upper.size):
            here = np.flatnonzero(r.current[large] == i)
            here = here[np.argsort(-r.load[large[here]], kind="stable")][:together]
            for chosen in product((False, True), repeat=here.size):
                node.append(i)
                gone.append(np.isin(np.arange(large.size), here[list(chosen)]))
        return cls(np.array(node), np.array(gone))


class _Columns(NamedTuple):
    """Which columns the variables are: x (b, n); s, y, m and w (n,); z (q,); how many there are, and the nodes."""

    x: IntArray
    s: IntArray
    y: IntArray
    m: IntArray
    w: IntArray
    z: IntArray
    size: int
    node: IntArray

    @classmethod
    def of(cls, large: int, n: int, sets: int) -> _Columns:
        cells, node = large * n, np.arange(n)
        s, y, m, w = (cells + part * n + node for part in range(4))
        first = cells + 4 * n
        return cls(np.arange(cells).reshape(large, n), s, y, m, w, first + np.arange(sets), first + sets, node)


# The cost of shedding a node's small keys, each in any part: convex, piecewise linear, and lines under it --------------


@dataclass
class SmallKeys:
    """The small keys now on one node: load, state, count, and whether leaving takes an entry or gives one back."""

    load: FloatArray
    state: FloatArray
    count: IntArray
    entry: FloatArray
    total: float
    keys: float
    states: float

    @classmethod
    def of(cls, r: Relaxation, large: IntArray, i: int) -> SmallKeys:
        on = r.current == i
        on[large] = False
        load, state, count = r.load[on], r.upper.size * r.state[on], r.keys.count[on]
        entry = np.where(r.home[on] == i, 1.0, -1.0)
        return cls(
            load, state, count, entry, float(load @ count), float(count.sum()), float((state * count).sum() * (1 + 1e-9))
        )  # fmt: skip

    def _falling(self, a: float, b: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cost of a unit of load, ascending; load shed, and cost, before each record leaves, and at the end."""
        cost = a * self.state + b * self.entry
        held = b * float(self.count[self.entry < 0].sum())  # entries of those that are off their hash
        loaded = self.load > 0
        held += float((np.minimum(cost, 0.0) * self.count)[~loaded].sum())
        cost, load, count = cost[loaded], self.load[loaded], self.count[loaded]
        order = np.argsort(cost / load, kind="stable")
        shed = np.concatenate([[0.0], np.cumsum((load * count)[order])])
        paid = held + np.concatenate([[0.0], np.cumsum((cost * count)[order])])
        return (cost / load)[order], shed, paid

    def tangents(self, a: float, b: float, at: IntArray) -> tuple[FloatArray, FloatArray]:
        """Slopes, and heights at s = 0, of the lines through the cost where some records leave; each slope once."""
        slope, shed, paid = self._falling(a, b)
        if slope.size == 0:
            return np.zeros(0), np.zeros(0)
        chosen, first = np.unique(slope[at], return_index=True)
        where = at[first]
        height = paid[where] - chosen * shed[where]
        return chosen, height - 1e-12 * (1 + np.abs(paid[where]) + np.abs(chosen) * shed[where])

    def spread(self, a: float, b: float, off: float) -> IntArray:
        """Records whose lines are drawn before anything is known: until no two lines meet more than `off` below."""
        slope, shed, paid = self._falling(a, b)
        if slope.size == 0:
            return np.zeros(0, dtype=np.int64)
        at = np.unique(np.geomspace(1, slope.size, 12).astype(np.int64) - 1)
        for _ in range(8):
            left, right = at[:-1], at[1:]
            with np.errstate(all="ignore"):  # loads may be so far apart that slopes overflow: these gaps stay
                rise = paid[right] - paid[left] - slope[left] * (shed[right] - shed[left])
                meet = shed[right] - rise / (slope[right] - slope[left])
                leaves = np.clip(np.searchsorted(shed, meet, side="right") - 1, left, right)
                below = (
                    paid[leaves]
                    - paid[left]
                    + slope[leaves] * (meet - shed[leaves])
                    - slope[left] * (meet - shed[left])
                )
            more = np.union1d(at, leaves[below > off])
            if more.size == at.size:
                break
            at = more
        return at

    def at_least(self, a: float, b: float, shed: FloatArray) -> FloatArray:
        """The cost of shedding so much or more; beyond all there is, the cost of all."""
        _, points, paid = self._falling(a, b)
        return np.interp(np.maximum(shed, points[paid.argmin()]), points, paid)

    def left(self, a: float, b: float, shed: float) -> IntArray:
        """The record that is leaving where so much has been shed."""
        before = self._falling(a, b)[1][:-1]
        return np.array([max(0, int(np.searchsorted(before, shed, side="right")) - 1)])

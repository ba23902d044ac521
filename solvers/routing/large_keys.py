"""How few entries a routing table can have: the few large keys placed exactly, all others divisible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.routing.compact import CompactKeys
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.routing.lagrangian import Relaxation
from keyshift.solvers.safe_bounds import LinearProgram, LinearRows


def singled_out(keys: CompactKeys, upper: FloatArray) -> tuple[CompactKeys, IntArray]:
    """The same keys with each large one on a full node a record of its own, and which records these are.

    Large are at most forty keys, each above a fiftieth of the highest limit.
    """
    full = np.bincount(keys.current, keys.load * keys.count, upper.size) > upper
    by_load = np.argsort(-keys.load, kind="stable")
    by_load = by_load[full[keys.current[by_load]] & (keys.load[by_load] > 0.02 * upper.max())]
    by_load = by_load[np.cumsum(keys.count[by_load]) <= 40]
    large = np.zeros(keys.size, dtype=bool)
    large[by_load] = True
    origin = np.repeat(np.arange(keys.size), np.where(large, keys.count, 1))
    count = np.where(large[origin], 1, keys.count[origin])
    split = CompactKeys(
        keys.current[origin], keys.home[origin], keys.load[origin], keys.state[origin], count, keys.members
    )
    return split, np.flatnonzero(large[origin])


class LargeKeys:
    r"""A relaxation of mixed routing in which only the large keys k in B are whole, and only the table counts.

    They are placed by :math:`x_{ki}`. The small keys now on node i shed load :math:`s_i` for :math:`y_i` entries; what
    they shed is a pool, of which node i takes :math:`w_i`. In units of the mean load :math:`\bar L`:

    .. math:: \min \; & \sum_i y_i + \sum_{k \in B} \sum_{i \ne h_k} x_{ki} \quad \text{subject to} \\
              (1) \quad & \textstyle\sum_i x_{ki} = 1 \quad \text{for every large key } k, \\
              (2) \quad & \textstyle B_i \le \sum_k c_k x_{ki} + T_i - s_i + w_i \le U_i \quad \text{for every node } i, \\
              (3) \quad & \textstyle\sum_i s_i = \sum_i w_i, \\
              (4) \quad & y_i \ge g_i(s_i) \quad \text{for every node}

    with :math:`g_i` the fewest entries at which node i's small keys, each in any part, shed so much: the cheapest by unit of load
    first, convex and piecewise linear, replaced by tangents. A key that is off its hash already gives its entry back when it
    leaves, as if it went home; where it really goes is left out. The entries :math:`y_i` are whole.

    Parameters
    ----------
    relaxation : Relaxation
        Its records, limits and units.
    large : ndarray of int
        Records placed exactly, of one key each.
    """

    def __init__(self, relaxation: Relaxation, large: IntArray) -> None:
        self.relaxation, self.large, self.n = relaxation, large, relaxation.upper.size
        self.nodes = [SmallKeys.of(relaxation, large, i) for i in range(self.n)]
        lines = [(i, *line) for i, node in enumerate(self.nodes) for line in zip(*node.tangents(), strict=True)]
        self.lines = np.array(lines, dtype=np.float64).reshape(-1, 3)

    def program(self) -> LinearProgram:
        """The relaxation as matrices. Columns: x, large key by large key; then s, y and w of every node."""
        r, n, large = self.relaxation, self.n, self.large.size
        x, node = np.arange(large * n).reshape(large, n), np.arange(n)
        s, y, w = (x.size + part * n + node for part in range(3))
        total, keys = (np.array([getattr(small, name) for small in self.nodes]) for name in ("total", "keys"))
        one, each, rows = np.ones(large), np.ones(n), LinearRows(x.size + 3 * n)
        rows.add(np.repeat(np.arange(large), n), x.ravel(), np.ones(x.size), one, one)  # (1)
        rows.add(
            np.concatenate([np.tile(node, large), node, node]), np.concatenate([x.ravel(), s, w]),
            np.concatenate([np.repeat(r.load[self.large], n), -each, each]), r.lower - total, r.upper - total,
        )  # (2)  # fmt: skip
        none = np.zeros(1)
        rows.add(np.zeros(2 * n, dtype=np.int64), np.concatenate([s, w]), np.repeat([1.0, -1.0], n), none, none)  # (3)
        of, slope, height = self.lines.T
        at, line = of.astype(np.int64), np.arange(of.size)
        weight, above = np.concatenate([np.ones(of.size), -slope]), np.full(of.size, np.inf)
        rows.add(np.tile(line, 2), np.concatenate([y[at], s[at]]), weight, height, above)  # (4)
        cost, least, most, whole = np.zeros((4, rows.columns))
        cost[x], cost[y] = node != r.home[self.large][:, None], 1.0
        least[s] = np.where(r.kept, 0.0, total)
        most[x], most[s], most[y], most[w] = r.kept, total, keys, np.where(r.kept, r.upper, 0.0)
        whole[x], whole[y] = True, True
        limits = np.concatenate(rows.lower), np.concatenate(rows.upper)
        return LinearProgram(cost, 0.0, rows.matrix(), *limits, least, most, whole.astype(bool))


# The entries of shedding a node's small keys, each in any part: convex, piecewise linear, and lines under it ------------


@dataclass
class SmallKeys:
    """The small keys now on one node: load, count, and whether leaving takes an entry or gives one back."""

    load: FloatArray
    count: IntArray
    entry: FloatArray
    total: float
    keys: float

    @classmethod
    def of(cls, r: Relaxation, large: IntArray, i: int) -> SmallKeys:
        on = r.current == i
        on[large] = False
        load, count = r.load[on], r.keys.count[on]
        return cls(load, count, np.where(r.home[on] == i, 1.0, -1.0), float(load @ count), float(count.sum()))

    def _falling(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Entries by unit of load, ascending; load shed, and entries, before each record leaves, and at the end."""
        held = float(self.count[self.entry < 0].sum())  # entries of those that are off their hash
        loaded = self.load > 0
        held += float((np.minimum(self.entry, 0.0) * self.count)[~loaded].sum())
        entry, load, count = self.entry[loaded], self.load[loaded], self.count[loaded]
        order = np.argsort(entry / load, kind="stable")
        shed = np.concatenate([[0.0], np.cumsum((load * count)[order])])
        paid = held + np.concatenate([[0.0], np.cumsum((entry * count)[order])])
        return (entry / load)[order], shed, paid

    def tangents(self) -> tuple[FloatArray, FloatArray]:
        """Slopes, and heights at s = 0, of lines under the entries: until no two lines meet more than three below."""
        slope, shed, paid = self._falling()
        if slope.size == 0:
            return np.zeros(0), np.zeros(0)
        at = np.unique(np.geomspace(1, slope.size, 12).astype(np.int64) - 1)
        for _ in range(8):
            left, right = at[:-1], at[1:]
            with np.errstate(all="ignore"):  # loads may be so far apart that slopes overflow: these gaps stay
                rise = paid[right] - paid[left] - slope[left] * (shed[right] - shed[left])
                meet = shed[right] - rise / (slope[right] - slope[left])
                leaves = np.clip(np.searchsorted(shed, meet, side="right") - 1, left, right)
                ahead = slope[leaves] * (meet - shed[leaves]) - slope[left] * (meet - shed[left])
                below = paid[leaves] - paid[left] + ahead
            more = np.union1d(at, leaves[below > 3.0])
            if more.size == at.size:
                break
            at = more
        chosen, first = np.unique(slope[at], return_index=True)
        where = at[first]
        height = paid[where] - chosen * shed[where]
        return chosen, height - 1e-12 * (1 + np.abs(paid[where]) + np.abs(chosen) * shed[where])

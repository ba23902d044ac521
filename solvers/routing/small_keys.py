"""The cost of shedding a node's small keys, each in any part: convex, piecewise linear, and lines under it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.routing.lagrangian import Relaxation

FIRST_LINES = 12
"""Lines of each kind under what each node's small keys cost, before more are drawn where two meet too far below."""
SPLITS = 8
"""How often the gaps between two lines are looked at."""


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
        at = np.unique(np.geomspace(1, slope.size, FIRST_LINES).astype(np.int64) - 1)
        for _ in range(SPLITS):
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

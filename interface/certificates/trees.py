"""Prices and branches that refute a target: linear programs find them, the checker's own arithmetic decides."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from keyshift.certificates import verify
from keyshift.certificates.programs import ChoiceProgram
from keyshift.models.workload import FloatArray

Tree = list[dict[str, Any]]
Limits = dict[int, dict[int, tuple[int, int | None]]]
BITS = (10, 20, 32, 48)
"""Prices are rounded to so many bits, the fewest that suffice."""
MOST_COLUMNS = 400_000
"""More columns than this are left to prices from elsewhere."""
FRACTION = 1e-6
"""A count nearer to a whole number than this counts as one."""


@dataclass
class TreeSearch:
    """Depth-first branch and bound for a certificate's tree.

    Parameters
    ----------
    program : ChoiceProgram
    deadline : float
        On the clock of `time.monotonic`.
    most : int
        Branches at most.
    """

    program: ChoiceProgram
    deadline: float
    most: int = 3_000
    tree: Tree = field(default_factory=list)

    def run(self) -> Tree | None:
        """The tree; None where time or branches run out, or where something is feasible."""
        waiting: list[Any] = [()]
        if self.program.group.size > MOST_COLUMNS:
            return None
        while waiting:
            if time.monotonic() > self.deadline or len(self.tree) >= self.most:
                return None
            path = waiting.pop()
            limits = verify.limits_of(path)
            value, share, prices = self._relaxed(limits)
            if value > 1e-12 and (leaf := self._leaf(prices, limits)) is not None:
                self.tree.append({"prices": leaf})
                continue
            split = self._most_divided(share)
            if split is None:
                return None
            self.tree.append({"split": [*split]})
            waiting += verify.halves(path, *split)
        return self.tree

    def _relaxed(self, limits: Limits) -> tuple[float, FloatArray, FloatArray]:
        """By how much the rows are exceeded at least, in all; the divided choice, and the rows' prices."""
        p = self.program
        low, high = np.zeros(p.group.size), np.minimum(p.most, p.count[p.group])
        for group, own in limits.items():
            for at in np.flatnonzero(p.group == group):
                least, most = own.get(int(p.place[at]), (0, None))
                low[at] = least
                high[at] = high[at] if most is None else min(high[at], most)
        if (low > high).any():
            return 1.0, low, np.zeros(p.room.size)
        rows = p.room.size
        over = -sp.eye_array(rows, format="csc")
        result = linprog(
            np.concatenate([np.zeros(p.group.size), np.ones(rows)]),
            A_ub=sp.hstack([p.scaled, over], format="csc"), b_ub=p.room,
            A_eq=sp.hstack([p.partition, sp.csc_array((p.count.size, rows))], format="csc"), b_eq=p.count,
            bounds=np.stack([np.concatenate([low, np.zeros(rows)]), np.concatenate([high, np.full(rows, np.inf)])], axis=1),
            method="highs",
        )  # fmt: skip
        if result.x is None:  # no choice within the limits: any prices say so
            return 1.0, low, np.zeros(rows)
        return float(result.fun), result.x[: p.group.size], np.maximum(-result.ineqlin.marginals, 0.0)

    def _leaf(self, prices: FloatArray, limits: Limits) -> list[int] | None:
        return rounded_prices(self.program, prices, lambda made: self.program.refuted(made, limits))

    def _most_divided(self, share: FloatArray) -> tuple[int, int, int] | None:
        """The column whose count is furthest from whole: group, place and the count rounded down."""
        off = np.abs(share - np.rint(share))
        at = int(np.argmax(off))
        if off[at] < FRACTION:
            return None
        return int(self.program.group[at]), int(self.program.place[at]), int(np.floor(share[at]))


def rounded_prices(
    program: ChoiceProgram, prices: FloatArray, refutes: Callable[[list[int]], bool]
) -> list[int] | None:
    """Whole prices in nearly the same proportions, with as few digits as refute; None where none do.

    Parameters
    ----------
    prices : ndarray
        For the scaled rows: a price counts through the amounts of its row, whatever their unit.
    """
    dearest = float(prices.max(initial=0.0))
    for bits in BITS:
        share = np.rint(prices / dearest * 2.0**bits) if dearest > 0 else np.zeros(prices.size)
        top = max((int(e) for e, s in zip(program.exponent, share, strict=True) if s > 0), default=0)
        made = program.joined(
            [int(s) << (top - int(e)) if s > 0 else 0 for s, e in zip(share, program.exponent, strict=True)]
        )
        if refutes(made):
            common = gcd(*made) or 1
            return [price // common for price in made]
        if dearest <= 0:
            break
    return None

"""Proofs for key-group allocation: what every node pays at least for the moves that bring it within a distance."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.certificates import verify
from keyshift.certificates.found import Proven
from keyshift.models import Solution
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.allocation.pricing.bound import PriceBound
from keyshift.solvers.allocation.pricing.tree import halves, most_mixed

ONE_MOVE = (2, 8, 32)
"""In how many parts the price of a move is divided between sender and taker: the fewest that suffice."""
CELLS = 60
"""Cells in a window of loads where a bound need not be tight."""
FINE = 5
"""Cells in what the problem calls the same distance, where it has to be."""
MOST_CELLS = 20_000_000
"""Cells in the load of a node at most."""
LESS = (1.0, 0.999, 0.99, 0.9, 0.7, 0.4)
"""Shares of the best bound that are tried where it cannot be proven itself."""


def prove_allocation(
    problem: KeyGroupAllocation, case: Any, solution: Solution, value: Fraction | None, deadline: float
) -> Proven:
    """The value; else the solution's bound, or less of it; each by prices for every key group's moves, and branches."""
    if value is None or not PriceBound(Instance(problem)).affordable:
        return Proven()
    bound = 0.0 if solution.bound is None else solution.bound
    counted = CountBound(Instance(problem)).bound() * problem.scale
    known = min(float(value), max(bound, counted if np.isfinite(counted) else 0.0))
    same = Fraction(problem.tolerance_of(float(value)))
    tight = value - same * 9 / 10
    tries = [(tight, same / FINE), *((t := Fraction(known * share), 2 * t / CELLS) for share in LESS)]
    for target, width in tries:
        if target <= 0:
            continue
        left = deadline if target == tight else max(deadline, time.monotonic() + 5.0)
        if (proof := MovePrices(problem, case, target, width, left).run()) is not None:
            return Proven(target, proof)
    return Proven(Fraction(0), {"kind": "none"})


@dataclass
class MovePrices:
    """Branch and price for a certificate: the solver's curves of prices, the checker's arithmetic.

    Parameters
    ----------
    problem : KeyGroupAllocation
    case : verify.AllocationCase
    target, width : Fraction
        The distance that is to be refuted, and the width of a cell of loads.
    deadline : float
        On the clock of `time.monotonic`.
    most : int
        Branches at most.
    """

    problem: KeyGroupAllocation
    case: Any
    target: Fraction
    width: Fraction
    deadline: float
    most: int = 200
    tree: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> dict[str, Any] | None:
        """The proof; None where time or branches run out."""
        for one in ONE_MOVE:
            if not self._prepare(one):
                return None
            if self._search():
                return {"kind": "moves", "cell": self.case.cell, "one_move": one, "tree": self.tree}
            if self._expired() or not self.again:
                return None
        return None

    def _prepare(self, one: int) -> bool:
        case = self.case
        self.one, self.again, self.tree = one, False, []
        case.target = self.target
        case.cell = max(1, int(self.width * min(case.capacity) / case.load_unit))
        self.bound = PriceBound(Instance(self.problem))
        self.distance = float(self.target) / self.problem.scale * (1 - 1e-9) - 2 * self.bound.instance.doubt
        return self.distance > 0 and max(case.sums(case.load, case.current)) // case.cell <= MOST_CELLS

    def _expired(self) -> bool:
        return time.monotonic() > self.deadline

    def _search(self) -> bool:
        waiting: list[tuple[dict[int, Any], IntArray, FloatArray]] = [({}, self.bound.counts, self.bound.curve)]
        while waiting:
            if self._expired() or len(self.tree) > self.most:
                return False
            limits, counts, curve = waiting.pop()
            priced = self.bound.price(self.distance, counts, curve, self._expired)
            prices = [int(q) for q in np.clip(np.rint(self.bound.hats @ priced.curve * self.one), 1, self.one)]
            if self.bound.enough(priced.value):
                if self._refuted(prices, limits):
                    self.tree.append({"prices": prices})
                    continue
                self.again = True  # finer prices or cells may do
            use = priced.master.use()
            side = most_mixed(use)
            if side is None or self.again:
                return False
            node, which = side
            fewer, more = sorted(
                halves(use, side, counts, priced.curve), key=lambda half: int(half[0][node, 2 * which + 1])
            )
            cut = int(fewer[0][node, 2 * which + 1])
            self.tree.append({"split": [node, which, cut]})
            waiting.append((verify.narrowed(limits, node, which, cut + 1, None), *more))
            waiting.append((verify.narrowed(limits, node, which, 0, cut), *fewer))
        return True

    def _refuted(self, prices: list[int], limits: dict[int, Any]) -> bool:
        paid = 0
        for i in range(self.case.nodes):
            if self._expired():
                return False
            paid += self.case.least_paid(i, prices, self.one, limits.get(i, {}))
            if paid > self.case.moves * self.one:
                return True
        return False

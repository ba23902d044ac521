"""Proofs for key-group allocation: what every node pays at least for the moves that bring it within a distance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.certificates import Proven, verify
from keyshift.models import Budget, Solution
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.allocation.pricing.bound import PriceBound
from keyshift.solvers.allocation.pricing.tree import halves, most_mixed

ONE_MOVE = 1 << 16
"""In how many parts the price of a move is divided between sender and taker."""
SLOPES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0)
"""Prices of load, as shares of a move's price to the spread of the loads: the checker takes the best for each node."""
LESS = (1.0, 0.999, 0.99, 0.9, 0.7, 0.4)
"""Shares of the best bound that are tried where it cannot be proven itself."""


def prove_allocation(
    problem: Any, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """The value; else the solution's bound, or less of it; each by prices for every key group's moves, and branches."""
    first = budget.part(1.0, seconds)
    if value is None:
        return prove_distance(problem, case, first)
    bound = 0.0 if solution.bound is None else solution.bound
    counted = CountBound(Instance(problem)).bound() * problem.scale
    known = min(float(value), max(bound, counted if np.isfinite(counted) else 0.0))
    same = value - Fraction(problem.tolerance_of(float(value))) * 9 / 10
    for target in (same, *(Fraction(known * share) for share in LESS)):
        if 0 < target <= value:
            left = first if target == same else budget.part(1.0, max(first.remaining, min(5.0, seconds)))
            if (proof := MovePrices(problem, case, target, left).run()) is not None:
                return Proven(value if target == same and _holds(case, value, proof) else target, proof)
    return Proven(Fraction(0), {"kind": "none"})


def _holds(case: Any, target: Fraction, proof: dict[str, Any]) -> bool:
    """Whether a proof of a little less is one of the target too."""
    try:
        case.refute(target, proof)
    except verify.Refused:
        return False
    return True


def prove_distance(problem: Any, case: Any, budget: Budget) -> Proven:
    """That nothing is within the widest distance."""
    return Proven() if case.widest is None else Proven(None, MovePrices(problem, case, None, budget).run())


@dataclass
class MovePrices:
    """Branch and price for a certificate: the solver's curves of prices, the checker's arithmetic.

    Parameters
    ----------
    problem : Problem
        Key-group allocation.
    case : verify.AllocationCase
    target : Fraction or None
        The distance that is to be refuted; None for the widest.
    budget : Budget
    most : int
        Branches at most.
    """

    problem: Any
    case: Any
    target: Fraction | None
    budget: Budget
    most: int = 300
    tree: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> dict[str, Any] | None:
        """The proof; None where time or branches run out."""
        if self.budget.expired or self.problem.space.movers.size == 0:
            return None
        self.bound = PriceBound(Instance(self.problem))
        if not self.bound.affordable:
            return None
        self.case.untried = verify.MOST_STEPS
        off = self.case.widest if self.target is None else self.target
        self.distance = float(off) / self.problem.scale * (1 - 1e-9) - 2 * self.bound.instance.doubt
        self.windows = [self.case.window(i, self.target) for i in range(self.case.nodes)]
        self._set_up_slopes()
        try:
            if self.distance <= 0 or not self._search():
                return None
        except verify.Refused:  # more ways to send and to take than the checker tries
            return None
        return {"kind": "moves", "one": ONE_MOVE, "steps": self.steps, "slopes": self.slopes, "tree": self.tree}

    def _set_up_slopes(self) -> None:
        """Slopes as whole numbers for a whole unit of load: so many steps make one part of a price."""
        spread = self.bound.spread * self.problem.scale / float(self.case.units[0]) or 1.0
        per_load = [slope * ONE_MOVE / spread for slope in SLOPES]
        self.steps = 1 << max(0, 12 - math.floor(math.log2(per_load[0])))
        whole = [round(slope * self.steps) for slope in per_load]
        self.slopes = [*(-x for x in reversed(whole)), *whole]

    def _expired(self) -> bool:
        return self.budget.expired

    def _search(self) -> bool:
        waiting: list[tuple[Any, IntArray, FloatArray]] = [((), self.bound.counts, self.bound.curve)]
        while waiting:
            if self._expired() or len(self.tree) > self.most:
                return False
            path, counts, curve = waiting.pop()
            priced = self.bound.price(self.distance, counts, curve, self._expired)
            prices = [int(q) for q in np.rint(self.bound.basis @ priced.curve * ONE_MOVE)]
            if self.bound.enough(priced.value) and self._refuted(prices, verify.limits_of(path)):
                self.tree.append({"prices": prices})
                continue
            use = priced.master.use()
            side = most_mixed(use)
            if side is None:
                return False
            node, which = side
            fewer, more = sorted(
                halves(use, side, counts, priced.curve), key=lambda half: int(half[0][node, 2 * which + 1])
            )
            cut = int(fewer[0][node, 2 * which + 1])
            self.tree.append({"split": [node, which, cut]})
            above, within = verify.halves(path, node, which, cut)
            waiting += [(above, *more), (within, *fewer)]
        return True

    def _refuted(self, prices: list[int], limits: dict[int, Any]) -> bool:
        """As the checker does, for as long as there is time."""
        case, left, enough = self.case, self.case.moves * ONE_MOVE + 1, self.case.moves * ONE_MOVE + 1
        safe = all(0 <= price <= ONE_MOVE for price in prices)
        for i, window in enumerate(self.windows):
            if self._expired():
                return False
            if left > 0 or not safe:
                rest = (ONE_MOVE, self.steps, self.slopes, left if safe else enough)
                left -= case.least_paid(i, window, limits.get(i, {}), prices, *rest)
        return left <= 0

"""Proofs for key-group allocation: what every node pays at least for the moves that bring it within a distance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np

from keyshift.certificates import Proven, verify
from keyshift.models import Budget, Solution
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting import CountBound
from keyshift.solvers.allocation.pricing.bound import PriceBound
from keyshift.solvers.allocation.pricing.tree import halves, most_mixed
from keyshift.solvers.collocation.arrays import Arrays
from keyshift.solvers.collocation.lagrangian import LagrangianBound, tighten

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
        self.distance = float(off) / self.problem.scale * (1 - 1e-9) - 2 * self.bound.instance.error_bound
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
            at = node, 2 * which + 1
            fewer, more = sorted(halves(use, side, counts, priced.curve), key=lambda half: int(half[0][at]))
            cut = int(fewer[0][at])
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


# Proofs for collocation: prices for moves and loads, a program over a forest of pairs, and branches --------------------


def prove_collocation(
    problem: Any, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """The value by branches; else what one set of prices proves."""
    if value is None:
        return prove_distance(problem.allocation, case, budget.part(1.0, seconds))
    try:
        search = ForestSearch(problem, case, budget, budget.part(1.0, seconds))
    except verify.Refused:  # more key groups and nodes than the checker takes
        return Proven(Fraction(0), {"kind": "none"})
    root, most = search.priced(search.bound.data.allowed)
    grid = (gcd(*case.talk) or 1) * case.unit_of_talk
    left = (sum(case.talk) - Fraction(most, search.read[0])) * case.unit_of_talk
    bound = max(Fraction(0), min(value, grid * -(-left // grid)))
    if bound < value and search.run(value, grid):
        return Proven(value, search.proof)
    search.proof["tree"] = [root]
    return Proven(bound, search.proof) if bound else Proven(bound, {"kind": "none"})


@dataclass
class ForestSearch:
    """Depth-first branch and bound on which key group goes where.

    Parameters
    ----------
    problem : CollocatedAllocation
    case : verify.CollocationCase
    budget : Budget
        Ends with an interruption alone.
    left : Budget
        The part of it for this search.
    most : int
        Branches at most.
    """

    problem: Any
    case: Any
    budget: Budget
    left: Budget
    most: int = 400
    proof: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bound = LagrangianBound(Arrays(self.problem))
        forest, case = self.bound.forest, self.case
        number = {pair: e for e, pair in enumerate(case.pairs)}
        edges = [(int(k), int(forest.parent[k])) for k in forest.order if forest.parent[k] >= 0]
        # Prices are rounded to so many bits of all traffic.
        scale = max(1, 2**40 // max(1, sum(case.talk)))
        pairs = [[k, number[min(k, parent), max(k, parent)]] for k, parent in edges]
        self.proof = {"kind": "forest", "scale": scale, "forest": pairs, "tree": []}
        self.read = case.forest(self.proof)

    def priced(self, open_to: BoolArray, limits: Any = None) -> tuple[dict[str, Any], int]:
        """A leaf with good prices for what is open, and the most talk that meets by it."""
        bound, data, case = self.bound, self.bound.data, self.case
        bound.open_to = open_to.copy()
        # Steps of the search for the prices of one branch.
        tighten(bound, self.budget.part(1.0, max(0.5, self.left.remaining)), None, 1500)
        share = sum(case.talk) * self.read[0]
        prices, unit = bound.prices.upper[0] - bound.prices.lower[0], float(case.units[0])  # of the only window
        per_load = prices * unit / data.load_unit[0] * share
        leaf = {"per_move": round(bound.prices.moves * share), "prices": [round(float(x)) for x in per_load]}
        return leaf, case.most_met(leaf, limits or {}, *self.read)

    def run(self, value: Fraction, grid: Fraction) -> bool:
        """Whether all branches are refuted; the proof has its tree then."""
        case, tree = self.case, self.proof["tree"]
        beaten = sum(case.talk) - verify.steps_below(value / case.unit_of_talk, int(grid / case.unit_of_talk))
        waiting: list[tuple[Any, BoolArray]] = [((), self.bound.data.allowed.copy())]
        while waiting:
            path, open_to = waiting.pop()
            if not open_to.any(axis=1).all():
                tree.append({"per_move": 0, "prices": [0] * case.places})
                continue
            leaf, most = self.priced(open_to, verify.limits_of(path))
            if most < beaten * self.read[0]:
                tree.append(leaf)
                continue
            if len(tree) > self.most or self.left.expired or (split := self._split(open_to)) is None:
                return False
            k, i = split
            elsewhere, there = open_to.copy(), open_to.copy()
            elsewhere[k, i] = there[k] = False
            there[k, i] = True
            tree.append({"split": [k, i, 0]})
            at_node, away = verify.halves(path, k, i, 0)
            waiting += [(at_node, there), (away, elsewhere)]
        return True

    def _split(self, open_to: BoolArray) -> tuple[int, int] | None:
        """A key group that the best choice moves and that is not yet decided: the one with most traffic."""
        bound = self.bound
        bound.evaluate(bound.prices)
        labels, data = bound.labels, bound.data
        free = np.flatnonzero((labels != data.current) & (open_to.sum(axis=1) > 1))
        if not free.size:
            return None
        weight = np.array([data.weight[0, data.indptr[k] : data.indptr[k + 1]].sum() for k in free])
        k = int(free[np.argmax(weight)])
        return k, int(labels[k])

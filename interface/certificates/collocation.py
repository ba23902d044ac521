"""Proofs for collocation: prices for moves and loads, a program over a forest of pairs, and branches."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np

from keyshift.certificates import Proven, verify
from keyshift.certificates.allocation import prove_distance
from keyshift.models import Budget, Solution
from keyshift.models.workload import BoolArray
from keyshift.solvers.collocation.arrays import arrays_of
from keyshift.solvers.collocation.lagrangian import LagrangianBound, tighten

BITS = 40
"""Prices are rounded to so many bits of all traffic."""
STEPS = 1500
"""Steps of the search for the prices of one branch."""


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
        self.bound = LagrangianBound(arrays_of(self.problem))
        forest, case = self.bound.forest, self.case
        number = {pair: e for e, pair in enumerate(case.pairs)}
        edges = [(int(k), int(forest.parent[k])) for k in forest.order if forest.parent[k] >= 0]
        scale = max(1, 2**BITS // max(1, sum(case.talk)))
        pairs = [[k, number[min(k, parent), max(k, parent)]] for k, parent in edges]
        self.proof = {"kind": "forest", "scale": scale, "forest": pairs, "tree": []}
        self.read = case.forest(self.proof)

    def priced(self, open_to: BoolArray, limits: Any = None) -> tuple[dict[str, Any], int]:
        """A leaf with good prices for what is open, and the most talk that meets by it."""
        bound, data, case = self.bound, self.bound.data, self.case
        bound.open_to = open_to.copy()
        tighten(bound, self.budget.part(1.0, max(0.5, self.left.remaining)), None, STEPS)
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

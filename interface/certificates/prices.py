"""Proofs by prices and branches - key splitting and placement, mixed routing, movement within limits.

A formulation is a linear program: rows that prices belong to, a column for each choice. Linear programs find the prices, the
checker's own arithmetic decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from keyshift.certificates import Proven, verify
from keyshift.models import Budget, Solution
from keyshift.models.workload import FloatArray, IntArray

Columns = tuple[IntArray, IntArray, sp.csr_array]
Tree = list[dict[str, Any]]
Limits = dict[int, dict[int, tuple[int, int | None]]]
BITS = (10, 20, 32, 48)
"""Prices are rounded to so many bits, the fewest that suffice."""


def prove_by_prices(
    problem: Any, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """The value by one set of prices, or by branches; else the solution's bound; else what prices alone prove."""
    first = budget.part(1.0, seconds)
    # Choices of a linear program at most: beyond, prices come from the Lagrangian dual.
    if isinstance(case, verify.MovedCase) and case.in_use is None and case.size * case.places > 400_000:
        return _by_dual(problem, case, value, first)
    if (tree := _tree(case, value, first)) is not None:
        return Proven(value, {"kind": "tree", "tree": tree})
    if value is None:
        return Proven()
    for target in _lower_targets(problem, case, solution, value, budget):
        left = budget.part(1.0, max(first.remaining, min(1.0, seconds)))
        if 0 < target < value and (tree := _tree(case, target, left)) is not None:
            return Proven(target, {"kind": "tree", "tree": tree})
    return Proven(Fraction(0), {"kind": "none"})


def _tree(case: Any, target: Fraction | None, budget: Budget) -> Tree | None:
    if isinstance(case, verify.SplittingCase) and target is None:
        return None
    return TreeSearch(program_of(case, target), budget).run()


def _lower_targets(problem: Any, case: Any, solution: Solution, value: Fraction, budget: Budget) -> list[Fraction]:
    """Claims in place of the value: the solution's bound, then the value that no division of items can beat."""
    made = [] if solution.bound is None else [on_grid(case, Fraction(solution.bound) * (1 - Fraction(1, 10**12)))]
    if isinstance(case, verify.SplittingCase):
        from keyshift.solvers.splitting.flow import flow_bound

        divided = flow_bound(problem, budget=budget.part(1.0, 10.0)).bound or 0.0
    else:
        divided = _relaxed(program_of(case, value), budget) * float(case.unit)
    return [*made, *(on_grid(case, Fraction(divided * (1 - share))) for share in (1e-9, 1e-6, 1e-3))]


def on_grid(case: Any, bound: Fraction) -> Fraction:
    """A bound on state that moves, rounded up to the next sum that states can have."""
    if isinstance(case, verify.SplittingCase):
        return bound
    step = (gcd(*case.state) or 1) * case.unit
    return step * -(-bound // step)


def _relaxed(program: ChoiceProgram, budget: Budget) -> float:
    """The least of the first row when items may be divided, in its own units; 0 where HiGHS finds none."""
    result = linprog(
        program.rows[[0]].toarray().ravel(),
        A_ub=program.scaled[1:], b_ub=program.room[1:], A_eq=program.partition, b_eq=program.count,
        bounds=np.stack([np.zeros(program.group.size), np.minimum(program.most, program.count[program.group])], axis=1),
        method="highs", options=_within(budget),
    )  # fmt: skip
    return 0.0 if result.x is None else max(0.0, float(result.fun))


def _by_dual(problem: Any, case: verify.MovedCase, value: Fraction | None, budget: Budget) -> Proven:
    """For many keys: the prices of the Lagrangian dual, rounded, and the bound that they prove."""
    from keyshift.models.routing.compact import compact
    from keyshift.solvers.routing.lagrangian import Relaxation, maximise

    relaxation = Relaxation(problem, compact(problem.workload))
    prices = maximise(relaxation, budget).prices
    per_load = float(case.units[0]) * problem.scale / relaxation.mean
    made = np.concatenate([
        [float(case.unit), prices.entry * problem.scale / relaxation.entries], (prices.upper - prices.lower) * per_load
    ])  # fmt: skip
    whole = _whole(made)
    least = verify.cheapest(case, whole, {})
    rest = sum(price * row[price > 0] for price, row in zip(whole[1:], case.scarce(value)[1:], strict=True))
    if least is None or value is None or least <= rest:
        return Proven(Fraction(0), {"kind": "none"}) if value is not None else Proven()
    bound = min(value, on_grid(case, Fraction(least - rest, whole[0]) * case.unit))
    return Proven(bound, {"kind": "tree", "tree": [{"prices": whole}]})


def _whole(prices: FloatArray) -> list[int]:
    """Prices as whole numbers, 60 bits to the least that is not next to nothing."""
    factor = Fraction(2**60) / Fraction(float(prices[0]))
    made = [round(Fraction(float(price)) * factor) for price in prices]
    common = gcd(*made)
    return [price // common for price in made]


# The linear program -------------------------------------------------------------------------------------------------


@dataclass
class ChoiceProgram:
    """How many members of every group go to each place, under rows with upper limits.

    Attributes
    ----------
    case : verify.SplittingCase or verify.MovedCase
        What the checker makes of the instance: it has the last word on every price.
    target : Fraction or None
        What is to be refuted.
    group, place : ndarray of int, shape (columns,)
    rows : sparse array, shape (rows, columns)
    right : list of int
    twofold : int
        The first row that the checker has a least amount of as well: those from the middle on are the least amounts, negative.
    """

    case: verify.SplittingCase | verify.MovedCase
    target: Fraction | None
    group: IntArray
    place: IntArray
    rows: sp.csr_array
    right: list[int]
    twofold: int

    def __post_init__(self) -> None:
        case = self.case
        self.count = np.array(case.counts, dtype=float)
        self.most = np.array([case.most(g) for g in range(len(case.counts))], dtype=float)[self.group]
        size = abs(self.rows).max(axis=1).toarray().ravel()
        self.exponent: IntArray = np.frexp(np.maximum(size, 1.0))[1]  # rows are scaled by powers of two
        self.scaled = sp.csc_array(sp.diags_array(np.ldexp(1.0, -self.exponent)) @ self.rows)
        self.room = np.ldexp(np.array(self.right, dtype=float), -self.exponent)
        groups = (np.ones(self.group.size), (self.group, np.arange(self.group.size)))
        self.partition = sp.csc_array(groups, shape=(self.count.size, self.group.size))
        self.scarce = case.scarce(self.target)

    def joined(self, prices: list[int]) -> list[int]:
        """One price for each row of the checker: that of the most less that of the least."""
        alone, middle = prices[: self.twofold], (self.twofold + len(prices)) // 2
        return alone + [up - low for up, low in zip(prices[self.twofold : middle], prices[middle:], strict=True)]

    def refuted(self, joined: list[int], limits: Any) -> bool:
        """Whether the checker is convinced that nothing within the limits of a branch is below the target."""
        least = verify.cheapest(self.case, joined, limits)
        return least is None or least > sum(x * row[x > 0] for x, row in zip(joined, self.scarce, strict=True))


def program_of(case: verify.SplittingCase | verify.MovedCase, target: Fraction | None) -> ChoiceProgram:
    """The program whose emptiness says that no assignment is below the target (None: that there is none)."""
    scarce = case.scarce(target)
    if isinstance(case, verify.SplittingCase):
        return ChoiceProgram(case, target, *_splitting(case), [most for _, most in scarce], len(scarce))
    right = [most for _, most in scarce] + [-low for low, _ in scarce[2:]]
    return ChoiceProgram(case, target, *_moved(case), right, 2)


def _splitting(case: verify.SplittingCase) -> Columns:
    sizes = [len(group["candidates"]) for group in case.members]
    group = np.repeat(np.arange(len(sizes)), sizes)
    place = np.array([i for g in case.members for i in g["candidates"]], dtype=np.int64)
    weight = np.array(case.weights, dtype=float)[group]
    rows = sp.csr_array((weight, (place, np.arange(group.size))), shape=(len(case.speeds), group.size))
    return group, place, rows


def _moved(case: verify.MovedCase) -> Columns:
    """State moved, entries, most load and least load of each node; the last group are the nodes in use."""
    n, windows, kinds = case.places, len(case.loads), len(case.kinds)
    group, place = np.repeat(np.arange(len(case.counts)), len(case.open)), np.tile(case.open, len(case.counts))
    *load, state, now, home = np.array([*case.kinds, (0,) * (windows + 3)], dtype=float)[np.minimum(group, kinds)].T
    at, used = np.arange(group.size), group == kinds
    parts = [
        (np.zeros_like(at), at, state * (place != now) * ~used),
        (np.ones_like(at), at, (place != home) * ~used * 1.0),
    ]
    for t, limits in enumerate(case.limits):
        low, high = np.array(limits, dtype=float)[place].T
        parts.append((2 + t * n + place, at, np.where(used, -high, load[t])))
        parts.append((2 + (windows + t) * n + place, at, np.where(used, low, -load[t] * (low > 0))))
    row, column, value = (np.concatenate(p) for p in zip(*parts, strict=True))
    kept = value != 0
    return group, place, sp.csr_array((value[kept], (row[kept], column[kept])), shape=(2 + 2 * windows * n, group.size))


# The search for a tree ----------------------------------------------------------------------------------------------


@dataclass
class TreeSearch:
    """Depth-first branch and bound for a certificate's tree.

    Parameters
    ----------
    program : ChoiceProgram
    budget : Budget
    most : int
        Branches at most.
    """

    program: ChoiceProgram
    budget: Budget
    most: int = 3_000
    tree: Tree = field(default_factory=list)

    def run(self) -> Tree | None:
        """The tree; None where time or branches run out, or where something is feasible."""
        waiting: list[Any] = [()]
        # More columns than this are left to prices from elsewhere.
        if self.program.group.size > 400_000:
            return None
        while waiting:
            if self.budget.expired or len(self.tree) >= self.most:
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
            method="highs", options=_within(self.budget),
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
        # A count nearer to a whole number than this counts as one.
        if off[at] < 1e-6:
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
        pairs = zip(share, program.exponent, strict=True)
        made = program.joined([int(s) << (top - int(e)) if s > 0 else 0 for s, e in pairs])
        if refutes(made):
            common = gcd(*made) or 1
            return [price // common for price in made]
        if dearest <= 0:
            break
    return None


def _within(budget: Budget) -> dict[str, float]:
    """HiGHS's own clock."""
    return {} if np.isinf(budget.remaining) else {"time_limit": max(0.01, budget.remaining)}

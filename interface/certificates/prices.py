"""Proofs by prices and branches: key splitting and placement, mixed routing, movement within limits."""

from __future__ import annotations

import time
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np
from scipy.optimize import linprog

from keyshift.certificates import verify
from keyshift.certificates.found import Proven
from keyshift.certificates.programs import ChoiceProgram, program_of
from keyshift.certificates.trees import Tree, TreeSearch
from keyshift.models import Budget, Solution
from keyshift.models.routing import MixedRouting
from keyshift.models.splitting import KeySplitting
from keyshift.models.workload import FloatArray

MOST_PROGRAM = 400_000
"""Choices of a linear program at most: beyond, prices come from the Lagrangian dual."""


def prove_by_prices(problem: Any, case: Any, solution: Solution, value: Fraction | None, deadline: float) -> Proven:
    """The value by one set of prices, or by branches; else the solution's bound; else what prices alone prove."""
    if isinstance(problem, MixedRouting) and problem.workload.key_groups * problem.workload.nodes > MOST_PROGRAM:
        return _by_dual(problem, case, value, deadline)
    if (tree := _tree(case, value, deadline)) is not None:
        return Proven(value, {"kind": "tree", "tree": tree})
    if value is None:
        return Proven()
    for target in _lower_targets(problem, case, solution, value):
        left = max(deadline, time.monotonic() + 1.0)
        if 0 < target < value and (tree := _tree(case, target, left)) is not None:
            return Proven(target, {"kind": "tree", "tree": tree})
    return Proven(Fraction(0), {"kind": "none"})


def _tree(case: Any, target: Fraction | None, deadline: float) -> Tree | None:
    if isinstance(case, verify.SplittingCase) and target is None:
        return None
    return TreeSearch(program_of(case, target), deadline).run()


def _lower_targets(problem: Any, case: Any, solution: Solution, value: Fraction) -> list[Fraction]:
    """What may be proven in place of the value: the solution's bound, then what no division of items can beat."""
    made = [] if solution.bound is None else [on_grid(case, Fraction(solution.bound) * (1 - Fraction(1, 10**12)))]
    if isinstance(problem, KeySplitting):
        from keyshift.solvers.splitting.flow import flow_bound

        divided = flow_bound(problem, budget=Budget(10.0)).bound or 0.0
    else:
        divided = _relaxed(program_of(case, value)) * float(case.unit)
    return [*made, *(on_grid(case, Fraction(divided * (1 - share))) for share in (1e-9, 1e-6, 1e-3))]


def on_grid(case: Any, bound: Fraction) -> Fraction:
    """A bound on state that moves, rounded up to the next sum that states can have."""
    if isinstance(case, verify.SplittingCase):
        return bound
    step = (gcd(*case.state) or 1) * case.unit
    return step * -(-bound // step)


def _relaxed(program: ChoiceProgram) -> float:
    """The least of the first row when items may be divided, in its own units; 0 where HiGHS finds none."""
    result = linprog(
        program.rows[[0]].toarray().ravel(),
        A_ub=program.scaled[1:], b_ub=program.room[1:], A_eq=program.partition, b_eq=program.count,
        bounds=np.stack([np.zeros(program.group.size), np.minimum(program.most, program.count[program.group])], axis=1),
        method="highs",
    )  # fmt: skip
    return 0.0 if result.x is None else max(0.0, float(result.fun))


def _by_dual(problem: MixedRouting, case: verify.MovedCase, value: Fraction | None, deadline: float) -> Proven:
    """For many keys: the prices of the Lagrangian dual, rounded, and the bound that they prove."""
    from keyshift.models.routing.compact import compact
    from keyshift.solvers.routing.lagrangian import Relaxation, maximise

    relaxation = Relaxation(problem, compact(problem.workload))
    prices = maximise(relaxation, Budget(max(1.0, deadline - time.monotonic()))).prices
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

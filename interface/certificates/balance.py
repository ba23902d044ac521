"""Proofs for minimum-cost load balancing: a matrix without negative eigenvalues, or what the largest key groups force."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.certificates import verify
from keyshift.certificates.found import Proven
from keyshift.certificates.instances import text
from keyshift.models import Budget, Solution
from keyshift.models.mclb import MCLB
from keyshift.models.mclb.problem import Core
from keyshift.solvers.mclb.sdp import semidefinite_multipliers

BITS = 34
"""Entries of the matrix are rounded to so many bits of the largest."""
LARGEST = 130
"""Rows of the matrix at most: its elimination in whole numbers takes minutes beyond."""


def prove_balance(problem: MCLB, case: Any, solution: Solution, value: Fraction | None, deadline: float) -> Proven:
    """The better of a semidefinite bound and the bound by windows."""
    if value is None:
        return Proven(None, {"kind": "forced"})
    scale = case.load_unit**2 / case.count
    best = Proven(min(value, case.by_windows() * scale), {"kind": "windows"})
    core = problem.core
    if core.nodes > 1 and core.load.shape[0] + core.nodes <= LARGEST:
        proof = _semidefinite(core, case, value, deadline)
        bound = min(value, case.semidefinite(proof) * scale) if proof else None
        if bound is not None and proof is not None and bound > (best.bound or 0):
            best = Proven(bound, {"kind": "semidefinite", **proof})
    return best


def _semidefinite(core: Core, case: Any, value: Fraction, deadline: float) -> dict[str, Any] | None:
    """The matrix of the semidefinite dual, shifted and rounded so that the checker's elimination runs through."""
    seconds = max(2.0, deadline - time.monotonic())
    dual = semidefinite_multipliers(core, Budget(seconds), reference=float(value) * core.nodes)
    unit = float(case.load_unit) ** 2
    matrix = dual.matrix(dual.v) * (dual.unit / unit)  # in whole units of load, squared
    size = matrix.shape[0]
    values = np.linalg.eigvalsh(matrix)
    step = 2.0 ** (math.frexp(float(np.abs(matrix).max()))[1] - BITS)
    spare = max(0.0, -float(values[0])) + 2 * size * step
    p = case.size
    rows = [list(map(int, row)) for row in zip(*case.load, strict=True)]
    price = 0
    if dual.held.size:
        price = round(float(dual.split(dual.v)[2]) * dual.unit / unit * float(case.unit) / _mean_state(core) / 2 / step)
    place = {int(core.names[a]): p + i for i, a in enumerate(dual.anchors)}
    made = []
    for k in range(size):
        row = []
        for l in range(k):
            most = Fraction(sum(x * y for x, y in zip(rows[k], rows[l], strict=True)) if k < p else 0) / Fraction(step)
            if l < p <= k and place.get(case.current[l]) == k:
                most -= price * case.state[l]
            entry = math.floor(float(matrix[k, l]) / step)
            row.append(min(entry, math.floor(most)) if l < p else entry)
        made.append([*row, math.ceil((float(matrix[k, k]) + spare) / step)])
    for _ in range(8):  # where rounding has taken too much, more goes onto the diagonal
        if verify.positive_definite(made):
            return {"anchors": list(place), "price": price, "unit": text(Fraction(step)), "matrix": made}
        for k in range(size):
            made[k][k] += 2 * max(1, round(spare / step))
        spare *= 8
    return None


def _mean_state(core: Core) -> float:
    """The unit of state that the dual counts in."""
    return float(core.state[(core.state > 0) & (core.current >= 0)].mean())

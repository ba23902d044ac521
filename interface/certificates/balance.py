"""Proofs for minimum-cost load balancing: a matrix without negative eigenvalues as a product of whole numbers, and triangles."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.certificates.found import Proven
from keyshift.certificates.instances import text
from keyshift.models import Budget, Solution
from keyshift.models.mclb import MCLB
from keyshift.models.mclb.problem import Core
from keyshift.models.workload import FloatArray
from keyshift.solvers.mclb.sdp import semidefinite_multipliers

BITS = 30
"""Entries of the factor are rounded to so many bits of the largest."""
LARGEST = 400
"""Rows of the matrix at most: its products take minutes beyond."""
LEAST = 1e-9
"""Triangles of a price below this are left out."""


def prove_balance(problem: MCLB, case: Any, solution: Solution, value: Fraction | None, deadline: float) -> Proven:
    """The semidefinite bound, rounded."""
    if value is None:
        return Proven(None, {"kind": "forced"})
    core = problem.core
    if core.nodes == 1 or core.load.shape[0] + core.nodes > LARGEST:
        return Proven(Fraction(0), {"kind": "none"})
    proof = _factored(core, case, value, deadline)
    bound = case.semidefinite(proof) / case.left * case.units[0] ** 2
    return Proven(max(Fraction(0), min(value, bound)), proof)


def _factored(core: Core, case: Any, value: Fraction, deadline: float) -> dict[str, Any]:
    """The positive part of the dual matrix as a product of a lower triangle with itself, in whole numbers."""
    seconds = max(2.0, deadline - time.monotonic())
    dual = semidefinite_multipliers(core, Budget(seconds), reference=float(value) * core.nodes)
    scale = dual.unit / float(case.units[0]) ** 2  # to whole units of load, squared
    factor = _lower_factor(dual.matrix(dual.v) * scale)
    step = 2.0 ** (math.frexp(float(np.abs(factor).max()) or 1.0)[1] - BITS)
    per = scale / step**2
    _, _, of_budget, of_triangle = dual.split(dual.v)
    price = max(0, round(float(of_budget) * per * float(case.unit) / _mean_state(core))) if dual.held.size else 0
    triangles = [
        [int(i), int(j), int(k), x]
        for (i, j, k), y in zip(dual.triangles, of_triangle, strict=True)
        if y > LEAST and (x := round(float(y) * per)) > 0
    ]
    rows = [[round(float(x) / step) for x in row[: k + 1]] for k, row in enumerate(factor)]
    return {
        "kind": "semidefinite", "anchors": [int(core.names[a]) for a in dual.anchors], "price": price, "triangles": triangles,
        "unit": text(Fraction(step) ** 2), "factor": rows,
    }  # fmt: skip


def _lower_factor(matrix: FloatArray) -> FloatArray:
    """A lower triangle whose product with its transpose is the matrix, its negative eigenvalues put up to 0."""
    values, vectors = np.linalg.eigh(matrix)
    upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T)[1]
    return np.asarray(upper).T


def _mean_state(core: Core) -> float:
    """The unit of state that the dual counts in."""
    return float(core.state[(core.state > 0) & (core.current >= 0)].mean())

"""Proofs for minimum-cost load balancing: a matrix without negative eigenvalues as a product of whole numbers, and vectors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.certificates import Proven
from keyshift.models import Budget, Solution
from keyshift.models.mclb.problem import Core
from keyshift.models.records import text
from keyshift.models.workload import FloatArray
from keyshift.solvers.mclb.sdp import SemidefiniteDual, semidefinite_multipliers

BITS = 30
"""Entries of the factor are rounded to so many bits of the largest."""
LARGEST = 400
"""Rows of the matrix at most: its products take minutes beyond."""
LEAST = 1e-9
"""Vectors of a price below this are left out."""


def prove_balance(
    problem: Any, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """The better of the bound by windows and the semidefinite one, rounded."""
    if value is None:
        return Proven(None, {"kind": "forced"})
    core, unit = problem.core, case.units[0] ** 2 / case.left
    best = Proven(min(value, case.by_windows() * unit), {"kind": "windows"})
    if core.nodes == 1 or core.load.shape[0] + core.nodes > LARGEST or best.bound == value:
        return best
    dual = semidefinite_multipliers(core, budget.part(1.0, seconds), reference=float(value) * core.nodes)
    for shifted in (True, False):
        proof = _factored(core, case, dual, shifted)
        bound = case.semidefinite(proof) * unit
        if bound > (best.bound or 0):
            best = Proven(min(value, bound), proof)
    return best


def _factored(core: Core, case: Any, dual: SemidefiniteDual, shifted: bool) -> dict[str, Any]:
    """The dual matrix without its negative eigenvalues as a product of a lower triangle with itself, in whole numbers."""
    scale = dual.unit / float(case.units[0]) ** 2  # to whole units of load, squared
    factor = _lower_factor(dual.matrix() * scale, shifted)
    step = 2.0 ** (math.frexp(float(np.abs(factor).max()) or 1.0)[1] - BITS)
    per = scale / step**2
    vectors = [
        [x, cut.members.tolist(), cut.counts.tolist()]
        for cut, y in zip(dual.cuts, dual.of_cuts, strict=True)
        if y > LEAST and (x := round(float(y) * per)) > 0
    ]
    rows = [[round(float(x) / step) for x in row[: k + 1]] for k, row in enumerate(factor)]
    return {
        "kind": "semidefinite", "anchors": [int(core.names[a]) for a in dual.anchors],
        "price": text(dual.price * per * float(case.unit) / dual.mean_state),
        "triangles": [], "vectors": vectors, "unit": text(Fraction(step) ** 2), "factor": rows,
    }  # fmt: skip


def _lower_factor(matrix: FloatArray, shifted: bool) -> FloatArray:
    """A lower triangle; its product with itself is the matrix, all eigenvalues raised alike, or the negative ones put to 0.

    What is added is worth little on the diagonal, while anywhere else it counts at its worst.
    """
    values, vectors = np.linalg.eigh(matrix)
    values = values - min(values[0], 0.0) if shifted else np.maximum(values, 0.0)
    upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T)[1]
    return np.asarray(upper).T

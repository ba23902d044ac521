"""`ks.certify`: a solution's certificate, which `verify.py` has checked before anybody else sees it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from keyshift.certificates import Proven, verify
from keyshift.certificates.allocation import prove_allocation, prove_collocation
from keyshift.certificates.intervals import prove_intervals, values_of
from keyshift.certificates.prices import prove_by_prices
from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.answer import TIME_LIMIT
from keyshift.models.figures import figure
from keyshift.models.files.writing import write_text
from keyshift.models.guards import real
from keyshift.models.mclb.problem import Core
from keyshift.models.priorities import Prioritised
from keyshift.models.records import text
from keyshift.models.windows import OverWindows
from keyshift.models.workload import FloatArray
from keyshift.solvers.mclb.sdp import SemidefiniteDual, semidefinite_multipliers
from keyshift.solving import WORD, interruptible

# Proofs for minimum-cost load balancing: a matrix without negative eigenvalues as a product of whole numbers, and vectors.

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
        return Proven(None, {"kind": "forced"}) if case.free < 0 else Proven()  # or rules have it
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


Prover = Callable[[Any, Any, Solution, Fraction | None, Budget, float], Proven]
PROVERS: dict[type, Prover] = {
    verify.SplittingCase: prove_by_prices,
    verify.MovedCase: prove_by_prices,
    verify.AllocationCase: prove_allocation,
    verify.BalanceCase: prove_balance,
    verify.IntervalsCase: prove_intervals,
    verify.CollocationCase: prove_collocation,
}
"""The proofs that there are for an instance as the checker reads it."""


@dataclass(frozen=True)
class Certificate:
    """Everything needed to check an answer without keyshift: instance, assignment, claim and proof, in exact numbers.

    Attributes
    ----------
    record : dict
        The certificate as its file holds it.
    proven : str
        What `verify.py` says of it, in one sentence.
    value, bound : Fraction or None
        The objective of the assignment, exactly, and the highest bound that the certificate proves.
    claimed : float or None
        The bound that the solution came with.
    complete : bool
        Whether the certificate proves everything that the solution claims. If not, the rest relies on the solver.
    """

    record: dict[str, Any] = field(repr=False)
    proven: str
    value: Fraction | None
    bound: Fraction | None
    claimed: float | None
    complete: bool

    @property
    def word(self) -> str:
        """Claims that rely on the solver alone; empty if there are none."""
        return str(self.record["solvers_word"] or "")

    def save(self, path: str | Path) -> None:
        """Write the certificate as one JSON file.

        Raises
        ------
        InputError
            If the file cannot be written there.
        """
        write_text(path, json.dumps(self.record, separators=(",", ":")) + "\n")

    def __str__(self) -> str:
        return f"proven: {self.proven}" + (f"; {self.word}" if self.word else "")


def certify(
    solution: Solution,
    path: str | Path | None = None,
    *,
    time_limit: float = TIME_LIMIT,
    seconds: float | None = None,
) -> Certificate:
    """Write a solution's instance, assignment, claim and proof to a file that `verify.py` checks without keyshift.

    The proof is looked for anew from what is claimed: prices and branches, a price on intervals, tables of values, a matrix
    without negative eigenvalues. What is found within `time_limit` is checked here by `verify.py` itself, and
    ``solution.details["proof"]`` says from then on what proves the bound.

    Parameters
    ----------
    solution : Solution
        With an assignment, or infeasible.
    path : str or Path, optional
        Where to write the certificate.
    time_limit : float, default 60
        Seconds for the search for a proof. Where they are not enough, the highest bound that can be proven is in the
        certificate, and `word` says what relies on the solver.
    seconds : float, optional
        Retired: as `time_limit` was called until 0.2.

    Returns
    -------
    Certificate

    Raises
    ------
    InputError
        If there is nothing to certify: no assignment and no proof that there is none.
    """
    if seconds is not None:
        said = "certify(seconds=...) is retired and goes in 0.5: write time_limit=..."
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        time_limit = seconds
    limit = real("time_limit", time_limit, optional=False)
    problem = solution.problem
    if solution.assignment is None and solution.status != "infeasible":
        raise InputError(f"there is nothing to certify: {solution!r}")
    if isinstance(problem, Prioritised) and problem.stages[0] != problem.own_measure:
        raise InputError(f"certificates are about {problem.own_measure}, this problem puts {problem.stages[0]} first")
    if isinstance(problem, OverWindows) and problem.by_window[0] is not problem:
        raise InputError("certificates are about one window of loads, the last: this problem plans for others")
    budget = Budget()
    with interruptible(budget.interrupt):
        instance = problem.record()
        case, assignment, value = _read(solution, instance)
        found = prove(problem, case, solution, value, budget, limit)
        record = _record(solution, instance, assignment, value, found)
        return _checked(record, solution, value, found, path)


def _read(solution: Solution, instance: dict[str, Any]) -> tuple[Any, Any, Fraction | None]:
    """The checker's own reading of instance and assignment, and the value that it finds."""
    problem = solution.problem
    try:
        case: Any = verify.CASES[problem.name](instance)
    except verify.Refused as error:
        raise InputError(f"a certificate cannot hold this instance: {error}") from None
    if solution.assignment is None:
        return case, None, None
    assignment = problem.recorded(solution.assignment)
    if isinstance(case, verify.IntervalsCase):
        assignment = {"table": assignment, "values": values_of(problem, case, solution, assignment)}
    try:
        return case, assignment, case.value(assignment)
    except verify.Refused as error:
        raise InputError(f"the assignment keeps the rules only by the rounding of floats: {error}") from None


def prove(
    problem: Problem, case: Any, solution: Solution, value: Fraction | None, budget: Budget, seconds: float
) -> Proven:
    """The best proof: of the value as a bound, else of the solution's bound, else of the highest bound found.

    Parameters
    ----------
    problem : Problem
    case : object
        The checker's own reading of the instance.
    solution : Solution
    value : Fraction or None
        Of the assignment; None to prove that there is none.
    budget : Budget
        Ends with an interruption alone.
    seconds : float
        For the search.
    """
    if value == 0:
        return Proven(value, {"kind": "none"})
    found = PROVERS[type(case)](problem, case, solution, value, budget, seconds)
    if (value is None and found.proof is None) or (value is not None and found.bound != value):
        by_trial = Proven() if budget.interrupted else _by_trial(case, value)
        return by_trial if by_trial.proof is not None else found
    return found


def _by_trial(case: Any, value: Fraction | None) -> Proven:
    """Where there are few assignments, all of them are tried; the answer may not be the best of them."""
    if not isinstance(case, verify.PlacedCase) or isinstance(case, verify.IntervalsCase):
        return Proven()
    try:
        case.try_all(value)
    except verify.Refused:
        return Proven()
    return Proven(value, {"kind": "all"})


def _record(
    solution: Solution, instance: dict[str, Any], assignment: Any, value: Fraction | None, found: Proven
) -> dict[str, Any]:
    claim = {
        "value": None if value is None else text(value),
        "bound": None if found.bound is None else text(found.bound),
        "infeasible": value is None,
    }
    return {
        "format": "keyshift-certificate", "version": 1, "problem": solution.problem.name, "solvers_word": None,
        "claim": claim, "proof": found.proof, "assignment": assignment, "instance": instance,
    }  # fmt: skip


def _checked(
    record: dict[str, Any], solution: Solution, value: Fraction | None, found: Proven, path: str | Path | None
) -> Certificate:
    """Let the checker read the record, and say what it does not prove."""
    word = None
    if value is None and found.proof is None:
        word = f"{WORD}: no assignment keeps every rule ({solution.message})"
    elif value is not None and not complete(solution, value, found.bound):
        word = f"{WORD}: no assignment has less than {figure(solution.bound)}"
    record["solvers_word"] = word
    kind = f"certificate ({found.proof['kind']})" if found.proof else ""
    solution.details["proof"] = kind if word is None else f"{kind}; {word}" if found.bound else word
    if value is None and found.proof is None:
        return _saved(Certificate(record, "nothing", None, None, None, False), path)
    said = verify.verified(record)
    return _saved(Certificate(record, said, value, found.bound, solution.bound, word is None), path)


def _saved(made: Certificate, path: str | Path | None) -> Certificate:
    if path is not None:
        made.save(path)
    return made


def complete(solution: Solution, value: Fraction, bound: Fraction | None) -> bool:
    """Whether a bound is as good as the solution's, up to what the problem calls the same."""
    if solution.bound is None or solution.bound <= 0:
        return True
    same = max(solution.problem.tolerance_of(float(value)), 1e-9 * float(value))
    return bound is not None and bound >= Fraction(solution.bound) - Fraction(same)

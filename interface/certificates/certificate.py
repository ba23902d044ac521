"""`ks.certify`: a solution's certificate, which `verify.py` has checked before anybody else sees it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyshift.certificates import verify
from keyshift.certificates.found import Proven
from keyshift.certificates.instances import assignment_of, instance_of, text
from keyshift.certificates.intervals import values_of
from keyshift.certificates.proving import prove
from keyshift.models import InputError, Solution
from keyshift.models.figures import figure
from keyshift.models.files.writing import write_text
from keyshift.models.guards import real
from keyshift.models.priorities import Prioritised
from keyshift.models.windows import OverWindows
from keyshift.solving import WORD


@dataclass(frozen=True)
class Certificate:
    """What a stranger needs to check an answer: instance, assignment, claim and proof, in exact numbers.

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
        Whether the certificate proves all that the solution claims: where it does not, the rest is the solver's word.
    """

    record: dict[str, Any] = field(repr=False)
    proven: str
    value: Fraction | None
    bound: Fraction | None
    claimed: float | None
    complete: bool

    @property
    def word(self) -> str:
        """What rests on a solver's word alone; empty where nothing does."""
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


def certify(solution: Solution, path: str | Path | None = None, *, seconds: float = 60.0) -> Certificate:
    """Put a solution's instance, assignment, claim and proof into one file that `verify.py` checks without keyshift.

    The proof is looked for anew from what is claimed: prices and branches, a price on intervals, tables of values, a matrix
    without negative eigenvalues. What is found within `seconds` is checked here by `verify.py` itself, and
    ``solution.details["proof"]`` says from then on what proves the bound.

    Parameters
    ----------
    solution : Solution
        With an assignment, or infeasible.
    path : str or Path, optional
        Where to write the certificate.
    seconds : float, default 60
        For the search for a proof. Where it is not enough, the highest bound that can be proven is in the certificate, and
        `word` says what rests on a solver's word.

    Returns
    -------
    Certificate

    Raises
    ------
    InputError
        Where there is nothing to certify: no assignment and no proof that there is none.
    """
    seconds = real("seconds", seconds, optional=False)
    problem = solution.problem
    if solution.assignment is None and solution.status != "infeasible":
        raise InputError(f"there is nothing to certify: {solution!r}")
    if isinstance(problem, Prioritised) and problem.stages[0] != problem.own_measure:
        raise InputError(f"certificates are about {problem.own_measure}, this problem puts {problem.stages[0]} first")
    if isinstance(problem, OverWindows) and problem.several:
        raise InputError("certificates are about one window of loads, this problem is about several")
    instance = instance_of(problem)
    case: Any = verify.CASES[problem.name](instance)
    assignment = None if solution.assignment is None else assignment_of(problem, solution.assignment)
    if isinstance(case, verify.IntervalsCase) and assignment is not None:
        assignment = {"table": assignment, "values": values_of(problem, case, solution, assignment)}
    try:
        value = None if assignment is None else case.value(assignment)
    except verify.Refused as error:
        raise InputError(f"the assignment keeps the rules only by the rounding of floats: {error}") from None
    found = prove(problem, case, solution, value, time.monotonic() + seconds)
    record = _record(solution, instance, assignment, value, found)
    return _checked(record, solution, value, found, path)


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

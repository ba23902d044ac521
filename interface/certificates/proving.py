"""Which proof fits which formulation: `prove` looks for the highest bound that the checker can follow."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from keyshift.certificates import verify
from keyshift.certificates.allocation import prove_allocation
from keyshift.certificates.balance import prove_balance
from keyshift.certificates.collocation import prove_collocation
from keyshift.certificates.found import Proven
from keyshift.certificates.intervals import prove_intervals
from keyshift.certificates.prices import prove_by_prices
from keyshift.models import Problem, Solution

Prover = Callable[[Any, Any, Solution, Fraction | None, float], Proven]

PROVERS: dict[type, Prover] = {
    verify.SplittingCase: prove_by_prices,
    verify.MovedCase: prove_by_prices,
    verify.AllocationCase: prove_allocation,
    verify.BalanceCase: prove_balance,
    verify.IntervalsCase: prove_intervals,
    verify.CollocationCase: prove_collocation,
}


def prove(problem: Problem, case: Any, solution: Solution, value: Fraction | None, deadline: float) -> Proven:
    """The best proof: of the value as a bound, else of the solution's bound, else of the highest bound found.

    Parameters
    ----------
    problem : Problem
    case : object
        The checker's own reading of the instance.
    solution : Solution
    value : Fraction or None
        Of the assignment; None to prove that there is none.
    deadline : float
        On the clock of `time.monotonic`.
    """
    if value == 0:
        return Proven(value, {"kind": "none"})
    found = PROVERS[type(case)](problem, case, solution, value, deadline) if type(case) in PROVERS else Proven()
    if (value is None and found.proof is None) or (value is not None and found.bound != value):
        by_trial = _by_trial(case, value)
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

"""Hold one answer of the library against the truth, and name what is wrong with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hostile.exact import LOOSE, Truth

ROUNDING = Fraction(1, 10**11)
"""Floats may err by that share of the largest numbers that they had to add: a figure no farther off is right."""

HARD = (
    "wrong optimum", "unsafe bound", "false infeasible", "infeasible assignment", "wrong value", "traceback", "hang",
    "crash", "optimal when not", "overrun", "false remedy",
)  # fmt: skip
"""What must never be."""

SOFT = (
    "unproven", "none found", "false limit", "no bound", "refused", "slack only", "coarse optimum",
    "stopped at optimal",
)  # fmt: skip
"""What is not a wrong word, but worth counting: an exact method that gives up early, a sentence that refuses an instance,
a verdict that only the slack of the check disproves, an optimum that a finer tolerance than the stated one would not
call one, a termination that speaks of another objective or of what the options left to prove."""


def judge(
    truth: Truth, problem: Any, solution: Any, kind: str, *, partial: bool, limit: float, seconds: float
) -> list[tuple[str, str]]:
    """What is wrong with a solution, as (class, sentence).

    Parameters
    ----------
    truth : Truth
    problem, solution
        The library's.
    kind : {"exact", "relaxation", "heuristic"}
    partial : bool
        Whether the options let an exact method end without a proof.
    limit, seconds : float
        The time limit, and what was waited.
    """
    found: list[tuple[str, str]] = []
    same = solution.problem is problem
    if solution.assignment is not None:
        found += _assignment(truth, solution, same)
    if same:
        found += _verdict(truth, problem, solution)
    elif solution.bound is not None:
        found.append(("unsafe bound", f"a bound {solution.bound!r} of a problem with fewer rules"))
    limited = solution.termination in ("time_limit", "interrupted")
    if limited and seconds < 0.8 * limit:
        found.append(("false limit", f"{solution.termination} after {seconds:.3f} s of {limit:g}"))
    if solution.termination == "optimal" and solution.status != "optimal" and same:
        found.append(("stopped at optimal" if partial else "optimal when not", f"status {solution.status}"))
    if not limited:
        found += _given_up(truth, solution, kind, partial)
    if seconds > 1.5 * limit + 0.5:
        found.append(("overrun", f"{seconds:.2f} s of {limit:g}"))
    return found


def _assignment(truth: Truth, solution: Any, same: bool) -> list[tuple[str, str]]:
    found = []
    assignment = truth.read(solution.assignment)
    if same and (rule := truth.broken(assignment, LOOSE)):
        found.append(("infeasible assignment", f"breaks {rule}: {assignment}"))
    else:
        value = truth.value(assignment)
        if abs(Fraction(solution.objective) - value) > ROUNDING * max(truth.unit, value):
            found.append(("wrong value", f"{solution.objective!r} for an assignment of {float(value)!r}"))
    return found


def _verdict(truth: Truth, problem: Any, solution: Any) -> list[tuple[str, str]]:
    """Bounds, optima and infeasibility."""
    found = []
    if solution.status == "infeasible" and truth.best is not None:
        kind = "false infeasible" if truth.strict is not None else "slack only"
        found.append((kind, f"{float(truth.best)!r} is reached by {truth.example}: {solution.message}"))
    if truth.best is None:
        return found
    doubt = ROUNDING * max(truth.unit, truth.best) / 10
    if solution.bound is not None and Fraction(solution.bound) > truth.best + doubt:
        honest = truth.strict is None or Fraction(solution.bound) > truth.strict + doubt
        found.append(("unsafe bound" if honest else "slack only", f"{solution.bound!r} above {float(truth.best)!r}"))
    if solution.status == "optimal":
        above = Fraction(solution.objective) - truth.best
        stated = Fraction(solution.tolerance)
        # Documented: a millionth of a natural unit of the objective, or of the answer's own size.
        if stated > max(truth.scale, truth.best + above) / 10**6 * (1 + Fraction(1, 10**9)):
            found.append(("wrong optimum", f"the stated tolerance {float(stated)!r} exceeds a millionth of the scale"))
        if above > stated + doubt:
            said = f"{solution.objective!r} called optimal, {float(truth.best)!r} is"
            slack = truth.strict is None or Fraction(solution.objective) > truth.strict + stated + doubt
            found.append(("wrong optimum" if slack else "slack only", said))
        elif above > truth.best / 10**6 + doubt:
            said = f"{solution.objective!r} called optimal within {float(stated)!r}, {float(truth.best)!r} is"
            found.append(("coarse optimum", said))
    return found


def _given_up(truth: Truth, solution: Any, kind: str, partial: bool) -> list[tuple[str, str]]:
    """An exact method, or a relaxation, that ends before its limit and proves nothing."""
    said = f"{solution.status} ({solution.termination}), bound {solution.bound!r}: {solution.message}"
    if kind == "relaxation" and solution.bound is None and solution.status != "infeasible" and truth.best is not None:
        return [("no bound", said)]
    if kind != "exact" or partial or solution.status in ("optimal", "infeasible"):
        return []
    if truth.best is not None:
        return [("unproven" if solution.status == "feasible" else "none found", said)]
    return [("unproven", said)] if truth.loose is None else []

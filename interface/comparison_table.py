"""A comparison as a table: every method's row, those that break rules marked and not ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keyshift.models import Problem, Solution
from keyshift.models.figures import figure, percent

if TYPE_CHECKING:
    from rich.table import Table

SHOWN_METRICS = ("migrations", "state_moved", "average_imbalance", "counters")
WIDE = 110
"""Columns of a terminal from which on a table has all its columns."""


def best_of(problem: Problem, solutions: Sequence[Solution]) -> Solution | None:
    """The solution of least objective, of those that answer the problem and keep all its rules."""
    found = [s for s in solutions if s.objective is not None and s.problem is problem]
    return min(found, key=lambda s: s.objective) if found else None  # type: ignore[arg-type,return-value]


def best_bound_of(solutions: Sequence[Solution]) -> float | None:
    """The highest proven bound."""
    return max((s.bound for s in solutions if s.bound is not None), default=None)


def above(problem: Problem, solution: Solution, what: float | None) -> float | None:
    """How far an answer lies above the best bound, or the best answer; None where it is not to be ranked."""
    if solution.objective is None or what is None or solution.problem is not problem:
        return None
    return max(0.0, solution.objective - what)


def offered_value(solution: Solution) -> float | None:
    """The value of an answer that breaks rules."""
    return None if solution.offered is None else solution.problem.check(solution.offered).objective


def said_worst(solution: Solution) -> str | None:
    """The rule that an answer breaks most."""
    return str(max(solution.violations, key=lambda v: v.amount)) if solution.violations else None


def notes(problem: Problem, solutions: Sequence[Solution]) -> list[str]:
    """A line for each answer with an asterisk, and for each method that has something to say."""
    said = []
    for s in solutions:
        if s.violations:
            more = f" (and {len(s.violations) - 1} more)" if len(s.violations) > 1 else ""
            said.append(f"* {s.method} breaks a rule: {said_worst(s)}{more}")
        elif s.objective is not None and s.problem is not problem:
            said.append(f"* {s.method} answers another problem. {s.message}".rstrip())
        elif s.message:
            said.append(f"{s.method}: {s.message}")
    return said


def comparison_table(problem: Problem, solutions: Sequence[Solution], wide: bool) -> Table:
    """The figures that a reader compares first.

    Parameters
    ----------
    problem : Problem
    solutions : sequence of Solution
    wide : bool
        With more digits and metrics, and the distances to the best bound and to the best answer.
    """
    from rich import box
    from rich.table import Table

    plain: dict[str, Any] = {} if wide else {"box": box.SIMPLE_HEAD, "pad_edge": False, "show_edge": False}
    title, caption = (
        f"{problem.name}: {problem.objective_name} (minimised)",
        "gap: % of the objective, to the own bound",
    )
    table = Table(title=title, caption=caption, **plain)
    table.add_column("method", no_wrap=True)
    table.add_column("status", no_wrap=True)
    shown = [m for m in SHOWN_METRICS if any(m in s.metrics for s in solutions)][: None if wide else 1]
    distances = ["above best bound", "above best known"] if wide else []
    digits = 6 if wide else 5
    for heading in (
        "objective",
        "bound",
        "gap",
        *distances,
        *(m.replace("_", " ") for m in shown),
        "seconds" if wide else "s",
    ):
        wraps = heading in ("state moved", "average imbalance", *distances)
        table.add_column(heading, justify="right", no_wrap=not wraps)
    best = best_of(problem, solutions)
    marks = (best_bound_of(solutions), None if best is None else best.objective)
    for s in solutions:
        value = figure(offered_value(s) if s.objective is None else s.objective, problem.scale, digits)
        starred = s.offered is not None or (s.objective is not None and s.problem is not problem)
        cells = [value + "*" * starred, figure(s.bound, problem.scale, digits), percent(s.gap)]
        if wide:
            cells += [figure(above(problem, s, mark), problem.scale, digits) for mark in marks]
        metrics = s.metrics if s.offered is None else s.problem.check(s.offered).metrics
        cells += [figure(metrics.get(m), 0.0, digits) for m in shown]
        table.add_row(s.method, s.status, *cells, f"{s.seconds:.2f}")
    return table

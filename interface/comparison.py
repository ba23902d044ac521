"""compare: methods on one problem, in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box

from keyshift.catalogue import chosen_methods, formulation_of
from keyshift.catalogue import methods as methods_of
from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.answer import COMPARED, GAP, Progress
from keyshift.models.base.figures import compact, figure, percent, quantity
from keyshift.models.base.guards import real, whole
from keyshift.models.base.lazily import pd
from keyshift.solving import answered, interruptible, make_ready, own_effort
from keyshift.terminal import printed, table
from keyshift.terminal import progress as showing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class Comparison:
    """The solutions of some methods for one problem; prints as a table.

    Attributes
    ----------
    problem : Problem
    solutions : tuple of Solution
        In the order in which the methods were given.
    """

    problem: Problem
    solutions: tuple[Solution, ...]

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def __getitem__(self, method: str) -> Solution:
        for solution in self.solutions:
            if solution.method == method:
                return solution
        raise KeyError(method)

    @property
    def best(self) -> Solution | None:
        """The solution with the smallest objective among those that keep every rule; None if no method found one."""
        found = [s for s in self.solutions if s.objective is not None and s.problem is self.problem]
        return min(found, key=lambda s: s.objective, default=None)  # type: ignore[arg-type,return-value]

    @property
    def best_bound(self) -> float | None:
        """The highest proven bound; None if there is none."""
        return max((s.bound for s in self.solutions if s.bound is not None), default=None)

    def to_frame(self) -> pd.DataFrame:
        """A table with a row for each method, including those that failed.

        Returns
        -------
        DataFrame
            Status, objective, bound; ``gap_abs`` and ``gap`` to the method's own bound, ``above_best_bound`` and
            ``above_best_known`` to the best of all methods, in the objective's unit; of an answer that breaks rules
            its value ``offered``, how many rules (``violations``), and the one it breaks most; every metric.
        """
        best = None if self.best is None else self.best.objective
        rows = [
            {
                "method": s.method, "status": s.status, "termination": s.termination, "objective": s.objective,
                "bound": s.bound, "gap_abs": s.gap_abs, "gap": s.gap, "above_best_bound": above(self.problem, s, self.best_bound),
                "above_best_known": above(self.problem, s, best), "offered": offered_value(s),
                "violations": len(s.violations), "worst_violation": said_worst(s), "seconds": s.seconds, **s.metrics,
                "message": s.message,
            }
            for s in self.solutions
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def to_table(self, width: int = 80, *, wide: bool | None = None) -> Table:
        """The same as a Rich table, the figures that a reader compares first.

        Parameters
        ----------
        width : int, default 80
            Columns of the terminal.
        wide : bool, optional
            Show more digits, all metrics and the distances to the best bound and to the best known answer; by default
            from 110 columns on.

        Notes
        -----
        A value with an asterisk belongs to an answer that breaks rules, or answers another problem: it is not ranked.
        """
        return comparison_table(self, width >= 110 if wide is None else wide)

    def notes(self) -> list[str]:
        """Explanations of the table's asterisks and the methods' messages, one line each."""
        return notes(self.problem, self.solutions)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the objective and the bound of every method, and the loads before and after if the problem has loads.

        Parameters
        ----------
        path : str or Path, optional
            Also write the figure there.
        """
        from keyshift.figures.comparison import comparison_figure

        return comparison_figure(self.problem, self.solutions, self.best, path)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        frame = self.to_frame()
        return frame.drop(columns=["termination", "message"], errors="ignore").to_html(index=False, na_rep="-")

    def __str__(self) -> str:
        return printed(self.to_table(), 80, self.notes())


def compare(
    problem: Problem,
    methods: str | Sequence[str] | None = None,
    time_limit: float | None = COMPARED,
    *,
    gap: float = GAP,
    seed: int = 0,
    watch: Callable[[Progress], None] | None = None,
    effort: float | None = None,
    progress: bool = True,
    **options: Any,
) -> Comparison:
    """Run several methods on one problem and compare them.

    Parameters
    ----------
    problem : Problem
    methods : str or sequence of str, optional
        None takes every method that applies.
    time_limit : float or None, default 10.0
        Seconds for each method; None: no limit.
    gap : float, default 1e-4
        As in `solve`.
    seed : int, default 0
    watch : callable, optional
        Called with a `Progress` while a method runs.
    effort : float, optional
        As in `solve`: limits the work of each method, in place of `time_limit`.
    progress : bool, default True
        As in `solve`.
    **options
        Passed to every method that has an option of that name.

    Returns
    -------
    Comparison
        The solutions of the methods that were run. Ctrl-C ends the current method, whose best answer is kept, and skips
        the others.

    Raises
    ------
    InputError
        As `solve` does, before anything is run.
    """
    chosen = chosen_methods(problem, methods)
    for name in options:
        if not any(name in method.options for method in chosen):
            raise InputError(f"none of the methods {', '.join(m.name for m in chosen)} has an option {name!r}")
    limit, share = real("time_limit", time_limit), real("gap", gap, optional=False)
    seed, work = whole("seed", seed, optional=False), real("effort", effort)
    own = [m.checked({k: v for k, v in options.items() if k in m.options}) for m in chosen]
    solutions: list[Solution] = []
    for method, settings in zip(chosen, own, strict=True):
        try:
            make_ready(problem, method, None)
        except KeyboardInterrupt:
            if not solutions:
                raise
            break
        settings, most = own_effort(method, settings, work)
        with showing(f"{problem.name}: {method.name}", limit, watch, progress) as watching:
            budget = Budget(limit, watching, share, problem.scale, most)
            with interruptible(budget.interrupt):
                solutions.append(answered(problem, method, budget, seed, None, settings))
        if budget.interrupted:
            break
    return Comparison(problem, tuple(solutions))


# A comparison as a table: every method's row, those that break rules marked and not ranked -----------------------------

SHOWN_METRICS = ("migrations", "state_moved", "average_imbalance", "counters")


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
    """One line for each answer with an asterisk, and for each method with a message."""
    said = []
    for s in solutions:
        if s.violations:
            more = f" (and {len(s.violations) - 1} more)" if len(s.violations) > 1 else ""
            said.append(f"* {s.method} breaks a rule: {said_worst(s)}{more}")
        elif s.objective is not None and s.problem is not problem:
            said.append(f"* {s.method} answers another problem. {s.message}".rstrip())
        elif s.message:
            said.append(f"{s.method}: {s.message}")
    able = {method.name for method in methods_of(problem)}
    if left := [method.name for method in formulation_of(problem).methods if method.name not in able]:
        said.append(f"left out, since they keep no rules: {', '.join(left)}")
    return said


def comparison_table(comparison: Comparison, wide: bool) -> Table:
    """The figures that a reader compares first.

    Parameters
    ----------
    comparison : Comparison
    wide : bool
        With more digits and metrics, and the distances to the best bound and to the best answer.
    """
    problem, solutions = comparison.problem, comparison.solutions
    style: dict[str, Any] = {} if wide else {"box": box.SIMPLE_HEAD, "pad_edge": False, "show_edge": False}
    units = getattr(getattr(problem, "workload", None), "units", {})
    unit = units.get("load", "") if problem.objective_name == "load distance" else ""
    style["title"] = f"{problem.name}: {problem.objective_name}{f' in {unit}' if unit else ''} (minimised)"
    style["caption"] = "gap: % of the objective, to the own bound"
    shown = [m for m in SHOWN_METRICS if any(m in s.metrics for s in solutions)][: None if wide else 1]
    distances = ["above best bound", "above best known"] if wide else []
    digits, said = 6 if wide else 5, [m.replace("_", " ") for m in shown]
    names, numbers = ["method", "status"], ["objective", "bound", "gap", *distances, *said, "seconds" if wide else "s"]
    folded = {"state moved", "average imbalance", *distances}
    rows, best = [], comparison.best
    marks = (comparison.best_bound, None if best is None else best.objective)
    for s in solutions:
        value = figure(offered_value(s) if s.objective is None else s.objective, problem.scale, digits)
        starred = s.offered is not None or (s.objective is not None and s.problem is not problem)
        cells = [value + "*" * starred, figure(s.bound, problem.scale, digits), percent(s.gap)]
        if wide:
            cells += [figure(above(problem, s, mark), problem.scale, digits) for mark in marks]
        metrics = s.metrics if s.offered is None else s.problem.check(s.offered).metrics
        own = {"state_moved": compact(units.get("state", ""))}
        cells += [quantity(metrics.get(m), own.get(m, ""), 0.0, digits) for m in shown]
        rows.append([s.method, s.status, *cells, f"{s.seconds:.2f}"])
    return table([*names, *numbers], rows, right=numbers, whole={*names, *numbers} - folded, **style)

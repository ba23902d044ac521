"""compare: several methods on one problem, in one table."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyshift.catalogue import find_method
from keyshift.catalogue import methods as methods_of
from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.answer import Progress
from keyshift.models.arrays import real, whole
from keyshift.models.solution import percent
from keyshift.solving import answered, interruptible, make_ready

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table

SHOWN_METRICS = ("migrations", "state_moved", "average_imbalance", "counters")


@dataclass(frozen=True)
class Comparison:
    """The solutions of several methods for one problem; prints as a table.

    Attributes
    ----------
    problem : Problem
    solutions : tuple of Solution
        In the order the methods were asked for.
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
        """The solution of least objective, None when no method found one; it keeps every rule of the problem."""
        found = [s for s in self.solutions if s.objective is not None and s.problem is self.problem]
        return min(found, key=lambda s: s.objective) if found else None  # type: ignore[arg-type,return-value]

    @property
    def best_bound(self) -> float | None:
        """The highest proven bound, None when there is none."""
        return max((s.bound for s in self.solutions if s.bound is not None), default=None)

    def to_frame(self) -> pd.DataFrame:
        """One row a method: status, objective, its own bound and gap, the distance to the best bound, every metric."""
        import pandas as pd

        rows = [
            {
                "method": s.method, "status": s.status, "termination": s.termination, "objective": s.objective,
                "bound": s.bound, "gap_abs": s.gap_abs, "gap": s.gap, "above_best_bound": self._above_best_bound(s),
                "seconds": s.seconds, **s.metrics, "message": s.message,
            }
            for s in self.solutions
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def _above_best_bound(self, solution: Solution) -> float | None:
        if solution.objective is None or self.best_bound is None or solution.problem is not self.problem:
            return None
        return max(0.0, solution.objective - self.best_bound)

    def to_table(self, width: int = 120) -> Table:
        """The same as a Rich table, the figures that a reader compares first.

        Parameters
        ----------
        width : int, default 120
            Columns of the terminal; below 110 the table is plain, with fewer digits and without `above_best_bound`.
        """
        from rich import box
        from rich.table import Table

        narrow = width < 110
        title = f"{self.problem.name}: {self.problem.objective_name} (minimised)"
        plain: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "show_edge": False} if narrow else {}
        table = Table(title=title, **plain)
        table.add_column("method", no_wrap=True)
        table.add_column("status", no_wrap=True)
        shown = [m for m in SHOWN_METRICS if any(m in s.metrics for s in self.solutions)][: 1 if narrow else None]
        above = [] if narrow else ["above best bound"]
        gap, digits = ("gap %", 5) if narrow else ("gap (% of objective)", 6)
        for heading in ("objective", "bound", gap, *above, *(m.replace("_", " ") for m in shown), "seconds"):
            table.add_column(heading, justify="right", no_wrap=heading not in ("state moved", "average imbalance"))
        for s in self.solutions:
            best = [] if narrow else [self._above_best_bound(s)]
            cells = [number(value, digits, self.problem.scale) for value in (s.objective, s.bound)]
            cells += [percent(s.gap), *(number(value, digits, self.problem.scale) for value in best)]
            cells += [number(s.metrics.get(m), digits) for m in shown]
            table.add_row(s.method, s.status, *cells, f"{s.seconds:.2f}")
        return table

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw objective and bound of every method, and the loads before and after where the problem has them.

        Parameters
        ----------
        path : str or Path, optional
            Also write the figure there.
        """
        from keyshift.figures.comparison import comparison_figure

        return comparison_figure(self, path)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        frame = self.to_frame()
        return frame.drop(columns=[c for c in ("termination", "message") if c in frame]).to_html(
            index=False, na_rep="-"
        )

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=120, force_jupyter=False)
        console.print(self.to_table())
        return console.file.getvalue()  # type: ignore[attr-defined]


def number(value: float | None, digits: int = 6, scale: float = 0.0) -> str:
    """A figure for a table: a dash where there is none, 0 for what is less than a billionth of a natural unit."""
    if value is None:
        return "-"
    if abs(value) <= 1e-9 * scale:
        return "0"
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}" if abs(value) < 10**digits else f"{value:.{digits - 1}g}"


def compare(
    problem: Problem,
    methods: Sequence[str] | None = None,
    time_limit: float | None = None,
    *,
    seed: int = 0,
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Comparison:
    """Run several methods on one problem.

    Parameters
    ----------
    problem : Problem
    methods : sequence of str, optional
        None takes every method that applies.
    time_limit : float, optional
        Seconds for each method.
    seed : int, default 0
    watch : callable, optional
        Called with a `Progress` while a method runs.
    **options
        Passed to every method that has an option of that name.

    Returns
    -------
    Comparison
        Of the methods that were run: Ctrl-C ends the one that runs, whose best answer counts, and leaves out the rest.

    Raises
    ------
    InputError
        As `solve` does, before anything is run.
    """
    known = {m.name: m for m in methods_of(problem)}
    chosen = [find_method(problem, name) for name in (known if methods is None else methods)]
    for name in options:
        if not any(name in method.options for method in chosen):
            raise InputError(f"none of the methods {', '.join(m.name for m in chosen)} has an option {name!r}")
    limit = real("time_limit", time_limit)
    seed = whole("seed", seed, optional=False) or 0
    solutions: list[Solution] = []
    for method in chosen:
        own = {k: v for k, v in options.items() if k in method.options}
        try:
            make_ready(problem, method, None)
        except KeyboardInterrupt:
            if not solutions:
                raise
            break
        budget = Budget(limit, watch)
        with interruptible(budget.interrupt):
            solutions.append(answered(problem, method, budget, seed, None, own))
        if budget.interrupted:
            break
    return Comparison(problem, tuple(solutions))

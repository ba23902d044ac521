"""compare: methods on one problem, in one table."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyshift.catalogue import find_method
from keyshift.catalogue import methods as methods_of
from keyshift.comparison_table import (
    WIDE,
    above,
    best_bound_of,
    best_of,
    comparison_table,
    notes,
    offered_value,
    said_worst,
)
from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.answer import COMPARED, GAP, Progress
from keyshift.models.guards import real, whole
from keyshift.solving import answered, interruptible, make_ready
from keyshift.terminal import Terminal

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class Comparison:
    """The solutions of some methods for one problem; prints as a table.

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
        return best_of(self.problem, self.solutions)

    @property
    def best_bound(self) -> float | None:
        """The highest proven bound, None when there is none."""
        return best_bound_of(self.solutions)

    def to_frame(self) -> pd.DataFrame:
        """One row for each method, failed ones included.

        Returns
        -------
        DataFrame
            Status, objective, bound; ``gap_abs`` and ``gap`` to the method's own bound, ``above_best_bound`` and
            ``above_best_known`` to the best of all methods, in the objective's unit; of an answer that breaks rules
            its value ``offered``, how many rules (``violations``), and the one it breaks most; every metric.
        """
        import pandas as pd

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
            More digits, all shown metrics and the distances to the best bound and to the best known answer; by default from
            `WIDE` columns on.

        Notes
        -----
        A value with an asterisk belongs to an answer that breaks rules, or answers another problem: it is not ranked.
        """
        return comparison_table(self.problem, self.solutions, width >= WIDE if wide is None else wide)

    def notes(self) -> list[str]:
        """Footnotes to the table's asterisks, and the methods' messages: a line each."""
        return notes(self.problem, self.solutions)

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

        console = Terminal(file=io.StringIO(), width=80, force_jupyter=False, markup=False)
        console.print(self.to_table())
        for note in self.notes():
            console.print(note, markup=False, highlight=False)
        return console.file.getvalue()  # type: ignore[attr-defined]


def compare(
    problem: Problem,
    methods: Sequence[str] | None = None,
    time_limit: float | None = COMPARED,
    *,
    gap: float = GAP,
    seed: int = 0,
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Comparison:
    """Run methods on one problem, side by side.

    Parameters
    ----------
    problem : Problem
    methods : sequence of str, optional
        None takes every method that applies.
    time_limit : float or None, default 10.0
        Seconds for each method; None is for ever.
    gap : float, default 1e-4
        As in `solve`.
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
        if not any(name in method.option_names for method in chosen):
            raise InputError(f"none of the methods {', '.join(m.name for m in chosen)} has an option {name!r}")
    limit, share = real("time_limit", time_limit), real("gap", gap, optional=False)
    seed = whole("seed", seed, optional=False)
    own = [m.checked({k: v for k, v in options.items() if k in m.option_names}) for m in chosen]
    solutions: list[Solution] = []
    for method, settings in zip(chosen, own, strict=True):
        try:
            make_ready(problem, method, None)
        except KeyboardInterrupt:
            if not solutions:
                raise
            break
        budget = Budget(limit, watch, share, problem.scale)
        with interruptible(budget.interrupt):
            solutions.append(answered(problem, method, budget, seed, None, settings))
        if budget.interrupted:
            break
    return Comparison(problem, tuple(solutions))

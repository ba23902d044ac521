"""A solution: an answer that has been checked, with its objective and metrics computed anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from keyshift.models.answer import Answer, Termination
from keyshift.models.base.figures import NOTHING, apart, figure, percent
from keyshift.models.base.guards import FrozenArrays, frozen
from keyshift.models.base.lazily import load, pd
from keyshift.models.errors import BoundError, InputError
from keyshift.models.problem import SLACK, Problem, Violation
from keyshift.models.stages import Priority, Stage, StageBound

Status = Literal["optimal", "feasible", "infeasible", "none"]


@dataclass(frozen=True, eq=False)
class Solution(FrozenArrays):
    """The result of `solve`.

    Attributes
    ----------
    problem : Problem
        The problem answered: the one asked, unless the method ignores a rule of it (see `Answer.problem`).
    method : str
    status : {"optimal", "feasible", "infeasible", "none"}
        What was found: a proven optimum (no assignment is better by more than `tolerance`), a checked assignment, a
        proof that no assignment is feasible, or nothing.
    termination : str
        Why the method stopped: "optimal", "gap", "time_limit", "infeasible", "completed", "interrupted".
    assignment : ndarray or None
        The assignment, read-only; it has passed `check`.
    objective, bound : float or None
        Value of the assignment, and a proven lower bound on the value of every feasible assignment; in the problem's unit, always
        minimised.
    seconds : float
        Wall time of the method, without the time for compiling.
    metrics : dict of str to float
        Figures of the assignment by name, whatever the objective; see *Conventions* in the documentation.
    message : str
        What conflicts if the problem is infeasible, or another remark.
    details : dict
        Figures about the run itself.
    offered : ndarray or None
        An assignment that the method found although it breaks rules; `assignment` is then None.
    violations : tuple of Violation
        The rules it breaks.
    priorities : tuple of Priority
        Where the problem has priorities: measure, value, bound and whether it is proven, stage by stage, and for what
        values of the earlier stages the bound holds. The status is "optimal" only when every stage is proven.
        ``pd.DataFrame(solution.priorities)`` is a table.
    """

    problem: Problem
    method: str
    status: Status
    termination: Termination
    assignment: np.ndarray | None
    objective: float | None
    bound: float | None
    seconds: float
    metrics: dict[str, float] = field(default_factory=dict)
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    offered: np.ndarray | None = None
    violations: tuple[Violation, ...] = ()
    priorities: tuple[Priority, ...] = ()

    planner: ClassVar[Any] = None
    mover: ClassVar[Any] = None
    writer: ClassVar[Any] = None
    """What makes a plan, a table of moves and a file; `keyshift` names the code when it is imported."""

    def plan(self, **options: Any) -> Any:
        """The plan that carries the solution out: `keyshift.plan` of this solution, with its options.

        Returns
        -------
        Plan
        """
        return load(self.planner)(self.problem, self, **options)

    @property
    def moves(self) -> pd.DataFrame:
        """The key groups that move, the most valuable first: key_group, key, source, target, load, state, gain.

        Raises
        ------
        InputError
            If there is no assignment, or if it assigns messages, which have no state to move.
        """
        return load(self.mover)(self)

    def to_frame(self) -> pd.DataFrame:
        """A table with a row for each key group: as `Workload.to_frame`, with its `target` and whether it `moved`.

        A sequence has a target for each step; a policy has one for each state and next node count, empty where that count cannot
        come. Without a workload, `target` is the only column.
        """
        given, workload = self.assignment, getattr(self.problem, "workload", None)
        if given is None:
            raise InputError(f"the solution holds no assignment: {self!r}")
        if workload is None:
            return pd.DataFrame({"target": given})
        frame: pd.DataFrame = workload.to_frame()
        if own := self.problem.columns(given):
            return frame.assign(**own)
        if given.ndim == 1:
            target = [workload.node(int(i)) for i in given]
            return frame.assign(target=target, moved=np.asarray(given) != workload.current)
        columns = {
            "_".join(map(str, ("target", *at))): [workload.node(int(i)) if i >= 0 else None for i in given[at]]
            for at in np.ndindex(given.shape[:-1])
        }
        return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)

    def save(self, path: str | Path) -> None:
        """Write the solution, its problem included, as one JSON file that `keyshift.read_solution` reads.

        Raises
        ------
        InputError
            If the file cannot be written there.
        """
        load(self.writer)(self, path)

    @property
    def tolerance(self) -> float | None:
        """The largest difference between objective and bound at which an answer counts as optimal; None without an assignment."""
        return None if self.objective is None else self.problem.tolerance_of(self.objective)

    @property
    def gap_abs(self) -> float | None:
        """Objective minus bound, in the objective's unit; None if either is missing."""
        return None if self.objective is None or self.bound is None else abs(self.objective - self.bound)

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; None if that is undefined (no bound, or an objective of 0)."""
        return None if self.gap_abs is None or self.objective == 0 else self.gap_abs / abs(self.objective or 1)

    @classmethod
    def of(cls, problem: Problem, method: str, answer: Answer, seconds: float) -> Solution:
        """Check an answer and compute its value again.

        An assignment that breaks a rule does not leave the library: it is dropped and the message says why.

        Raises
        ------
        BoundError
            If the claimed bound lies above the value of the checked assignment.
        """
        start = answer.start if answer.problem is None else None
        problem = answer.problem or problem
        if answer.termination == "infeasible":
            return cls(problem, method, "infeasible", "infeasible", None, None, None, seconds, message=answer.message)
        none = partial(
            cls, problem, method, "none", answer.termination, None, None, answer.bound, seconds, details=answer.details
        )
        if answer.assignment is None:
            return none(message=answer.message)
        assignment = frozen(problem.canonical(answer.assignment))
        report = problem.check(assignment)
        if not report.feasible and start is not None:
            assignment, report = start, problem.check(start)
        if not report.feasible:
            why = f"{method} found no feasible assignment: {report.violations[0]}"
            return none(message=why, offered=frozen(assignment), violations=report.violations)
        bound = _trusted(problem, answer.bound, report.objective, method)
        reached = priorities_reached(problem, assignment, answer.stages, method)
        proven = bound is not None and report.objective - bound <= problem.tolerance_of(report.objective)
        if len(tuple(getattr(problem, "priorities", ()))) > 1:
            proven = bool(reached) and all(stage.proven for stage in reached)
        # A method may have ended by its solver's proof of what the check does not bear out: a gap is left.
        ended: Termination = "gap" if answer.termination == "optimal" and not proven else answer.termination
        return cls(
            problem, method, "optimal" if proven else "feasible", ended, frozen(assignment),
            report.objective, bound, seconds, report.metrics, answer.message, answer.details, priorities=reached,
        )  # fmt: skip

    def _repr_html_(self) -> str:
        """The figures as a table, for notebooks."""
        figures = {
            "method": self.method, "status": f"{self.status} ({self.termination})", "objective": self.objective,
            "bound": self.bound, "gap": None if self.gap is None else percent(self.gap), "gap_abs": self.gap_abs,
            "seconds": self.seconds, **self.metrics, "message": self.message,
        }  # fmt: skip
        scale = self.problem.scale
        shown = {
            name: figure(v, scale) if isinstance(v, float) else str(v)
            for name, v in figures.items()
            if v not in (None, "")
        }
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(said)}</td></tr>" for name, said in shown.items())
        return f"<table>{rows}</table>"

    def _of_mean(self) -> str:
        """The absolute gap as a share of the mean load, where the objective is a distance from that."""
        mean = getattr(getattr(self.problem, "workload", None), "mean_load", 0.0)
        gap, measured = self.gap_abs, self.problem.objective_name == "load distance" and mean > 0
        return f" ({percent(gap / mean)} of the mean)" if measured and gap is not None else ""

    def __repr__(self) -> str:
        known = {name: v for name, v in (("objective", self.objective), ("bound", self.bound)) if v is not None}
        shown = partial(figure, scale=self.problem.scale)
        told = map(shown, known.values()) if self.status == "optimal" else apart(*known.values(), shown=shown)
        figures = [f"{name} {value}" for name, value in zip(known, told, strict=True)]
        figures += [f"{p.measure} {figure(p.value)}{'' if p.proven else ' (not proven)'}" for p in self.priorities[1:]]
        if self.gap is not None:
            figures.append(f"gap {percent(self.gap)}{self._of_mean() if self.gap > NOTHING else ''}")
        text = ", ".join([f"{self.method} {self.status} ({self.termination})", *figures, f"{self.seconds:.2f} s"])
        return f"Solution({text}{': ' + self.message if self.message else ''})"


def priorities_reached(
    problem: Problem, assignment: np.ndarray, stages: Iterable[StageBound], method: str
) -> tuple[Priority, ...]:
    """The value of an assignment in every stage, computed anew, beside the bound proven of it.

    Raises
    ------
    BoundError
        If the assignment does not keep what a bound supposes, or is better than the bound.
    """
    reached = []
    for measure, bound, kept in stages:
        stage = Stage(problem.plain(), measure, dict(kept))  # type: ignore[attr-defined]  # a Prioritised problem
        if any(v.rule in kept for v in stage.violations(assignment)):
            raise BoundError(f"{method} claims a bound on {measure} for {dict(kept)}, which its answer does not keep")
        value = stage.objective(assignment)
        bound = _trusted(stage, bound, value, method)
        proven = bound is not None and value - bound <= stage.tolerance_of(value)
        reached.append(Priority(measure, value, bound, proven, dict(kept)))
    return tuple(reached)


def _trusted(problem: Problem, bound: float | None, objective: float, method: str) -> float | None:
    """Pull a bound that rounding put a hair above the objective down to it; refuse one that is plainly wrong."""
    if bound is None or not np.isfinite(bound):
        return None
    if bound > objective + max(problem.tolerance_of(objective), SLACK * problem.scale):
        said = f"{method} claims the bound {bound:.9g}, but a checked assignment has objective {objective:.9g}"
        raise BoundError(said)
    return min(float(bound), objective)

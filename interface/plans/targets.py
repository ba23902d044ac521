"""The moves of an answer without a schedule, and without those that are not worth their state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyshift.models import InputError, Problem, Solution
from keyshift.models.figures import figure
from keyshift.models.guards import frozen
from keyshift.models.plans.way import read_target
from keyshift.models.workload import IntArray

if TYPE_CHECKING:
    import pandas as pd


class BareMove(NamedTuple):
    """A move without a time."""

    key_group: int
    key: str | int
    source: str | int
    target: str | int
    load: float
    state: float
    gain: float


def bare_moves(solution: Solution) -> pd.DataFrame:
    """The moves of an answer without a schedule, the most valuable first: key, source, target, load, state, gain."""
    import pandas as pd

    return pd.DataFrame(list_moves(solution), columns=list(BareMove._fields))


def list_moves(solution: Solution) -> list[BareMove]:
    """The same without pandas, which takes longer to load than most answers."""
    reached = read_target(solution.problem, solution)
    w, target = reached.workload, reached.target
    moving = np.flatnonzero(w.current != target)
    worth = reached.gains(moving)
    order = sorted(zip(moving.tolist(), worth.tolist(), strict=True), key=lambda move: (-move[1], move[0]))
    return [
        BareMove(k, w.key(k), w.node(w.current[k]), w.node(target[k]), float(w.last_load[k]), float(w.state[k]), gain)
        for k, gain in order
    ]


# Dropping moves that are not worth their state, and saying what that costs ---------------------------------------------


@dataclass(frozen=True, eq=False)
class Thinned:
    """An answer without the moves that are not worth their state.

    Attributes
    ----------
    solution : Solution
        What is left, checked.
    dropped : tuple of int
        Key groups that stay after all, in the order in which they were dropped.
    cost : float
        By how much the objective rose: exactly, as both were computed from their assignments.
    above_best : float or None
        The most by which the objective lies above that of any answer; None without a bound.
    state_saved : float
    """

    solution: Solution
    dropped: tuple[int, ...]
    cost: float
    above_best: float | None
    state_saved: float

    def __str__(self) -> str:
        name = self.solution.problem.objective_name
        best = "" if self.above_best is None else f", at most {figure(self.above_best)} above the best there is"
        return (
            f"{len(self.dropped)} moves dropped: {figure(self.state_saved)} of state stays where it is, "
            f"the {name} rises by {figure(self.cost)}{best}"
        )

    def as_record(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "dropped": list(self.dropped), "cost": self.cost, "above_best": self.above_best,
            "state_saved": self.state_saved, "objective": self.solution.objective,
        }  # fmt: skip


def thin(problem: Problem, answer: Any, min_gain: float) -> Thinned:
    """Drop moves that gain less than `min_gain` for each unit of state, the least useful first, as long as no rule breaks.

    The worth of a move is by how much the objective rises without it, and is computed anew after every drop: moves
    that are worth something only together are kept together. O(e^2) evaluations of the objective for e moves.

    Raises
    ------
    InputError
        For a problem whose answer is not one node for each key group.
    """
    if not isinstance(answer, Solution):
        answer = given(problem, answer)
    workload = getattr(problem, "workload", None)
    chosen = answer.assignment
    if workload is None or chosen is None or chosen.ndim != 1:
        raise InputError(f"{problem.name} has no moves that could be dropped one by one")
    now, value, dropped = chosen.copy(), problem.objective(chosen), []
    while True:
        moving = np.flatnonzero(now != workload.current).tolist()
        worth = {k: gain for k in moving if (gain := _worth(problem, now, k, value)) is not None}
        least, k = min(
            ((gain / max(float(workload.state[k]), 1e-300), k) for k, gain in worth.items()), default=(np.inf, -1)
        )
        if least >= min_gain:
            break
        now[k] = workload.current[k]
        value = problem.objective(now)
        dropped.append(k)
    report = problem.check(now)
    before = problem.objective(chosen)
    left = replace(
        answer, assignment=frozen(now), objective=report.objective, metrics=report.metrics,
        status="optimal" if answer.bound is not None and report.objective - answer.bound <= problem.tolerance else "feasible",
    )  # fmt: skip
    above = None if answer.bound is None else max(0.0, report.objective - answer.bound)
    return Thinned(left, tuple(dropped), report.objective - before, above, float(workload.state[dropped].sum()))


def given(problem: Problem, assignment: Any) -> Solution:
    """An assignment as a solution: checked, and with nothing proven.

    Raises
    ------
    InputError
        If it breaks a rule.
    """
    report = problem.check(assignment)
    if not report.feasible:
        raise InputError(f"the assignment breaks a rule: {report.violations[0]}")
    chosen = frozen(problem.canonical(assignment))
    return Solution(problem, "given", "feasible", "completed", chosen, report.objective, None, 0.0, report.metrics)


def _worth(problem: Problem, now: IntArray, k: int, value: float) -> float | None:
    """By how much the objective rises if a move is undone; None where that breaks a rule."""
    undone = now.copy()
    undone[k] = problem.workload.current[k]  # type: ignore[attr-defined]  # `thin` has looked
    if problem.violations(undone):
        return None
    return problem.objective(undone) - value

"""The target of a plan: the assignment of key groups to nodes that a plan leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyshift.models import InputError, Problem, Solution, Workload
from keyshift.models.plans.way import gains
from keyshift.models.workload import IntArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Target:
    """A workload, the assignment to reach, shape (p,), and what is known of it."""

    workload: Workload
    target: IntArray
    method: str
    status: str
    objective: float | None
    bound: float | None
    measure: str
    may_leave: bool


def read_target(problem: Problem, solution: Any, step: int = 0, nodes_after: int | None = None) -> Target:
    """Check a solution or an assignment, and read the move to carry out from it.

    Raises
    ------
    InputError
        For a problem that moves no key groups, a solution without assignment, an assignment that breaks a rule.
    """
    workload = getattr(problem, "workload", None)
    if not isinstance(workload, Workload):
        raise InputError(f"{problem.name} places messages, not key groups with state: there is nothing to carry out")
    if isinstance(solution, Solution):
        if solution.assignment is None:
            raise InputError(f"the solution holds no assignment: {solution!r}")
        report = solution.problem.check(solution.assignment)
        assignment, found = solution.assignment, (solution.method, solution.status, solution.objective, solution.bound)
    else:
        assignment = problem.canonical(solution)
        report = problem.check(assignment)
        found = ("given", "feasible", report.objective, None)
    if not report.feasible:
        raise InputError(f"the assignment breaks a rule: {report.violations[0]}")
    workload, target = problem.reached(assignment, step, nodes_after)
    return Target(workload, target, *found, problem.worth, problem.chooses_nodes)


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
    worth = gains(reached.measure, w, w.current, target, moving, reached.may_leave)
    return [
        BareMove(
            int(k),
            w.key(k),
            w.node(w.current[k]),
            w.node(target[k]),
            float(w.last_load[k]),
            float(w.state[k]),
            float(gain),
        )
        for gain, k in sorted(zip(worth, moving, strict=True), key=lambda pair: (-pair[0], pair[1]))
    ]

"""What a solution asks to be moved: the assignment of key groups to nodes that a plan leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models import InputError, Problem, Solution, Workload
from keyshift.models.plans.made_for import MadeFor
from keyshift.models.plans.worth import gains
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


def bare_moves(solution: Solution) -> pd.DataFrame:
    """The moves of an answer without a schedule, the most valuable first: key, source, target, load, state, gain."""
    import pandas as pd

    reached = read_target(solution.problem, solution)
    w, made = reached.workload, MadeFor.of(reached.workload)
    moving = np.flatnonzero(w.current != reached.target)
    table = pd.DataFrame(
        {
            "key_group": moving,
            "key": [made.key(int(k)) for k in moving],
            "source": [made.node(int(i)) for i in w.current[moving]],
            "target": [made.node(int(i)) for i in reached.target[moving]],
            "load": w.last_load[moving],
            "state": w.state[moving],
            "gain": gains(reached.measure, w, w.current, reached.target, moving, reached.may_leave),
        }
    )
    return table.sort_values(["gain", "key_group"], ascending=[False, True], kind="stable").reset_index(drop=True)

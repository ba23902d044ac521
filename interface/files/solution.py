"""Solutions and plans on disk: JSON files that are checked anew when they are read.

A solution's file has the problem inside. A plan's file has

====================  ==============================================================================================
``format``, ``version``
``problem`` ...       the question and the answer: parameters, method, status, objective, bound
``workload``          the workload of the plan: the fingerprint of all of it, and what moves are compared with
``nodes``             capacity of every node, new ones included; which ones leave
``limits``            by resource: the limit of each node on the way, its use before, and the use of each move
``phases``            start, end, proven least length and the load distance afterwards
``moves``             key_group, source, target, gain, phase, start, end
====================  ==============================================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from keyshift.files.problem import decode, encode, problem_of, problem_record
from keyshift.models.answer import Termination
from keyshift.models.base.figures import apart
from keyshift.models.base.guards import frozen
from keyshift.models.base.schema import Amount, Count, FileFormat, FileModel, Finite, Labels, Whole, Wholes
from keyshift.models.errors import BoundError, InputError, naming, refusing
from keyshift.models.objectives import Prioritised
from keyshift.models.problem import Problem
from keyshift.models.solution import Solution, Status, priorities_reached
from keyshift.models.stages import Priority, StageBound


class StageRecord(FileModel):
    """The proof of one stage: a bound that holds where earlier measures are at most what is given."""

    measure: str
    bound: Finite | None
    given: dict[str, Finite]


class SolutionFile(FileFormat, kind="keyshift-solution"):
    """A solution as its file holds it."""

    problem: dict[str, Any]
    method: str
    status: Status
    termination: Termination
    assignment: list[Any] | None
    objective: Finite | None
    bound: Finite | None
    seconds: Amount
    metrics: dict[str, Finite]
    message: str
    details: dict[str, Any]
    offered: list[Any] | None
    violations: list[dict[str, Any]]
    priorities: list[StageRecord] = Field(default_factory=list)


def solution_record(solution: Solution) -> dict[str, Any]:
    """Every field of a solution's file. Of the details of the run, those that JSON can hold."""
    s = solution
    details = {}
    for name, value in s.details.items():
        try:
            details[str(name)] = encode(value)
        except InputError:
            continue
    content = SolutionFile.content(
        s,
        problem=problem_record(s.problem),
        metrics={name: float(value) for name, value in s.metrics.items() if np.isfinite(value)},
        details=details,
        violations=[{**vars(v), "amount": float(v.amount)} for v in s.violations],
        priorities=[StageRecord.content(p) for p in s.priorities],
    )
    return {**SolutionFile.stamp(), **content}


def write_solution(solution: Solution, path: str | Path) -> None:
    """Write a solution, whole or not at all."""
    SolutionFile.write(path, solution_record(solution))


def read_solution(path: str | Path) -> Solution:
    """Read a solution that `Solution.save` wrote. The problem is posed again, and the assignment checked again.

    Raises
    ------
    InputError
        Names the file and what is wrong with it; also raised when the assignment breaks a rule, has another objective than
        the file says, or one below the bound.
    """
    record = SolutionFile.read(path)
    with naming(path):
        return _solution_of(record)


def _solution_of(r: SolutionFile) -> Solution:
    problem = problem_of(r.problem)
    assignment, objective, metrics = None, None, dict(r.metrics)
    reached: tuple[Priority, ...] = ()
    if r.assignment is not None:
        assignment = frozen(problem.canonical(r.assignment))
        report = problem.check(assignment)
        if not report.feasible:
            raise InputError(f"the assignment breaks a rule: {report.violations[0]}")
        if r.objective is None or abs(report.objective - r.objective) > problem.tolerance:
            stated, counted = apart(r.objective, report.objective)
            raise InputError(f"objective = {stated}, the assignment has {counted}")
        if r.bound is not None and r.bound > report.objective + problem.tolerance:
            stated, counted = apart(r.bound, report.objective)
            raise InputError(f"bound = {stated} lies above the objective, {counted}")
        objective, metrics = report.objective, report.metrics
        reached = _reached(problem, assignment, r)
    elif r.status in ("optimal", "feasible"):
        raise InputError(f"status = {r.status!r} without an assignment")
    offered = None if r.offered is None else frozen(problem.canonical(r.offered))
    broken = tuple(problem.violations(offered)) if offered is not None else ()
    details = {name: decode(value) for name, value in r.details.items()}
    return Solution(
        problem, r.method, r.status, r.termination, assignment, objective, r.bound, r.seconds, metrics, r.message,
        details, offered, broken, reached,
    )  # fmt: skip


def _reached(problem: Problem, assignment: np.ndarray, r: SolutionFile) -> tuple[Priority, ...]:
    """The stages of a file, valued anew."""
    named = tuple(stage.measure for stage in r.priorities)
    asked = problem.stages if isinstance(problem, Prioritised) and problem.priorities else ()
    if named not in ((), asked):
        raise InputError(f"priorities are {', '.join(named)}, the problem's are {', '.join(asked) or 'none'}")
    stages = [StageBound(stage.measure, stage.bound, stage.given) for stage in r.priorities]
    with refusing("priorities: {reason}", BoundError):
        return priorities_reached(problem, assignment, stages, r.method)


# Plans on disk: one JSON file, checked against a schema and against itself before it is believed -----------------------


class WorkloadRecord(FileModel):
    """The part of its workload that a plan's file holds."""

    fingerprint: str
    rest: str
    load: list[Amount]
    state: list[Amount]
    current: Wholes
    capacity: list[Amount]
    draining: list[bool]
    keys: Labels | None
    node_names: Labels | None
    units: Annotated[
        dict[str, str], Field(description="Units of load and state; from version 3 on", default_factory=dict)
    ]


class NodesRecord(FileModel):
    """Every node, new ones included."""

    capacity: list[Amount]
    leaving: list[bool]


class LimitRecord(FileModel):
    """One resource on the way."""

    limit: list[Amount | None]
    held: list[Amount]
    usage: list[Amount]


class PhaseRecord(FileModel):
    """One phase."""

    start: Amount
    end: Amount
    bound: Amount
    load_distance: Amount


class MoveRecord(FileModel):
    """One move."""

    key_group: Whole
    source: Whole
    target: Whole
    gain: Finite
    phase: Whole
    start: Amount
    end: Amount


class PlanFile(FileFormat, kind="keyshift-plan", newest=3):
    """A plan as its file holds it."""

    problem: str
    parameters: dict[str, Any]
    method: str
    status: str
    objective: Finite | None
    bound: Finite | None
    measure: str
    seconds: Amount
    seconds_bound: Amount
    state_moved: Amount
    peak_load: Amount
    load_distance: Annotated[list[Amount], Field(min_length=2, max_length=2)]
    overload: Amount
    overload_bound: Amount
    parallel: Count
    bandwidth: list[Amount] | None
    notes: list[str]
    broken_rules: Annotated[Amount, Field(description="by how much rules are broken on the way; from version 2 on")] = (
        0.0
    )
    broken_rules_bound: Annotated[Amount, Field(description="what no order of the moves avoids of it")] = 0.0
    workload: WorkloadRecord
    nodes: NodesRecord
    limits: dict[str, LimitRecord]
    phases: list[PhaseRecord]
    moves: list[MoveRecord]

"""Holding a plan against a workload: is it the one it was made for, what has changed, and what is the plan worth now?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keyshift.models.errors import ChangedWorkloadError, InputError
from keyshift.models.figures import figure
from keyshift.models.files.problem import CLASSES, pose
from keyshift.models.lazily import load
from keyshift.models.plans.way import Way
from keyshift.models.problem import CheckReport
from keyshift.models.workload import Workload

if TYPE_CHECKING:
    from keyshift.models.plans.plan import Plan


def check_plan(plan: Plan, workload: Workload) -> CheckReport:
    """Check that a plan still fits, or raise `ChangedWorkloadError` with what has changed and what it is worth now."""
    changes = plan.changes(workload)
    if changes:
        worth = worth_on(plan, workload)
        raise ChangedWorkloadError(
            f"the plan was made for another workload: {'; '.join(changes)}. {worth}", tuple(changes)
        )
    broken = tuple(plan.violations())
    before, after = plan.load_distance
    figures = {
        "load_distance_before": before, "load_distance": after, "peak_load": plan.peak_load,
        "seconds": plan.seconds, "state_moved": plan.state_moved, "migrations": float(len(plan)),
    }  # fmt: skip
    value = after if plan.objective is None else plan.objective
    return CheckReport(not broken, broken, value, figures)


def worth_on(plan: Plan, workload: Workload) -> str:
    """One sentence: what carrying out the plan would bring on another workload."""
    if workload.key_groups != plan.assignment.size or workload.nodes != plan.made_for.capacity.size:
        return "It cannot be carried out on this one."
    gives_up = bool((plan.leaving[: plan.made_for.draining.size] & ~plan.made_for.draining).any())
    way = Way.of(workload, workload.current, plan.assignment, gives_up)
    before, after = float(way.distance(way.before)), float(way.distance(way.after))
    moves = int((workload.current != plan.assignment).sum())
    said = f"On this one its target would take {moves} moves and bring the load distance from {figure(before)} to {figure(after)}"
    cls = load(CLASSES.get(plan.problem))
    if cls is None or cls.in_steps or plan.status == "undo":
        return f"{said}."
    try:
        report = pose(plan.problem, workload, plan.parameters).check(plan.assignment)
    except InputError as error:
        return f"{said}; {plan.problem} cannot be asked about it: {error}."
    if np.isfinite(report.objective) and plan.objective is not None:
        said += f" (objective {figure(report.objective)}, planned {figure(plan.objective)})"
    return f"{said}; {f'it breaks a rule: {report.violations[0]}' if report.violations else 'no rule is broken'}."

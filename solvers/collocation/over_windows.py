"""Collocated allocation over k windows: what shares of collocated traffic say of the objective, and the reverse."""

from __future__ import annotations

import numpy as np

from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import IntArray
from keyshift.solvers.collocation.lagrangian import LagrangianBound


def mean_bound(problem: CollocatedAllocation, most_collocated: float) -> float:
    """The least objective when at most so large a share of the mean traffic is collocated."""
    share = min(most_collocated + 1e-12, 1.0)
    return float(max(0.0, problem.value(share * problem.total_traffic) - 1e-12 * problem.scale))


def objective_bound(problem: CollocatedAllocation, bound: LagrangianBound, most: float) -> float:
    """The least objective when at most so large a share of the traffic, weighted by `bound.row_share`, is collocated."""
    if not problem.combines:
        return mean_bound(problem, most)
    saved = problem.saved * bound.data.traffic_unit * (most + 1e-12)
    weighted = (
        bound.row_share @ problem.apart - saved
        if bound.row_share.size > 1
        else problem.planned.combined(problem.apart - saved)
    )
    return float(max(0.0, weighted - 1e-12 * float(problem.apart.max())))


def share_of(problem: CollocatedAllocation, bound: LagrangianBound, assignment: IntArray) -> float:
    """The share of the traffic, weighted by `bound.row_share`, that is collocated by all that is better than an assignment."""
    if not problem.combines or bound.row_share.size == 1:
        return float(bound.row_share @ bound.data.together(assignment))
    unit = problem.saved * bound.data.traffic_unit
    return float((bound.row_share @ problem.apart - problem.objective(assignment)) / unit) if unit > 0 else -np.inf


def reweigh(problem: CollocatedAllocation, bound: LagrangianBound, turn: int) -> None:
    """Weigh the windows that are worst where the bound is attained a little more."""
    if problem.combines and bound.row_share.size > 1:
        values = problem.apart - problem.saved * bound.data.traffic_unit * bound.data.together(bound.labels)
        bound.row_share = bound.row_share + (problem.planned.weights(values) - bound.row_share) / (turn + 2)

"""Key-group allocation by the declarative models: HiGHS on the Pyomo statement, CP-SAT on its own, the LP bound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.solvers import cpsat, highs

if TYPE_CHECKING:
    from keyshift.models.allocation.pyomo_model import Objective

MIP_DOUBT = 5e-7
"""HiGHS proves its bound within feasibility tolerances; so much of the mean load is taken off it."""


def in_unit_size(problem: KeyGroupAllocation) -> tuple[KeyGroupAllocation, float]:
    """The same problem with loads, costs and resources of size one, and the load that stands for one.

    HiGHS's tolerances are absolute: loads of 1e-7 would all be zero to it. The units are powers of two, so that no
    digit is lost. A mean that is rounded up keeps its unit.
    """
    w = problem.workload
    load = 1.0 if problem.mean == "ceiling" else _unit(problem.scale)
    cost = _unit(float(w.state.max()))
    uses = {name: _unit(float(use.max())) for name, use in w.resources.items()}
    limits = {n: np.asarray(c) / uses.get(n, load) for n, c in (problem.resource_capacity or {}).items()}
    scaled = w.replace(
        load=w.load / load, state=w.state / cost, resources={n: use / uses[n] for n, use in w.resources.items()}
    )
    limit = None if problem.max_migration_cost is None else problem.max_migration_cost / cost
    return replace(problem, workload=scaled, max_migration_cost=limit, resource_capacity=limits), load


def _unit(size: float) -> float:
    """The power of two nearest to a size; 1 for nothing."""
    return 1.0 if size <= 0 else 2.0 ** round(math.log2(size))


def solve_highs(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
    second_stage: bool = False,
    weights: tuple[float, float] | None = None,
) -> Answer:
    """Solve the plain Pyomo statement by HiGHS, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.
    second_stage : bool, default False
        Then minimise the two one-sided deviations, the load distance kept at its least.
    weights : (w1, w2), optional
        Minimise ``w1 * d - w2 * (d_u + d_l)`` as printed instead, in one stage.

    Notes
    -----
    The bound is HiGHS's dual bound less `MIP_DOUBT` times the mean load. With weights it is that bound over w1, since
    d_u and d_l are not negative.
    """
    problem, unit = in_unit_size(problem)
    first, bound = _stage(problem, weights or "distance", None, start, budget, seed, threads, unit)
    if first.termination == "infeasible":
        return first
    if weights is not None:
        bound = None if bound is None or weights[0] <= 0 else bound / weights[0]
    if bound is not None:
        first.bound = unit * max(0.0, bound - MIP_DOUBT * problem.scale)  # a distance is never negative
    if not second_stage or weights is not None or first.termination != "optimal" or first.assignment is None:
        return first
    least = problem.objective(first.assignment)
    second, _ = _stage(problem, "deviation_sum", least + 1e-9 * problem.scale, first.assignment, budget, seed, threads)
    if second.assignment is not None and problem.objective(second.assignment) <= least + problem.tolerance / 2:
        first.assignment = second.assignment
        first.details["second_stage"] = second.termination
    return first


def _stage(
    problem: KeyGroupAllocation,
    objective: Objective,
    max_distance: float | None,
    start: np.ndarray | None,
    budget: Budget,
    seed: int,
    threads: int,
    unit: float = 1.0,
) -> tuple[Answer, float | None]:
    """Run HiGHS once on the statement with one objective; its answer and its own dual bound."""
    from keyshift.models.allocation.pyomo_model import AllocationPyomo

    statement = AllocationPyomo(problem, objective, max_distance)
    program, columns = highs.compile_model(statement.model)
    if start is not None:
        statement.set_start(start)
    values = None if start is None else np.array([v.value for v in columns], dtype=float)

    def report(value: float, bound: float) -> None:
        if objective == "distance":
            budget.report(value * unit, bound * unit)

    result = highs.minimise(program, budget, seed=seed, start=values, threads=threads, report=report)
    if result.termination == "infeasible":
        why = "HiGHS proves that no assignment meets all limits"
        return Answer(None, termination="infeasible", message=why), None
    bound = result.bound if np.isfinite(result.bound) else None
    if result.values is None:
        return Answer(start, None, result.termination), bound
    for column, value in zip(columns, result.values, strict=True):
        column.set_value(value, skip_validation=True)
    return Answer(statement.assignment(), None, result.termination, details={"nodes": result.nodes}), bound


def solve_cpsat(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
) -> Answer:
    """The same program in whole numbers by CP-SAT, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.
    """
    from keyshift.models.allocation.cpsat_model import AllocationCpSat

    statement = AllocationCpSat(problem)
    if start is not None:
        statement.set_start(start)

    def report(objective: float, bound: float) -> None:
        budget.report(objective / float(statement.unit), bound / float(statement.unit))

    outcome = cpsat.minimise(statement.model, budget, seed=seed, threads=threads, report=report)
    if outcome.termination == "infeasible":
        return Answer(None, termination="infeasible", message="CP-SAT proves that no assignment meets all limits")
    bound = statement.bound(outcome.solver.best_objective_bound)
    if not outcome.found:
        return Answer(start, bound, outcome.termination)
    branches = {"branches": outcome.solver.num_branches}
    return Answer(statement.assignment(outcome.solver.boolean_value), bound, outcome.termination, details=branches)


def lp_bound(problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment."""
    from keyshift.models.allocation.pyomo_model import AllocationPyomo

    problem, unit = in_unit_size(problem)
    program, _ = highs.compile_model(AllocationPyomo(problem).model)
    bound, termination = highs.relaxation_bound(program, budget, seed)
    if termination == "infeasible":
        return Answer(None, termination="infeasible", message="even the linear relaxation meets not all limits")
    return Answer(
        None,
        None if bound is None else unit * max(0.0, bound),
        "completed" if termination == "optimal" else termination,
    )

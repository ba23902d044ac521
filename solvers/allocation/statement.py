"""Key-group allocation by the declarative models: HiGHS on the Pyomo statement, CP-SAT on its own, the LP bound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.ranges import NonNegative, Threads
from keyshift.solvers import cpsat, highs

MIP_DOUBT = 5e-7
"""HiGHS proves its bound within feasibility tolerances; so much of the mean load is taken off it."""
NO_ASSIGNMENT = "no assignment meets all limits"


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
    threads: Threads = 1,
    second_stage: bool = False,
    weights: tuple[NonNegative, NonNegative] | None = None,
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
    from keyshift.models.allocation.pyomo_model import AllocationPyomo

    problem, unit = in_unit_size(problem)

    def distance_bound(proven: float) -> float | None:
        weight = 1.0 if weights is None else weights[0]
        if weight <= 0:
            return None
        return unit * max(0.0, proven / weight - MIP_DOUBT * problem.scale)  # a distance is never negative

    def report(value: float, bound: float) -> None:
        budget.report(value * unit, bound * unit)

    def run(statement: AllocationPyomo, known: np.ndarray | None, **settings: Any) -> Answer:
        settings |= {"seed": seed, "threads": threads}
        return highs.solve(statement, budget, known, bound=distance_bound, infeasible=NO_ASSIGNMENT, **settings)

    first = run(AllocationPyomo(problem, weights or "distance"), start, report=report if weights is None else None)
    if not second_stage or weights is not None or first.termination != "optimal" or first.assignment is None:
        return first
    least = problem.objective(first.assignment)
    # Its bound, on the sum of deviations, says nothing of the distance: only its assignment is of use.
    second = run(AllocationPyomo(problem, "deviation_sum", least + 1e-9 * problem.scale), first.assignment)
    if second.assignment is not None and problem.objective(second.assignment) <= least + problem.tolerance / 2:
        first.assignment = second.assignment
        first.details["second_stage"] = second.termination
    return first


def solve_cpsat(
    problem: KeyGroupAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The same program in whole numbers by CP-SAT, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.
    """
    from keyshift.models.allocation.cpsat_model import AllocationCpSat

    statement = AllocationCpSat(problem)

    def report(objective: float, bound: float) -> None:
        budget.report(objective / float(statement.unit), bound / float(statement.unit))

    settings: dict[str, Any] = {"seed": seed, "threads": threads, "report": report}
    return cpsat.solve(statement, budget, start, bound=statement.bound, infeasible=NO_ASSIGNMENT, **settings)


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

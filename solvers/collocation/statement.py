"""Collocated allocation by the declarative models: HiGHS on the Pyomo statement, CP-SAT on its own, the LP bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyomo.environ as pyo
from pyomo.common.errors import InfeasibleConstraintException

from keyshift.models import Answer, Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.ranges import Threads
from keyshift.models.workload import BoolArray, FloatArray
from keyshift.solvers import cpsat, highs
from keyshift.solvers.safe_bounds import LinearProgram, dual_bound

MIP_DOUBT = 2e-7
"""HiGHS proves its bound within feasibility tolerances; so much of the objective's scale is taken off it."""
TOLERANCES = {"mip_feasibility_tolerance": 1e-6, "primal_feasibility_tolerance": 1e-7}
"""HiGHS's own; what these admit too much, the check sorts out."""
DOUBTED = {**TOLERANCES, "simplex_strategy": 4}
"""Primal simplex: the second opinion before a relaxation is called infeasible."""
NO_ASSIGNMENT = "no assignment meets the load distance within the other limits"


def until_checked(
    problem: CollocatedAllocation, run: Callable[[], Answer], forbid: Callable[[np.ndarray], None]
) -> Answer:
    """Run a model again, without the assignment it gave, as long as the check refuses what rounding let in."""
    while True:
        answer = run()
        if answer.assignment is None or not problem.violations(answer.assignment):
            return answer
        if answer.termination not in ("optimal", "gap"):
            return Answer(None, answer.bound, answer.termination, answer.message, answer.details)
        forbid(answer.assignment)


def solve_cpsat(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The linearised model in whole numbers by CP-SAT, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.
    """
    from keyshift.models.collocation.cpsat_model import CollocationCpSat

    statement = CollocationCpSat(problem)

    def run() -> Answer:
        return cpsat.solve(
            statement, budget, start, bound=statement.bound, infeasible=NO_ASSIGNMENT, seed=seed, threads=threads
        )

    return better_of(problem, until_checked(problem, run, statement.forbid), start)


def run_highs(
    problem: CollocatedAllocation,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
    open_to: BoolArray | None = None,
    explicit: BoolArray | None = None,
    beyond: FloatArray | None = None,
) -> Answer:
    """HiGHS on the Pyomo statement, whole or with some key groups held to some nodes and some pairs bounded only."""
    from keyshift.models.collocation.pyomo_model import CollocationPyomo

    statement = CollocationPyomo(problem, open_to, explicit, beyond)
    if start is not None and not all((k, int(i)) in statement.model.x for k, i in enumerate(start)):
        start = None  # what is left open no longer holds the start
    if start is not None:
        statement.set_start(start)

    def run() -> Answer:
        compiled = _compiled(statement.model)
        if compiled is None:
            return Answer(None, termination="infeasible", message=f"arithmetic proves that {NO_ASSIGNMENT}")
        program, columns = compiled
        if not program.integer.any():  # every key group is held to its node
            return _only_choice(problem)
        values = None if start is None else np.array([v.value for v in columns], dtype=float)
        for options in (TOLERANCES, DOUBTED):
            result = highs.minimise(
                program, budget, seed=seed, start=values, threads=threads, report=budget.report, options=options
            )
            if result.termination != "infeasible":
                break
        if result.termination == "infeasible":
            return Answer(None, termination="infeasible", message=f"HiGHS proves that {NO_ASSIGNMENT}")
        bound = max(0.0, result.bound - MIP_DOUBT * problem.scale)
        details = {"nodes": result.nodes, "columns": len(columns)}
        if result.values is None:
            return Answer(start, bound, result.termination, details=details)
        for column, value in zip(columns, result.values, strict=True):
            column.set_value(value, skip_validation=True)
        return Answer(statement.assignment(), bound, result.termination, details=details)

    return until_checked(problem, run, statement.forbid)


def _compiled(model: pyo.ConcreteModel) -> tuple[LinearProgram, list[pyo.Var]] | None:
    """A model's matrices; None when a row breaks its limit by key groups alone that are held to their nodes."""
    try:
        return highs.compile_model(model)
    except InfeasibleConstraintException:
        return None


def _only_choice(problem: CollocatedAllocation) -> Answer:
    """The answer where nothing may move."""
    stay = problem.workload.current.copy()
    if problem.violations(stay):
        return Answer(None, termination="infeasible", message=f"arithmetic proves that {NO_ASSIGNMENT}")
    return Answer(stay, problem.objective(stay), "optimal")


def solve_plain_milp(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The whole linearised model by HiGHS, from a warm start, with nothing of our own besides: the textbook's way.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another of several optima from run to run.
    """
    return better_of(problem, run_highs(problem, budget, seed, start, threads), start)


def lp_bound(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment."""
    from keyshift.models.collocation.pyomo_model import CollocationPyomo

    compiled = _compiled(CollocationPyomo(problem).model)
    if compiled is None:
        return Answer(None, termination="infeasible", message=f"arithmetic proves that {NO_ASSIGNMENT}")
    program, _ = compiled
    result = highs.minimise(program, budget, seed=seed, relax=True, options=TOLERANCES)
    if result.termination == "infeasible":
        result = highs.minimise(program, budget, seed=seed, relax=True, options=DOUBTED)
    if result.termination == "infeasible":
        return Answer(
            None,
            termination="infeasible",
            message="no assignment meets all limits, not even with divisible key groups",
        )
    bound = None if result.row_duals is None else max(0.0, dual_bound(program, result.row_duals))
    return Answer(None, bound, "completed" if result.termination == "optimal" else result.termination)


def better_of(problem: CollocatedAllocation, answer: Answer, start: np.ndarray | None) -> Answer:
    """The answer, with the start in it where that is better."""
    if start is not None and answer.termination != "infeasible":
        given = answer.assignment
        if given is None or problem.objective(start) < problem.objective(given):
            answer.assignment = start
    return answer

"""Collocated allocation by the declarative models: HiGHS on the Pyomo statement, CP-SAT on its own, the LP bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.compiling import off_clock
from keyshift.models.guards import Threads
from keyshift.models.pyomo import errors, pyo
from keyshift.models.workload import BoolArray, FloatArray
from keyshift.solvers import cpsat, highs
from keyshift.solvers.checked import better_of, by_second_word, is_met, until_checked, within, without_false_bound
from keyshift.solvers.safe_bounds import LinearProgram, dual_bound

if TYPE_CHECKING:
    from keyshift.models.collocation.pyomo_model import CollocationPyomo

TOLERANCES = {"mip_feasibility_tolerance": 1e-6, "primal_feasibility_tolerance": 1e-7}
"""HiGHS's own tolerances; the check refuses whatever they let through."""
DOUBTED = {**TOLERANCES, "simplex_strategy": 4}
"""Primal simplex: the second opinion before a relaxation is called infeasible."""
NO_ASSIGNMENT = "no assignment meets the load distance within the other limits"


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
        More than one may return another optimum from run to run.
    """
    with off_clock():
        from keyshift.models.collocation.cpsat_model import CollocationCpSat

    statement = within(budget, lambda: CollocationCpSat(problem))
    if statement is None:
        return Answer(start, 0.0, budget.why)

    def run() -> Answer:
        return cpsat.solve(
            statement, budget, start, bound=statement.bound, infeasible=NO_ASSIGNMENT, seed=seed, threads=threads
        )

    return until_checked(problem, run, statement.forbid, start)


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
    with off_clock():
        from keyshift.models.collocation.pyomo_model import CollocationPyomo

    statement = within(budget, lambda: CollocationPyomo(problem, open_to, explicit, beyond))
    if statement is None:
        return Answer(start, 0.0, budget.why)
    known = start
    if start is not None and not all((k, int(i)) in statement.model.x for k, i in enumerate(start)):
        known = None  # what is left open no longer holds the start
    if known is not None:
        statement.set_start(known)

    def run() -> Answer:
        return _once(problem, statement, budget, seed, known, threads)

    return until_checked(problem, run, statement.forbid, known)


def _once(
    problem: CollocatedAllocation,
    statement: CollocationPyomo,
    budget: Budget,
    seed: int,
    known: np.ndarray | None,
    threads: Threads,
) -> Answer:
    """HiGHS on a statement as it stands."""
    compiled = within(budget, lambda: _compiled(statement.model))
    if compiled is None:
        return Answer(None, 0.0, budget.why)
    program, columns = compiled
    if program is None:
        return Answer(None, termination="infeasible", message=f"arithmetic proves that {NO_ASSIGNMENT}")
    if not program.integer.any():  # every key group is held to its node
        return _only_choice(problem)
    values = None if known is None else np.array([v.value for v in columns], dtype=float)
    for options in (TOLERANCES, DOUBTED):
        result = highs.minimise(
            program, budget, seed=seed, start=values, threads=threads, report=budget.report, options=options
        )
        if result.termination != "infeasible":
            break
    if result.termination == "infeasible":
        return Answer(None, termination="infeasible", message=f"{highs.solver_name()} proves that {NO_ASSIGNMENT}")
    bound = statement.bound(result.bound)
    details = {"nodes": result.nodes, "columns": len(columns)}
    if result.values is None:
        return Answer(known, bound, result.termination, details=details)
    for column, value in zip(columns, result.values, strict=True):
        column.set_value(value, skip_validation=True)
    return Answer(statement.assignment(), bound, result.termination, details=details)


def _compiled(model: pyo.ConcreteModel) -> tuple[LinearProgram | None, list[pyo.Var]]:
    """A model's matrices; None when a row breaks its limit by key groups alone that are held to their nodes."""
    try:
        return highs.compile_model(model)
    except errors.InfeasibleConstraintException:
        return None, []


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
        More than one may return another optimum from run to run.
    """
    answer = better_of(problem, run_highs(problem, budget, seed, start, threads), start)
    said = answer.termination
    answer = without_false_bound(problem, answer)
    if said == "infeasible" or (said == "optimal" and not is_met(problem, answer)):
        return second_opinion(problem, budget, seed, threads, answer)
    return answer


def second_opinion(problem: CollocatedAllocation, budget: Budget, seed: int, threads: Threads, said: Answer) -> Answer:
    """A second opinion in whole numbers, where HiGHS's tolerances make its word doubtful."""
    return by_second_word(problem, said, solve_cpsat, budget=budget, seed=seed, threads=threads)


def lp_bound(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment."""
    with off_clock():
        from keyshift.models.collocation.pyomo_model import CollocationPyomo

    compiled = within(budget, lambda: _compiled(CollocationPyomo(problem).model))
    if compiled is None:
        return Answer(None, 0.0, budget.why)
    program, _ = compiled
    message = "no assignment meets all limits, not even with divisible key groups"
    said = Answer(None, termination="infeasible", message=message)
    result = None
    for options in (TOLERANCES, DOUBTED):
        if program is not None and (result is None or result.termination == "infeasible"):
            result = highs.minimise(program, budget, seed=seed, relax=True, options=options)
    if result is None or result.termination == "infeasible":
        other = second_opinion(problem, budget, seed, 1, said)
        return said if other.termination == "infeasible" else Answer(None, 0.0, budget.why)
    bound = 0.0 if program is None or result.row_duals is None else max(0.0, dual_bound(program, result.row_duals))
    return Answer(None, bound, "completed" if result.termination == "optimal" else result.termination)

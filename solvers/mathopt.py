"""MathOpt: one way to run a model by SCIP, GLOP, PDLP or another of its solvers until it is proven or the budget ends."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from ortools.math_opt.python import mathopt

from keyshift.models import Answer, Budget
from keyshift.models.answer import STEP, LimitReached, Termination
from keyshift.models.errors import InputError
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import NO_ASSIGNMENT, within_bounds
from keyshift.solvers.threads import until_limit

NODES_PER_EFFORT = 50
"""Nodes of SCIP's tree in a unit of effort: its iterations are known afterwards only."""
FEW_ROUNDS = {"separating/maxrounds": 2, "separating/maxroundsroot": 5}
"""SCIP cuts off what is below a quadratic objective round after round, and takes up to ten times as long as with so few."""
SOLVERS = {
    "scip": mathopt.SolverType.GSCIP,
    "cp-sat": mathopt.SolverType.CP_SAT,
    "glop": mathopt.SolverType.GLOP,
    "pdlp": mathopt.SolverType.PDLP,
}
"""Those that every wheel of OR-Tools brings; HiGHS is run through its own wheel."""
RELAXED = ("glop", "pdlp")
"""Those of linear programs without whole variables."""


def solve(
    statement: Any,
    budget: Budget,
    start: IntArray | None = None,
    *,
    infeasible: str = NO_ASSIGNMENT,
    solver: str = "scip",
    **settings: Any,
) -> Answer:
    """Run a solver of MathOpt on a statement, and answer the problem that it states, with the statement's own safe bound.

    Parameters
    ----------
    statement
        With a `model`, a `hint` of an assignment, the `assignment` of a solution's values, and a `bound`.
    budget : Budget
    start : ndarray, optional
        The assignment to begin from, and to hand back where the solver finds none.
    infeasible : str
        What the solver proves when it finds the model infeasible.
    **settings
        As for `run`.
    """
    hints = [] if start is None else [statement.hint(start)]
    result = run(statement.model, solver, budget, hints=hints, **settings)
    if result is None:
        return Answer(start, 0.0, budget.why)
    termination = ended(result, budget)
    if termination == "infeasible":
        return Answer(None, termination="infeasible", message=f"{solver.upper()} proves that {infeasible}")
    proven = result.termination.objective_bounds.dual_bound
    found = statement.assignment(result.variable_values()) if result.has_primal_feasible_solution() else start
    return Answer(found, statement.bound(proven) if np.isfinite(proven) else 0.0, termination)


def run(
    model: mathopt.Model,
    solver: str,
    budget: Budget,
    *,
    seed: int = 0,
    threads: int = 1,
    hints: list[mathopt.SolutionHint] | None = None,
    gap: float = 0.0,
) -> mathopt.SolveResult | None:
    """A solver's result; None where it did not come back in time, or with values outside their bounds.

    SCIP ends once its bound is within a gap of the objective, in units of 1 or of the objective, whichever is larger.

    With hints SCIP sometimes errs, and proves that nothing is better: where it finds nothing better it is asked again without.
    Its presolve errs near its tolerance, and proves that there is nothing: that is asked again without presolve.
    The solver receives Ctrl-C itself: the interrupter of MathOpt 9.15 makes SCIP print an error for every model.

    Raises
    ------
    InputError
        Where the solver does not take such a model.
    """
    kinds = {variable.integer for variable in model.variables()}
    if solver == "cp-sat" and False in kinds:
        # It takes them for whole ones, and proves optima of that.
        raise InputError("cp-sat does not take this model: it has variables that are not whole; scip and highs take it")
    if solver in RELAXED and True in kinds:
        raise InputError(
            f"{solver} does not take this model: it has whole variables; scip and highs take it, or relax() it"
        )
    result = _once(model, solver, budget, seed, threads, hints or [], gap)
    if solver == "scip" and result is not None and ended(result, budget) == "infeasible":
        again = _once(model, solver, budget, seed, threads, hints or [], gap, presolve=False)
        return again if again is not None and again.has_primal_feasible_solution() else result
    proven = result is not None and result.termination.reason == mathopt.TerminationReason.OPTIMAL
    if solver != "scip" or not hints or result is None or not proven:
        return result
    known, sign = hints[0].variable_values, -1 if model.objective.is_maximize else 1
    if all(variable in known for variable in model.variables()):
        at = mathopt.evaluate_expression(model.objective.as_quadratic_expression(), known)
        # Less than this is nothing better, in units of a statement's scale.
        if sign * result.objective_value() < sign * at - 1e-6:
            return result
    return _once(model, solver, budget, seed, threads, [], gap)


def _once(
    model: mathopt.Model, solver: str, budget: Budget, seed: int, threads: int, hints: list[mathopt.SolutionHint],
    gap: float, presolve: bool = True,
) -> mathopt.SolveResult | None:  # fmt: skip
    if budget.expired:
        return None
    parameters = _parameters(solver, budget, seed, threads)
    if solver == "scip" and any(True for _ in model.objective.quadratic_terms()):
        parameters.gscip.int_params.update(FEW_ROUNDS)
    if solver == "scip":
        parameters.gscip.real_params.update({"limits/gap": gap, "limits/absgap": gap})
    if not presolve:
        parameters.presolve = mathopt.Emphasis.OFF
    given = mathopt.ModelSolveParameters(solution_hints=hints)
    callback = (
        (lambda lines: None) if solver == "pdlp" else None
    )  # it warns of small numbers whatever the parameters say

    def work() -> mathopt.SolveResult:
        return mathopt.solve(model, SOLVERS[solver], params=parameters, model_params=given, msg_cb=callback)

    try:
        # A solver looks at its limits in its search; where it does not within this, it is left behind.
        result = until_limit(budget, work, grace=0.4)
    except LimitReached:
        return None
    except Exception as error:  # MathOpt 9.15 hands some of SCIP's errors on garbled
        said = " ".join(str(error).split())[:160]
        raise InputError(f"{solver} does not take this model, or fails on it: {said}") from None
    if result.has_primal_feasible_solution():
        boxes = [(v.lower_bound, v.upper_bound, v.integer) for v in model.variables()]
        held = result.variable_values(model.variables())
        if boxes and within_bounds(held, *zip(*boxes, strict=True)) is None:
            return None
    budget.spend(result.solve_stats.node_count / (NODES_PER_EFFORT * STEP))
    if result.termination.limit == mathopt.Limit.INTERRUPTED:
        budget.interrupt()
    return result


def _parameters(solver: str, budget: Budget, seed: int, threads: int) -> mathopt.SolveParameters:
    limit = None if budget.clock == np.inf else datetime.timedelta(seconds=budget.clock)
    parameters = mathopt.SolveParameters(time_limit=limit)
    if budget.counts_work and solver == "scip":
        parameters.node_limit = max(1, int(NODES_PER_EFFORT * min(budget.remaining, 1e6)))
    if solver != "pdlp":  # which draws nothing, and refuses a seed
        parameters.random_seed = int(seed) % 2**31
    if solver != "glop":
        parameters.threads = threads
    if solver == "scip":
        parameters.gscip.real_params["numerics/feastol"] = 1e-9
    return parameters


def ended(result: mathopt.SolveResult, budget: Budget) -> Termination:
    """Why a solver stopped."""
    reason = result.termination.reason
    if reason in (mathopt.TerminationReason.INFEASIBLE, mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED):
        return "infeasible"
    return "optimal" if reason == mathopt.TerminationReason.OPTIMAL else budget.ended("gap")

"""MCLB by the declarative models: SCIP, CP-SAT, and tangents for HiGHS."""

from __future__ import annotations

import datetime

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.mclb.problem import MCLB
from keyshift.models.ranges import Count, Threads
from keyshift.models.workload import IntArray
from keyshift.solvers import cpsat, highs

SOLVER_DOUBT = 4e-7
"""SCIP and HiGHS prove bounds within tolerances; so much of the problem's scale is taken off them."""
NO_PLACEMENT = "no placement keeps within the budget"


def solve_scip(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The mixed-integer quadratic program by SCIP, through OR-Tools MathOpt, from a warm start.

    Notes
    -----
    The bound is SCIP's dual bound less `SOLVER_DOUBT` times the problem's scale. SCIP hears Ctrl-C itself: the
    interrupter of MathOpt 9.15 makes it print an error for every model.
    """
    from ortools.math_opt.python import mathopt

    from keyshift.models.mclb.mathopt_model import MCLBMathOpt

    if budget.expired:
        return Answer(start, 0.0, budget.why)
    statement = MCLBMathOpt(problem)
    core = problem.core
    hints = [] if start is None else [statement.hint(core.lower(start))]
    limit = None if budget.remaining == np.inf else datetime.timedelta(seconds=budget.remaining)
    parameters = mathopt.SolveParameters(time_limit=limit, random_seed=int(seed) % 2**31, threads=threads)
    parameters.gscip.real_params.update({"limits/gap": 0.0, "numerics/feastol": 1e-9})
    result = mathopt.solve(
        statement.model,
        mathopt.SolverType.GSCIP,
        params=parameters,
        model_params=mathopt.ModelSolveParameters(solution_hints=hints),
    )
    if result.termination.limit == mathopt.Limit.INTERRUPTED:
        budget.interrupt()
    reason = result.termination.reason
    if reason == mathopt.TerminationReason.INFEASIBLE:
        return Answer(None, termination="infeasible", message=f"SCIP proves that {NO_PLACEMENT}")
    proven = result.termination.objective_bounds.dual_bound
    bound = max(0.0, (proven - SOLVER_DOUBT) * problem.scale) if np.isfinite(proven) else 0.0
    ended: Termination = "optimal" if reason == mathopt.TerminationReason.OPTIMAL else budget.why
    if not result.has_primal_feasible_solution():
        return Answer(start, bound, ended)
    found = statement.assignment(result.variable_values())
    return Answer(_best(problem, found, start), bound, ended)


def solve_cpsat(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The same program in whole numbers by CP-SAT, from a warm start."""
    from keyshift.models.mclb.cpsat_model import MCLBCpSat

    statement = MCLBCpSat(problem)
    known = None if start is None else problem.core.lower(start)
    answer = cpsat.solve(
        statement, budget, known, bound=statement.bound, infeasible=NO_PLACEMENT, seed=seed, threads=threads
    )
    if answer.assignment is not None:
        answer.assignment = start if answer.assignment is known else _best(problem, answer.assignment, start)
    return answer


def solve_tangents(
    problem: MCLB,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
    max_rounds: Count | None = None,
) -> Answer:
    """Outer approximation: HiGHS solves the model above tangents, whose optimum adds tangents of its own.

    A placement's own tangents make the approximation exact at it: the rounds end, at the latest when every placement
    has been seen. Each round's dual bound, less `SOLVER_DOUBT` times the scale, is a bound on the imbalance.

    Notes
    -----
    Source: Duran, Grossmann, *An outer-approximation algorithm for a class of mixed-integer nonlinear programs*, 1986.
    """
    from keyshift.models.mclb.pyomo_model import MCLBPyomo

    statement = MCLBPyomo(problem, linear=True)
    core = problem.core
    best = None if start is None else core.lower(start)
    total = statement.load.sum(axis=0)[:, None] / core.nodes
    statement.add_tangents(np.broadcast_to(total, (total.size, core.nodes)))
    statement.add_tangents(-np.broadcast_to(total, (total.size, core.nodes)) / 2)
    if best is not None:
        statement.add_tangents(statement.deviations_of(statement.in_order(best)))

    def imbalance(proven: float) -> float:
        return (max(0.0, proven) - SOLVER_DOUBT) * problem.scale

    bound, ended, rounds = 0.0, budget.why, 0
    while not budget.expired and (max_rounds is None or rounds < max_rounds):
        rounds += 1
        answer = highs.solve(
            statement, budget, best, bound=imbalance, infeasible=NO_PLACEMENT, seed=seed, threads=threads
        )
        found, ended = answer.assignment, answer.termination
        if ended == "infeasible":
            return answer
        bound = max(bound, answer.bound or 0.0)
        if found is not None:
            best = found if best is None or core.squares(found) < core.squares(best) else best
            statement.add_tangents(statement.deviations_of(found))
        value = np.inf if best is None else core.squares(best) / core.nodes
        budget.report(objective=None if best is None else value, bound=bound)
        if ended != "optimal" or value - bound <= 0.9 * problem.tolerance:
            break
    placed = None if best is None else core.lift(core.relabelled(best))
    return Answer(placed, bound, ended, details={"rounds": rounds})


def _best(problem: MCLB, found: IntArray, start: np.ndarray | None) -> IntArray:
    """The better of what was found and the start, on the nodes where it moves least state."""
    core = problem.core
    candidates = [found] if start is None else [core.lower(start), found]
    best = min((c for c in candidates if core.moved(c) <= core.budget), key=core.squares, default=found)
    return core.lift(core.relabelled(best))

"""MCLB by the declarative models: SCIP, CP-SAT, and tangents for HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.compiling import off_clock
from keyshift.models.guards import Count, Threads
from keyshift.models.mclb.problem import MCLB
from keyshift.models.workload import IntArray
from keyshift.solvers import cpsat, highs
from keyshift.solvers.checked import within, without_false_bound

if TYPE_CHECKING:
    from keyshift.models.mclb.pyomo_model import MCLBPyomo

SCIP_GAP = 4e-7
"""Together with what `MCLBMathOpt.bound` takes off, less than the tolerance of 1e-6."""
NO_PLACEMENT = "no placement keeps within the budget"


def solve_scip(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The mixed-integer quadratic program by SCIP, through OR-Tools MathOpt, from a warm start.

    Notes
    -----
    The bound is SCIP's dual bound less what its tolerances may amount to (`MCLBMathOpt.bound`).
    """
    with off_clock():
        from keyshift.models.mclb.mathopt_model import MCLBMathOpt
        from keyshift.solvers import mathopt

    statement = within(budget, lambda: MCLBMathOpt(problem))
    if statement is None:
        return Answer(start, 0.0, budget.why)
    core, best_bound = problem.core, 0.0
    while True:
        hints = [] if start is None else [statement.hint(start)]
        result = mathopt.run(statement.model, "scip", budget, seed=seed, threads=threads, hints=hints, gap=SCIP_GAP)
        if result is None:
            return Answer(start, best_bound, budget.why)
        ended = mathopt.ended(result, budget)
        if ended == "infeasible":
            return _second_opinion(problem, budget, seed, start, f"SCIP proves that {NO_PLACEMENT}")
        proven = result.termination.objective_bounds.dual_bound
        if np.isfinite(proven):
            best_bound = max(best_bound, statement.bound(proven))
        if not result.has_primal_feasible_solution():
            return _answer(problem, None, start, best_bound, ended)
        found = statement.assignment(result.variable_values())
        if ended != "optimal" or not statement.forbid(found):
            return _answer(problem, core.lower(found), start, best_bound, ended)


def solve_cpsat(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The same program in whole numbers by CP-SAT, from a warm start."""
    with off_clock():
        from keyshift.models.mclb.cpsat_model import MCLBCpSat

    statement = within(budget, lambda: MCLBCpSat(problem))
    if statement is None:
        return Answer(start, 0.0, budget.why)
    bound = 0.0
    while True:
        answer = cpsat.solve(
            statement, budget, start, bound=statement.bound, infeasible=NO_PLACEMENT, seed=seed, threads=threads
        )
        if answer.message:  # there is no placement, or the numbers are too large
            return answer
        bound = max(bound, answer.bound or 0.0)
        if answer.assignment is None or answer.termination != "optimal" or not statement.forbid(answer.assignment):
            found = answer.assignment
            found = None if found is None or found is start else problem.core.lower(found)
            return _answer(problem, found, start, bound, answer.termination, answer.details)


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
    has been seen. Each round's dual bound is a bound on the imbalance.

    Notes
    -----
    Source: [Duran1986].
    """
    core = problem.core
    best = None if start is None else core.lower(start)
    statement = within(budget, lambda: _with_first_tangents(problem, best))
    if statement is None:
        return Answer(start, 0.0, budget.why)
    bound, rounds, seen = 0.0, 0, set[bytes]()
    ended: Termination = budget.why
    while not budget.expired and (max_rounds is None or rounds < max_rounds):
        rounds += 1
        answer = highs.solve(
            statement, budget, None if best is None else core.lift(best), bound=statement.bound,
            infeasible=NO_PLACEMENT, seed=seed, threads=threads,
        )  # fmt: skip
        found, ended = None if answer.assignment is None else core.lower(answer.assignment), answer.termination
        if ended == "infeasible":
            if bound > 0 or best is not None:
                ended = "gap"
                break
            return _second_opinion(problem, budget, seed, start, answer.message)
        bound = max(bound, answer.bound or 0.0)
        if found is not None and statement.forbid(core.lift(found)):
            continue
        if found is not None:
            best = found if best is None or core.squares(found) < core.squares(best) else best
            statement.add_tangents(statement.deviations_of(found))
        value = np.inf if best is None else core.squares(best) / core.nodes
        budget.report(objective=None if best is None else value, bound=bound)
        if ended != "optimal" or value - bound <= problem.tolerance_of(value):
            break
        if found is None or found.tobytes() in seen:  # its tangents are there already: tolerances hide them
            ended = "gap"
            break
        seen.add(found.tobytes())
    return _answer(problem, best, start, bound, ended, {"rounds": rounds})


def _with_first_tangents(problem: MCLB, best: IntArray | None) -> MCLBPyomo:
    """The statement with tangents at the ends of the boxes, and at a known placement."""
    with off_clock():
        from keyshift.models.mclb.pyomo_model import MCLBPyomo

    statement = MCLBPyomo(problem, linear=True)
    n = problem.core.nodes
    total = statement.load.sum(axis=0)[:, None] / n
    statement.add_tangents(np.broadcast_to(total, (total.size, n)))
    statement.add_tangents(-np.broadcast_to(total, (total.size, n)) / 2)
    if best is not None:
        statement.add_tangents(statement.deviations_of(statement.in_order(best)))
    return statement


def _second_opinion(problem: MCLB, budget: Budget, seed: int, start: np.ndarray | None, said: str) -> Answer:
    """A solver's word that there is no placement, which rests on tolerances, held against whole numbers."""
    answer = solve_cpsat(problem, budget=budget, seed=seed, start=start)
    return Answer(None, termination="infeasible", message=said) if answer.termination == "infeasible" else answer


def _answer(
    problem: MCLB,
    found: IntArray | None,
    start: np.ndarray | None,
    bound: float,
    ended: Termination,
    details: dict[str, Any] | None = None,
) -> Answer:
    """The better of what was found and the start, on the nodes where it moves least state."""
    core = problem.core
    candidates = [core.lower(start)] if start is not None else []
    candidates += [] if found is None or core.moved(found) > core.budget else [found]
    if not candidates:
        return Answer(None, max(0.0, bound), ended, details=details or {})
    best = core.lift(core.relabelled(min(candidates, key=core.squares)))
    if problem.violations(best):  # relabelling keeps the budget but for rounding
        best = start if start is not None else core.lift(candidates[0])
    return without_false_bound(problem, Answer(best, max(0.0, bound), ended, details=details or {}))

"""MCLB by the declarative models: SCIP, CP-SAT, and tangents for HiGHS."""

from __future__ import annotations

from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Count, Threads
from keyshift.models.base.lazily import lazily, load
from keyshift.models.mclb.problem import MCLB
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import answered, confirmed, too_large, within, without_false_bound

with lazily():
    from keyshift.models.mclb.cpsat_model import MCLBCpSat
    from keyshift.models.mclb.mathopt_model import MCLBMathOpt
    from keyshift.models.mclb.pyomo_model import MCLBPyomo

NO_PLACEMENT = "no placement keeps within the budget"


def solve_scip(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The mixed-integer quadratic program by SCIP, through OR-Tools MathOpt, from a warm start.

    Notes
    -----
    The bound is SCIP's dual bound less what its tolerances may amount to (`MCLBMathOpt.bound`); with the gap at which it ends,
    that is less than the tolerance of 1e-6.
    """
    asked: dict[str, Any] = {"budget": budget, "seed": seed, "threads": threads}
    answer = answered(problem, "mathopt", MCLBMathOpt, start=start, infeasible=NO_PLACEMENT, gap=4e-7, **asked)
    return _relabelled(problem, confirmed(problem, answer, solve_cpsat, **asked))


def solve_cpsat(
    problem: MCLB, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The same program in whole numbers by CP-SAT, from a warm start."""
    return run_cpsat(problem, budget, start, seed=seed, threads=threads)


def run_cpsat(problem: MCLB, budget: Budget, start: np.ndarray | None, **settings: Any) -> Answer:
    """As `solve_cpsat`, with CP-SAT's own `settings`."""
    answer = answered(problem, "cpsat", MCLBCpSat, budget=budget, start=start, infeasible=NO_PLACEMENT, **settings)
    return _relabelled(problem, answer)


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
    if said := too_large(problem):
        return Answer(start, 0.0, message=said)
    with off_clock():
        from keyshift.solvers import highs

    statement = within(budget, lambda: _with_first_tangents(problem, start))
    if statement is None:
        return Answer(start, 0.0, budget.why)
    best, bound, rounds, seen = start, 0.0, 0, set[bytes]()
    ended: Termination = budget.why
    while not budget.expired and (max_rounds is None or rounds < max_rounds):
        rounds += 1
        answer = highs.solve(statement, budget, best, infeasible=NO_PLACEMENT, seed=seed, threads=threads)
        found, ended = answer.assignment, answer.termination
        if ended == "infeasible":
            if bound == 0 and best is None:
                return confirmed(problem, answer, solve_cpsat, budget=budget, seed=seed)
            ended = "gap"
            break
        bound = max(bound, answer.bound or 0.0)
        if found is not None:
            if statement.forbid(found):
                continue
            statement.add_tangents(statement.deviations_of(problem.core.lower(found)))
            best = found if best is None else min(best, found, key=problem.objective)
        value = np.inf if best is None else problem.objective(best)
        budget.report(objective=None if best is None else value, bound=bound)
        if ended != "optimal" or value - bound <= problem.tolerance_of(value):
            break
        if found is None or found.tobytes() in seen:  # its tangents are there already: tolerances hide them
            ended = "gap"
            break
        seen.add(found.tobytes())
    answer = Answer(best, bound, ended, details={"rounds": rounds})
    return _relabelled(problem, without_false_bound(problem, answer))


def _with_first_tangents(problem: MCLB, start: IntArray | None) -> MCLBPyomo:
    """The statement with tangents at the ends of the boxes, and at a known placement."""
    statement: MCLBPyomo = load(MCLBPyomo)(problem, linear=True)
    n = problem.core.nodes
    total = statement.load.sum(axis=0)[:, None] / n
    statement.add_tangents(np.broadcast_to(total, (total.size, n)))
    statement.add_tangents(-np.broadcast_to(total, (total.size, n)) / 2)
    if start is not None:
        statement.add_tangents(statement.deviations_of(statement.in_order(problem.core.lower(start))))
    return statement


def _relabelled(problem: MCLB, answer: Answer) -> Answer:
    """The answer on the nodes where it moves least state, since alike nodes may be named in any order."""
    if answer.assignment is not None:
        best = problem.core.lift(problem.core.relabelled(problem.core.lower(answer.assignment)))
        if not problem.violations(best):  # it keeps the budget but for rounding
            answer.assignment = best
    return answer

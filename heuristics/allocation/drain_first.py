"""The non-integrated scale-in that [Madsen2016] compares with: drain the nodes first, balance afterwards."""

from __future__ import annotations

import numpy as np

from keyshift.heuristics.allocation.flux import Migrations
from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.answer import Termination
from keyshift.models.base.compiling import off_clock


def drain_first(
    problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """Spend the migration limit on emptying the draining nodes, and only what is left on balance.

    The key groups of the draining nodes go, the most loaded first, each to the kept node that carries least, of those
    that limits and rules leave open to it. When all of them are gone, "milp" balances with what the limits still allow; where
    rules count moves nothing does, since it would begin to count anew. No guarantee on the objective.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
        For the second step.
    start : ndarray, optional
        Unused: it starts from the current nodes.

    Notes
    -----
    Source: [Madsen2016], section 5.1, "a non-integrated approach, which first performs scale-in as an independent process
    and then tries to move the key groups from the to-be-removed nodes to the other nodes evenly".
    """
    w, state = problem.workload, Migrations(problem)
    kept = np.flatnonzero(w.kept)
    leaving = np.flatnonzero(w.draining[w.current])
    drained = 0
    for k in leaving[np.lexsort((leaving, -state.workload.last_load[leaving]))]:
        for target in kept[np.argsort(state.relative[kept], kind="stable")]:
            if state.allowed(int(k), int(target)):
                state.move(int(k), int(target))
                drained += 1
                break
    details = {"drained": drained, "left": int(leaving.size) - drained}
    if details["left"] or budget.expired or problem.lowered.budgets:
        return Answer(state.assignment, termination=_ended(budget), details=details)
    balanced = _balanced(problem, state, budget, seed)
    return Answer(balanced, termination=_ended(budget), details=details)


def _ended(budget: Budget) -> Termination:
    return budget.why if budget.expired else "completed"


def _balanced(problem: KeyGroupAllocation, state: Migrations, budget: Budget, seed: int) -> np.ndarray:
    """Balance from the drained assignment with the moves and the cost that are left."""
    from dataclasses import replace

    with off_clock():
        from keyshift.solvers.allocation.portfolio import solve_milp

    moves, cost = problem.max_migrations, problem.max_migration_cost
    rest = replace(
        problem,
        workload=problem.workload.replace(current=state.assignment),
        max_migrations=None if moves is None else moves - state.moves,
        max_migration_cost=None if cost is None else max(0.0, cost - state.cost),
    )
    most = np.inf if np.isfinite(budget.remaining) else 10.0
    limited = budget.part(1.0, most, scale=rest.scale, silent=True)  # bounds of the rest are none of the problem
    found = solve_milp(rest, budget=limited, seed=seed).assignment
    return state.assignment if found is None else found

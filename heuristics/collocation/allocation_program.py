"""Where ALBIC hands over to the allocation program of [Madsen2016], section 4.3.1."""

from __future__ import annotations

import numpy as np

from keyshift.heuristics.allocation.flux import flux
from keyshift.models import Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.compiling import off_clock


def allocate(problem: KeyGroupAllocation, budget: Budget, seed: int, rounds: int, enough: float) -> np.ndarray | None:
    """The allocation program's plan ("lp-solver" in Algorithm 2), None when it finds none.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
    rounds : int
        Rounds of its search at most.
    enough : float
        A load distance at which it may stop.

    Notes
    -----
    The solver stops after this many rounds, not by the clock: the same seed gives the same plan on any machine.
    """
    with off_clock():
        from keyshift.solvers.allocation.portfolio import solve_milp
        from keyshift.solvers.allocation.settings import AllocationSettings

    if problem.space.pairs <= AllocationSettings().small:
        return _small(problem, budget, seed)
    start = flux(problem, budget=budget, seed=seed).assignment
    if start is None or problem.violations(start):
        start = None if problem.violations(problem.workload.current) else problem.workload.current
    silent = budget.part(1.0, scale=0.0, silent=True)  # the plan's objective is not the method's
    return solve_milp(problem, budget=silent, seed=seed, start=start, rounds=rounds, enough=enough).assignment


def _small(problem: KeyGroupAllocation, budget: Budget, seed: int) -> np.ndarray | None:
    """The plan of an instance so small that `solve_milp` would leave it to CP-SAT, which here counts its own work."""
    with off_clock():
        from keyshift.models.allocation.cpsat_model import AllocationCpSat
        from keyshift.solvers import cpsat

    statement = AllocationCpSat(problem)
    effort = 0.5
    outcome = cpsat.minimise(statement.model, budget, seed=seed, max_deterministic_time=effort)
    return statement.assignment(outcome.solver.value) if outcome.found else None

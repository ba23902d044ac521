"""Where ALBIC hands over to the allocation program of paper 2, section 4.3.1."""

from __future__ import annotations

import numpy as np

from keyshift.heuristics.allocation.flux import flux
from keyshift.models import Budget
from keyshift.models.allocation import KeyGroupAllocation


def allocate(problem: KeyGroupAllocation, budget: Budget, seed: int, seconds: float) -> np.ndarray | None:
    """The allocation program's plan ("lp-solver" in Algorithm 2), None when it finds none.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
    seconds : float
        The most that this call may take of the budget.
    """
    from keyshift.solvers.allocation.milp import solve_milp

    start = flux(problem, budget=budget, seed=seed).assignment
    if start is None or problem.violations(start):
        start = problem.workload.current if not problem.violations(problem.workload.current) else None
    share = 1.0 if np.isinf(budget.remaining) else min(1.0, seconds / max(budget.remaining, 1e-9))
    limited = budget.part(share) if np.isfinite(budget.remaining) else Budget(seconds)
    return solve_milp(problem, budget=limited, seed=seed, start=start).assignment

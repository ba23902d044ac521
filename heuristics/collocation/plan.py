"""Where ALBIC hands over to the allocation program of paper 2, section 4.3.1."""

from __future__ import annotations

import math

import numpy as np

from keyshift.heuristics.allocation.flux import flux
from keyshift.models import Budget
from keyshift.models.allocation import KeyGroupAllocation

SMALL_EFFORT = 0.5
"""Of CP-SAT on small instances, in its deterministic seconds."""


def allocate(problem: KeyGroupAllocation, budget: Budget, seed: int, rounds: int, enough: float) -> np.ndarray | None:
    """The allocation program's plan ("lp-solver" in Algorithm 2), None when it finds none.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
    rounds : int
        How often the solver may ask whether to go on.
    enough : float
        A load distance at which it need not.

    Notes
    -----
    The solver stops by counting, not by the clock: the same seed gives the same plan on any machine.
    """
    from keyshift.solvers.allocation.milp import SMALL, solve_milp

    if problem.allowed.sum() <= SMALL:
        return _small(problem, budget, seed)
    start = flux(problem, budget=budget, seed=seed).assignment
    if start is None or problem.violations(start):
        start = None if problem.violations(problem.workload.current) else problem.workload.current
    return solve_milp(problem, budget=Rounds(budget, rounds, enough), seed=seed, start=start).assignment


def _small(problem: KeyGroupAllocation, budget: Budget, seed: int) -> np.ndarray | None:
    """The plan of an instance so small that `solve_milp` would leave it to CP-SAT, which here counts its own work."""
    from keyshift.models.allocation.cpsat_model import AllocationCpSat
    from keyshift.solvers import cpsat

    statement = AllocationCpSat(problem)
    outcome = cpsat.minimise(statement.model, budget, seed=seed, max_deterministic_time=SMALL_EFFORT)
    return statement.assignment(outcome.solver.boolean_value) if outcome.found else None


class Rounds(Budget):
    """Another budget, cut short after so many questions or at a good enough objective."""

    def __init__(self, whole: Budget, rounds: int, enough: float) -> None:
        super().__init__(None)
        self._whole, self._left, self._enough = whole, rounds, enough
        self._best = math.inf

    @property
    def remaining(self) -> float:
        self._left -= 1
        return 0.0 if self._left < 0 or self._best <= self._enough else self._whole.remaining

    def report(self, objective: float | None = None, bound: float | None = None, note: str = "") -> None:
        """Take note of the objective, which is the plan's and not the whole method's: it goes no further."""
        self._best = min(self._best, math.inf if objective is None else objective)

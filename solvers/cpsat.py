"""CP-SAT: one way to run a model, or a problem's statement, until it is proven or the budget ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ortools.sat.python import cp_model

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.workload import IntArray

POLL_SECONDS = 0.05
_ENDED: dict[int, Termination] = {int(cp_model.OPTIMAL): "optimal", int(cp_model.INFEASIBLE): "infeasible"}


@dataclass(frozen=True)
class Outcome:
    """The solver (values, ``best_objective_bound``), whether it holds an incumbent, and why it stopped."""

    solver: cp_model.CpSolver
    found: bool
    termination: Termination


class Statement(Protocol):
    """What a problem's CP-SAT statement offers: a model, and the way from an assignment to its variables and back."""

    model: cp_model.CpModel

    def set_start(self, assignment: IntArray) -> None: ...
    def assignment(self, value: Callable[[Any], int]) -> IntArray: ...


class _Reporter(cp_model.CpSolverSolutionCallback):
    def __init__(self, report: Callable[[float, float], None]) -> None:
        super().__init__()
        self._report = report

    def on_solution_callback(self) -> None:
        self._report(self.objective_value, self.best_objective_bound)


def solve(
    statement: Statement,
    budget: Budget,
    start: IntArray | None = None,
    *,
    bound: Callable[[float], float],
    infeasible: str,
    **settings: Any,
) -> Answer:
    """Run CP-SAT on a statement, and answer the problem that it states.

    Parameters
    ----------
    statement : Statement
    budget : Budget
    start : ndarray, optional
        The assignment to begin from, and to hand back where CP-SAT finds none.
    bound : callable
        Turns CP-SAT's bound on the integer objective into a safe one on the problem's.
    infeasible : str
        What CP-SAT proves when it finds the model infeasible.
    **settings
        As for `minimise`.
    """
    if start is not None:
        statement.set_start(start)
    outcome = minimise(statement.model, budget, **settings)
    if outcome.termination == "infeasible":
        return Answer(None, termination="infeasible", message=f"CP-SAT proves that {infeasible}")
    solver = outcome.solver
    found = statement.assignment(solver.value) if outcome.found else start
    proven = bound(solver.best_objective_bound)
    return Answer(found, proven, outcome.termination, details={"branches": solver.num_branches})


def minimise(
    model: cp_model.CpModel,
    budget: Budget,
    *,
    seed: int = 0,
    threads: int = 1,
    report: Callable[[float, float], None] | None = None,
    **parameters: Any,
) -> Outcome:
    """Run CP-SAT; returns the solver (values, bound) and the termination.

    With one thread, the default, a run that ends by proof repeats itself exactly.

    Returns
    -------
    Outcome
    """
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = int(seed) % 2**31
    solver.parameters.num_workers = threads
    # With it, OR-Tools 9.15 proves wrong optima on models whose coefficients differ by many orders of magnitude: seen
    # on about 2 % of small random allocations with three nodes, never without (tests/solvers/test_allocation_exact.py).
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.catch_sigint_signal = False  # the budget hears Ctrl-C
    solver.parameters.max_time_in_seconds = min(max(budget.remaining, 0.0), 1e9)
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    callback = _Reporter(report) if report is not None else None
    statuses: list[int] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            statuses.append(int(solver.solve(model, callback)))
        except BaseException as error:  # handed on to the main thread below
            failures.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(POLL_SECONDS)
        if budget.expired:
            solver.stop_search()
    if failures:
        raise failures[0]
    found = statuses[0] in (int(cp_model.OPTIMAL), int(cp_model.FEASIBLE))
    return Outcome(solver, found, _ENDED.get(statuses[0], budget.why))

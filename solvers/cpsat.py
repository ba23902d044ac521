"""CP-SAT: one way to run a model until it is proven or the budget ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from keyshift.models import Budget
from keyshift.models.answer import Termination

POLL_SECONDS = 0.05
_ENDED: dict[int, Termination] = {int(cp_model.OPTIMAL): "optimal", int(cp_model.INFEASIBLE): "infeasible"}


@dataclass(frozen=True)
class Outcome:
    """The solver (values, ``best_objective_bound``), whether it holds an incumbent, and why it stopped."""

    solver: cp_model.CpSolver
    found: bool
    termination: Termination


class _Reporter(cp_model.CpSolverSolutionCallback):
    def __init__(self, report: Callable[[float, float], None]) -> None:
        super().__init__()
        self._report = report

    def on_solution_callback(self) -> None:
        self._report(self.objective_value, self.best_objective_bound)


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
    # on about 2 % of small random allocations with three nodes, never without (tests/test_allocation_exact.py).
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

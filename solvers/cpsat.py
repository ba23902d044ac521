"""CP-SAT: one way to run a model, or a problem's statement, until it is proven or the budget ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models import Answer, Budget
from keyshift.models.answer import LOOK, STEP, LimitReached, Termination
from keyshift.models.errors import InputError
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import NO_ASSIGNMENT
from keyshift.solvers.threads import until_limit

NOTHING_PROVEN = -(2.0**62)
_ENDED: dict[int, Termination] = {int(cp_model.OPTIMAL): "optimal", int(cp_model.INFEASIBLE): "infeasible"}


class Solver(Protocol):
    """The part of a `cp_model.CpSolver` that may be asked afterwards, whether it ended or was left behind."""

    @property
    def best_objective_bound(self) -> float: ...
    @property
    def objective_value(self) -> float: ...
    @property
    def num_branches(self) -> int: ...
    def value(self, expression: Any) -> int: ...


@dataclass(frozen=True)
class CpSatResult:
    """The solver (values), whether it holds an incumbent, why it stopped, and the whole number that it proved."""

    solver: Solver
    found: bool
    termination: Termination
    bound: int


class CpSatStatement(Protocol):
    """A problem's CP-SAT statement: a model, and the way from an assignment to its variables and back."""

    model: cp_model.CpModel

    def set_start(self, assignment: IntArray) -> None: ...
    def assignment(self, value: Callable[[Any], int]) -> IntArray: ...
    def bound(self, proven: float) -> float: ...


class _Reporter(cp_model.CpSolverSolutionCallback):
    """Keeps the last solution and bound, so that nothing of CP-SAT is needed to answer, and passes them on."""

    def __init__(self, report: Callable[[float, float], None] | None) -> None:
        super().__init__()
        self._report = report
        self.abandoned = False
        self.found: list[int] | None = None
        self.best, self.proven = math.inf, NOTHING_PROVEN

    def on_solution_callback(self) -> None:
        if self.abandoned:
            return
        self.found = list(self.response_proto.solution)
        self.best, self.proven = self.objective_value, self.best_objective_bound
        if self._report is not None:
            self._report(self.best, self.proven)


class _Left:
    """The incumbent and bound of a run when it was left."""

    num_branches = 0

    def __init__(self, seen: _Reporter) -> None:
        seen.abandoned = True
        self.found, self.objective_value, self.best_objective_bound = seen.found, seen.best, seen.proven

    def value(self, expression: Any) -> int:
        """Value of a number, of a variable, or of a literal's negation."""
        if isinstance(expression, int):
            return expression
        assert self.found is not None
        index = expression.index
        return self.found[index] if index >= 0 else 1 - self.found[-index - 1]


def solve(
    statement: CpSatStatement,
    budget: Budget,
    start: IntArray | None = None,
    *,
    infeasible: str = NO_ASSIGNMENT,
    report: Callable[[Any, float, float], None] | None = None,
    **settings: Any,
) -> Answer:
    """Run CP-SAT on a statement, and answer the problem that it states, with the statement's own safe bound.

    Parameters
    ----------
    statement : CpSatStatement
    budget : Budget
    start : ndarray, optional
        The assignment to begin from, and to hand back where CP-SAT finds none.
    infeasible : str
        What CP-SAT proves when it finds the model infeasible.
    report : callable, optional
        Told of the statement, an objective and a bound in its units.
    **settings
        As for `minimise`.
    """
    if start is not None:
        statement.set_start(start)
    told = None if report is None else partial(report, statement)
    try:
        outcome = minimise(statement.model, budget, report=told, **settings)
    except InputError as refused:  # numbers too large for it, which other methods may take
        return Answer(start, 0.0, "gap", str(refused))
    if outcome.termination == "infeasible":
        return Answer(None, termination="infeasible", message=f"CP-SAT proves that {infeasible}")
    solver = outcome.solver
    found = statement.assignment(solver.value) if outcome.found else start
    details = {"branches": solver.num_branches}
    return Answer(found, statement.bound(outcome.bound), outcome.termination, details=details)


def whole_bound(proven: float, size: float = 0.0) -> int:
    """The whole number that CP-SAT's bound on a whole objective stands for.

    CP-SAT works on the objective over its divisor, less what its presolve has settled, and hands it back as a float, a
    few last places of the largest number on the way off: 225000000000 may read 225000000000.00006, and 4165601 beside
    a coefficient of 320690891434 may read 4165601.00002, which is no proof of one more. `size` is the largest value
    that the objective can take.
    """
    return math.ceil(proven - max(1e-6, abs(proven) * 2.0**-48, size * 2.0**-48))


def _size(model: cp_model.CpModel) -> float:
    """The most that the terms of the objective can sum to, whatever their signs."""
    priced = zip(model.proto.objective.vars, model.proto.objective.coeffs, strict=True)
    ends = ((coefficient, list(model.proto.variables[index].domain)) for index, coefficient in priced)
    return float(sum(abs(coefficient) * max(map(abs, domain)) for coefficient, domain in ends))


def _exactly(model: cp_model.CpModel, values: Sequence[int]) -> int | None:
    """The objective of a solution in whole numbers: what is optimal is its own bound, which a float rounds."""
    objective, found = model.proto.objective, list(values)
    whole = float(objective.offset).is_integer() and abs(objective.offset) < 2.0**52
    if not whole or not objective.vars or objective.scaling_factor not in (0, 1):
        return None
    return int(objective.offset) + sum(
        int(c) * found[index] for index, c in zip(objective.vars, objective.coeffs, strict=True)
    )


def _within_domains(model: cp_model.CpModel, values: Sequence[int]) -> bool:
    """Whether every value lies between the ends of its variable's domain."""
    domains = [variable.domain for variable in model.proto.variables]
    ends = [(domain[0], domain[len(domain) - 1]) for domain in domains]  # a domain takes no negative places
    low, high = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    found = np.array(list(values), dtype=np.int64)
    return found.shape == low.shape and bool(((found >= low) & (found <= high)).all())


def minimise(
    model: cp_model.CpModel,
    budget: Budget,
    *,
    seed: int = 0,
    threads: int = 1,
    report: Callable[[float, float], None] | None = None,
    **parameters: Any,
) -> CpSatResult:
    """Run CP-SAT; returns the solver (values, bound) and the termination.

    With one thread, the default, a run that ends by proof repeats itself exactly.

    Returns
    -------
    CpSatResult
    """
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = int(seed) % 2**31
    solver.parameters.num_workers = threads
    # With it, OR-Tools 9.15 proves wrong optima on models whose coefficients differ by many orders of magnitude: seen
    # on about 2 % of small random allocations with three nodes, never without (tests/solvers/test_allocation_exact.py).
    solver.parameters.presolve_inclusion_work_limit = 0
    # With symmetries it calls models with an answer infeasible, by what probing fixes in presolve (tests/rules/test_rules.py).
    solver.parameters.symmetry_level = 0
    solver.parameters.catch_sigint_signal = False  # the budget receives Ctrl-C
    solver.parameters.max_time_in_seconds = min(max(budget.clock, 0.0), 1e9)
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    if budget.counts_work:
        most = min(solver.parameters.max_deterministic_time, budget.remaining)
        solver.parameters.max_deterministic_time = max(most, LOOK)
    callback = _Reporter(report)
    try:
        # CP-SAT looks at its limits while it searches; deep in presolve it may not, and is abandoned after this many
        # seconds.
        status = int(
            until_limit(
                budget if budget.remaining > 0 else budget.anew(0.1), solver.solve, model, callback,
                stop=solver.stop_search, grace=0.5,
            )
        )  # fmt: skip
    except LimitReached:
        known = whole_bound(callback.proven, _size(model))
        return CpSatResult(_Left(callback), callback.found is not None, budget.why, known)
    budget.spend(solver.response_proto.deterministic_time / STEP)
    if status == int(cp_model.MODEL_INVALID):
        raise InputError(f"CP-SAT refuses the model, whose numbers must fit 64 bits: {model.validate().split(':')[0]}")
    found = status in (int(cp_model.OPTIMAL), int(cp_model.FEASIBLE))
    if found and not _within_domains(model, solver.response_proto.solution):
        return CpSatResult(solver, False, "gap", whole_bound(NOTHING_PROVEN))
    # CP-SAT leaves early when its next look at the clock would come too late.
    timed = math.isfinite(budget.time_limit) and solver.wall_time > 0.5 * solver.parameters.max_time_in_seconds
    ended = _ENDED.get(status) or budget.ended("time_limit" if timed else "gap")
    proven = _exactly(model, solver.response_proto.solution) if found and ended == "optimal" else None
    known = whole_bound(solver.best_objective_bound, _size(model)) if proven is None else proven
    return CpSatResult(solver, found, ended, known)

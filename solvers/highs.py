"""HiGHS: a Pyomo model in, an anytime result with a bound out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import highspy
import numpy as np
import pyomo.environ as pyo
import scipy.sparse as sp
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from keyshift.models import Answer, Budget
from keyshift.models.answer import Termination
from keyshift.models.workload import IntArray
from keyshift.solvers.safe_bounds import LinearProgram, dual_bound

POLL_SECONDS = 0.05
_ENDED: dict[highspy.HighsModelStatus, Termination] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",  # our variables are bounded
    highspy.HighsModelStatus.kTimeLimit: "time_limit",
    highspy.HighsModelStatus.kInterrupt: "interrupted",
}


@dataclass
class HighsResult:
    """Column values (None without an incumbent), HiGHS's own dual bound, and why it stopped."""

    values: np.ndarray | None
    bound: float
    termination: Termination
    nodes: int
    row_duals: np.ndarray | None = None


class PyomoStatement(Protocol):
    """What a problem's Pyomo statement offers: a model, and the way from an assignment to its variables and back."""

    model: Any

    def set_start(self, assignment: IntArray) -> None: ...
    def assignment(self) -> IntArray: ...


def solve(
    statement: PyomoStatement,
    budget: Budget,
    start: IntArray | None = None,
    *,
    bound: Callable[[float], float | None],
    infeasible: str,
    **settings: Any,
) -> Answer:
    """Run HiGHS on a statement, and answer the problem that it states.

    Parameters
    ----------
    statement : PyomoStatement
    budget : Budget
    start : ndarray, optional
        The assignment to begin from, and to hand back where HiGHS finds none.
    bound : callable
        Turns HiGHS's dual bound, which may be infinite, into one on the problem's objective that tolerances spare.
    infeasible : str
        What HiGHS proves when it finds the model infeasible.
    **settings
        As for `minimise`.
    """
    if start is not None:
        statement.set_start(start)
    result = minimise_model(statement.model, budget, warm=start is not None, **settings)
    if result.termination == "infeasible":
        return Answer(None, termination="infeasible", message=f"HiGHS proves that {infeasible}")
    found = start if result.values is None else statement.assignment()
    return Answer(found, bound(result.bound), result.termination, details={"nodes": result.nodes})


def minimise_model(model: pyo.ConcreteModel, budget: Budget, *, warm: bool = False, **settings: Any) -> HighsResult:
    """Run HiGHS on a linear Pyomo model, `warm` from its variables' values, and leave in them what it finds."""
    program, columns = compile_model(model)
    held = np.array([v.value for v in columns], dtype=float)
    result = minimise(program, budget, start=held if warm and np.isfinite(held).all() else None, **settings)
    if result.values is not None:
        for column, value in zip(columns, result.values, strict=True):
            column.set_value(value, skip_validation=True)
    return result


def compile_model(model: pyo.ConcreteModel) -> tuple[LinearProgram, list[pyo.Var]]:
    """Turn a linear Pyomo model into matrices; the second result says which variable each column is."""
    form = LinearStandardFormCompiler().write(model, mixed_form=True)
    kinds = np.array([row.bound_type for row in form.rows])
    rhs = np.asarray(form.rhs, dtype=float)
    program = LinearProgram(
        cost=np.asarray(form.c.todense(), dtype=float).ravel(),
        offset=float(form.c_offset[0]),
        matrix=sp.csr_array(form.A),
        row_lower=np.where(kinds >= 0, np.where(kinds == 1, -np.inf, rhs), rhs),
        row_upper=np.where(kinds <= 0, np.where(kinds == -1, np.inf, rhs), rhs),
        column_lower=np.array([v.lb for v in form.columns], dtype=float),
        column_upper=np.array([v.ub for v in form.columns], dtype=float),
        integer=np.array([not v.is_continuous() for v in form.columns]),
    )
    return program, list(form.columns)


def minimise(
    program: LinearProgram,
    budget: Budget,
    *,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
    relax: bool = False,
    report: Callable[[float, float], None] | None = None,
    options: Mapping[str, float] | None = None,
) -> HighsResult:
    """Run HiGHS until it proves an optimum or the budget ends.

    One thread by default: with more, which of several optima comes back may differ from run to run.
    """
    highs = highspy.Highs()
    for option, value in {
        "output_flag": False,
        "random_seed": int(seed) % 2**31,
        "threads": threads,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": 1e-8,  # also how near to the incumbent HiGHS prunes
        "primal_feasibility_tolerance": 1e-8,
        "time_limit": min(budget.remaining, 1e9),
        **(options or {}),
    }.items():
        highs.setOptionValue(option, value)
    highs.passModel(_model(program, relax))
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = start.tolist()
        highs.setSolution(known)
    _watch(highs, budget, report)
    _run(highs, budget)
    return _result(highs, budget, is_mip=not relax and bool(program.integer.any()))


def _model(program: LinearProgram, relax: bool) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = program.matrix.shape
    lp.col_cost_ = program.cost
    lp.offset_ = program.offset
    lp.col_lower_, lp.col_upper_ = program.column_lower, program.column_upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    columns = sp.csc_array(program.matrix)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = columns.indptr, columns.indices, columns.data
    if not relax:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in program.integer]
    return lp


def _watch(highs: highspy.Highs, budget: Budget, report: Callable[[float, float], None] | None) -> None:
    """Let the budget stop HiGHS from within, and pass its progress on."""

    def stop(event: object) -> None:
        event.data_in.user_interrupt = budget.expired  # type: ignore[attr-defined]
        data = event.data_out  # type: ignore[attr-defined]
        if report is not None and abs(data.mip_primal_bound) < 1e30:
            report(data.mip_primal_bound, data.mip_dual_bound)

    def stop_quietly(event: object) -> None:
        event.data_in.user_interrupt = budget.expired  # type: ignore[attr-defined]

    highs.cbMipInterrupt.subscribe(stop)
    highs.cbSimplexInterrupt.subscribe(stop_quietly)
    highs.cbIpmInterrupt.subscribe(stop_quietly)


def _run(highs: highspy.Highs, budget: Budget) -> None:
    """Run in a thread of its own: the main thread must stay free to take Ctrl-C and mark the budget."""
    if budget.expired:
        return
    worker = threading.Thread(target=highs.run, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(POLL_SECONDS)


def _result(highs: highspy.Highs, budget: Budget, is_mip: bool) -> HighsResult:
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    solution = highs.getSolution()
    termination = _ENDED.get(highs.getModelStatus(), budget.why)
    return HighsResult(
        values=np.array(solution.col_value) if found else None,
        bound=float(info.mip_dual_bound) if is_mip else -np.inf,
        termination=budget.why if termination in ("interrupted", "time_limit") else termination,
        nodes=int(max(info.mip_node_count, 0)),
        row_duals=np.array(solution.row_dual) if solution.dual_valid else None,
    )


def relaxation_bound(program: LinearProgram, budget: Budget, seed: int = 0) -> tuple[float | None, Termination]:
    """A safe lower bound from the LP relaxation, and why HiGHS stopped."""
    result = minimise(program, budget, seed=seed, relax=True)
    if result.termination == "infeasible" or result.row_duals is None:
        return None, result.termination
    return dual_bound(program, result.row_duals), result.termination

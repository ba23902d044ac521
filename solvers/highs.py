"""Linear programs, with and without whole variables: a Pyomo model in, an anytime result with a bound out.

HiGHS runs them; it stands behind one class, `Highs`, and `solved_by` puts another `LinearSolver` in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import highspy
import numpy as np
import scipy.sparse as sp

from keyshift.models import Answer, Budget, Problem
from keyshift.models.answer import HIGHS_ERROR, STEP, LimitReached, Termination
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.integers import Scaled, scaled
from keyshift.models.base.lazily import load
from keyshift.models.base.pyomo import errors, pyo, standard_form
from keyshift.models.errors import InputError
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import NO_ASSIGNMENT, too_large, within, within_bounds
from keyshift.solvers.safe_bounds import LinearProgram, Units, dual_bound, in_units, without_small
from keyshift.solvers.threads import until_limit

CONFIRMED, FEW_NODES = 300, 100
"""Programs of so many columns, proven within so many nodes, are proven again in other ways."""
OTHERWISE: tuple[dict[str, float | str], ...] = ({"presolve_rule_off": 0}, {"presolve": "off"})
"""With all rules; and, where coefficients lie a factor of 1e5 apart, without presolve. Each way HiGHS errs at times: without it
on rows that are nearly parallel (tests/solvers/test_mclb.py), with it on limits that are just attained
(tests/solvers/test_scales.py)."""
AT_ROOT, IN_TREE = 150, 30
"""Steps of search that take as long as HiGHS between two callbacks, for each row and column: it does not tell its iterations."""
_ENDED: dict[highspy.HighsModelStatus, Termination] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",  # our variables are bounded
}


@dataclass
class LinearResult:
    """Column values (None without an incumbent), a lower bound, and why the solver stopped; in the units of the program given.

    Attributes
    ----------
    values : ndarray or None
    bound : float
        Of a solver, what it calls proven. Of `minimise`, that less its `error_bound`, rounded up to the next value that can occur
        where the objective is a sum of whole multiples of something. -inf for a relaxation, whose bound is
        `safe_bounds.dual_bound` of `row_duals`.
    termination : str
        "gap" where the solver gave up by itself.
    nodes : int
    row_duals : ndarray or None
        Multipliers of the rows of a relaxation, >= 0 where a row holds the objective up from below.
    error_bound : float
        How far the solver's tolerances may have put its bound on the wrong side.
    implausible : bool
        Whether the solver gave values outside their bounds: then nothing of the run is used.
    """

    values: np.ndarray | None
    bound: float
    termination: Termination
    nodes: int = 0
    row_duals: np.ndarray | None = None
    error_bound: float = 0.0
    implausible: bool = False


class LinearSolver(Protocol):
    """Something that solves linear programs, with and without whole variables."""

    def run(
        self,
        program: LinearProgram,
        budget: Budget,
        *,
        seed: int,
        start: np.ndarray | None,
        threads: int,
        report: Callable[[float, float], None] | None,
        options: Mapping[str, float | str],
    ) -> LinearResult:
        """Minimise a program whose numbers are near 1.

        It may ignore the `start`, a feasible point; the `report`, which takes a value and a bound while it runs; and
        `options`, which are HiGHS's. It keeps the budget.
        """
        ...


class PyomoStatement(Protocol):
    """A problem's Pyomo statement: a model, and the way from an assignment to its variables and back."""

    model: Any

    def set_start(self, assignment: IntArray) -> None: ...
    def assignment(self) -> IntArray: ...
    def bound(self, proven: float) -> float | None: ...


def solve(
    statement: PyomoStatement,
    budget: Budget,
    start: IntArray | None = None,
    *,
    infeasible: str = NO_ASSIGNMENT,
    bound: Callable[[float], float | None] | None = None,
    **settings: Any,
) -> Answer:
    """Run HiGHS on a statement, and answer the problem that it states, with the statement's own safe bound.

    Parameters
    ----------
    statement : PyomoStatement
    budget : Budget
    start : ndarray, optional
        The assignment to begin from, and to hand back where HiGHS finds none.
    infeasible : str
        What HiGHS proves when it finds the model infeasible.
    bound : callable, optional
        Turns the bound of a `LinearResult`, which may be infinite, into one on the problem's objective; by default the
        statement's own.
    **settings
        As for `minimise`.
    """
    if start is not None:
        statement.set_start(start)
    nothing = Answer(None, termination="infeasible", message=f"{solver_name()} proves that {infeasible}")
    try:
        compiled = within(budget, lambda: compile_model(statement.model), statement.model.nvariables())
    except errors.InfeasibleConstraintException:  # a row of fixed variables
        return nothing
    safe = bound or statement.bound
    if compiled is None:
        return Answer(start, safe(-np.inf), budget.why)
    program, columns = compiled
    held = np.array([v.value for v in columns], dtype=float)
    known = held if start is not None and np.isfinite(held).all() else None
    result = minimise(program, budget, start=known, **settings)
    if result.termination == "infeasible":
        return nothing
    if result.row_duals is not None and not program.integer.any():  # nothing is left open but the order of sums
        result.bound = dual_bound(program, result.row_duals)
    if result.values is not None:
        write_back(columns, result.values)
    found = start if result.values is None else statement.assignment()
    return Answer(found, safe(result.bound), result.termination, details={"nodes": result.nodes})


def write_back(columns: list[pyo.Var], values: np.ndarray) -> None:
    """Give a model's variables the values of their columns."""
    for column, value in zip(columns, values, strict=True):
        column.set_value(value, skip_validation=True)


def compile_model(model: pyo.ConcreteModel) -> tuple[LinearProgram, list[pyo.Var]]:
    """Turn a linear Pyomo model into matrices; the second result says which variable each column is."""
    program, columns, _ = compile_rows(model)
    return program, columns


def compile_rows(model: pyo.ConcreteModel) -> tuple[LinearProgram, list[pyo.Var], list[pyo.Constraint]]:
    """As `compile_model`; the third result says which constraint each row is, a range being two."""
    form = standard_form.LinearStandardFormCompiler().write(model, mixed_form=True)
    kinds = np.array([row.bound_type for row in form.rows])
    rhs = np.asarray(form.rhs, dtype=float)
    program = LinearProgram(
        cost=np.asarray(form.c.todense(), dtype=float).ravel(),
        offset=float(form.c_offset[0]),
        matrix=sp.csr_array(form.A),
        row_lower=np.where(kinds >= 0, np.where(kinds == 1, -np.inf, rhs), rhs),
        row_upper=np.where(kinds <= 0, np.where(kinds == -1, np.inf, rhs), rhs),
        column_lower=np.array([-np.inf if v.lb is None else v.lb for v in form.columns], dtype=float),
        column_upper=np.array([np.inf if v.ub is None else v.ub for v in form.columns], dtype=float),
        integer=np.array([not v.is_continuous() for v in form.columns]),
    )
    return program, list(form.columns), [row.constraint for row in form.rows]


def minimise(
    program: LinearProgram,
    budget: Budget,
    *,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
    relax: bool = False,
    report: Callable[[float, float], None] | None = None,
    options: Mapping[str, float | str] | None = None,
) -> LinearResult:
    """Run HiGHS, in units that suit its tolerances, until it proves an optimum or the budget ends.

    One thread by default: with more, which of the optima comes back may differ from run to run. What `report` is
    told is HiGHS's word, in the program's units.

    Raises
    ------
    InputError
        Where numbers of one row lie too far apart for HiGHS.
    """
    made, units = in_units(program)
    # HiGHS drops coefficients up to this.
    made = without_small(made, float((options or {}).get("small_matrix_value", 1e-9)))
    if relax:
        made = replace(made, integer=np.zeros_like(made.integer))
    told = None if report is None else lambda value, bound: report(value * units.objective, bound * units.objective)
    result = _solvers[-1].run(
        made, budget, seed=seed, start=None if start is None else units.start(start), threads=threads, report=told,
        options=options or {},
    )  # fmt: skip
    result.bound = _safe(program, units, result.bound, result.error_bound)
    settled = options is not None and "presolve" in options
    if start is not None and not settled and not budget.expired and _disproved(program, result, start):
        # Its presolve errs on coefficients as small as 1e-12, or as near to others as 1e-9.
        again = {**(options or {}), "presolve": "off"}
        return minimise(
            program, budget, seed=seed, start=start, threads=threads, relax=relax, report=report, options=again
        )
    if result.values is not None:
        result.values = units.values(result.values)
    if result.row_duals is not None:
        result.row_duals = units.row_duals(result.row_duals)
    return result


def _disproved(program: LinearProgram, result: LinearResult, start: np.ndarray) -> bool:
    """Whether a known start shows that HiGHS errs: it calls the program infeasible, or its bound lies above the start."""
    value = float(program.cost @ start) + program.offset
    return result.termination == "infeasible" or result.bound > value + 1e-9 * abs(value)


def _safe(program: LinearProgram, units: Units, proven: float, error_bound: float) -> float:
    """A bound in the program's units that the solver's tolerances spare."""
    if not np.isfinite(proven):
        return -np.inf
    bound = (proven - error_bound) * units.objective
    whole = _whole_objective(program)
    # A bound is rounded up to a whole number only if its error bound is below this share of one unit.
    if whole is None or error_bound * units.objective >= 0.25 * whole.unit:
        return bound
    return whole.lower(math.ceil((Fraction(bound) - Fraction(program.offset)) * whole.scale)) + program.offset


def _whole_objective(program: LinearProgram) -> Scaled | None:
    """The objective's coefficients in the largest unit that divides them; None unless integer columns carry it all."""
    priced = (program.cost != 0) & ((program.column_lower != 0) | (program.column_upper != 0))
    if not priced.any() or not program.integer[priced].all():
        return None
    coefficients = scaled(np.unique(np.abs(program.cost[priced])), bits=52)
    return coefficients.coarsest() if coefficients.exact else None


class Highs:
    """HiGHS, one thread of which is a thread of its own here: see `_Run`."""

    name: ClassVar[str] = "HiGHS"

    def run(
        self,
        program: LinearProgram,
        budget: Budget,
        *,
        seed: int,
        start: np.ndarray | None,
        threads: int,
        report: Callable[[float, float], None] | None,
        options: Mapping[str, float | str],
    ) -> LinearResult:
        """As `LinearSolver` says."""
        # Presolve's rules for equations of two columns and for substituting columns: with them HiGHS 1.13 proves wrong
        # optima where coefficients or limits are nearly equal, or costs lie far apart (tests/solvers/test_scales.py).
        settings: dict[str, float | str] = {
            "output_flag": False,
            "random_seed": int(seed) % 2**31,
            "threads": threads,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 0.0,
            # HiGHS may also leave what lies this little below its incumbent unexplored: it is taken off every bound.
            "mip_feasibility_tolerance": 1e-8,
            "primal_feasibility_tolerance": 1e-8,
            "presolve_rule_off": (1 << 9 | 1 << 12),
            **options,
        }
        result = _run(program, budget, settings, start, report)
        small = program.integer.any() and program.integer.size <= CONFIRMED and result.nodes <= FEW_NODES
        if (small or result.implausible) and "presolve" not in options:
            for other in OTHERWISE if result.implausible or _far_apart(program) else OTHERWISE[:1]:
                if not budget.expired:
                    result = _likelier(result, _run(program, budget, {**settings, **other}, start, report))
        return result


def _run(
    program: LinearProgram,
    budget: Budget,
    settings: Mapping[str, float | str],
    start: np.ndarray | None,
    report: Callable[[float, float], None] | None,
) -> LinearResult:
    highs = highspy.Highs()
    highs.setOptionValue("time_limit", min(budget.clock, 1e9))
    for option, value in settings.items():
        highs.setOptionValue(option, value)
    if highs.passModel(_model(program)) == highspy.HighsStatus.kError:
        said = "HiGHS refuses the model: its numbers differ too much in size, or are too large for a float"
        raise InputError(said)
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = start.tolist()
        highs.setSolution(known)
    run = _Run(highs, budget, report)
    if run.to_the_end():
        result = run.result(bool(program.integer.any()))
        without_callbacks(highs)
    else:
        result = run.left_behind()
    if result.values is not None:
        result.values = within_bounds(result.values, program.column_lower, program.column_upper, program.integer)
        if result.values is None:
            return LinearResult(None, -np.inf, "gap", result.nodes, implausible=True)
    if np.isfinite(result.bound):
        size = max(float(np.abs(program.cost).max(initial=0.0)), abs(result.bound))
        result.error_bound = HIGHS_ERROR * size + float(settings["mip_feasibility_tolerance"])
    return result


def _far_apart(program: LinearProgram) -> bool:
    """Whether coefficients differ by a factor of more than 1e5."""
    size = np.abs(program.matrix.data)
    return bool(size.max(initial=0.0) > 1e5 * size[size > 0].min(initial=np.inf))


def _likelier(first: LinearResult, second: LinearResult) -> LinearResult:
    """The first of two runs on one program, unless it is implausible, or the second has a point that it calls impossible."""
    if first.implausible:
        return second
    impossible = first.termination == "infeasible" or second.bound < first.bound - first.error_bound
    return second if second.termination == "optimal" and impossible else first


_solvers: list[LinearSolver] = [Highs()]
"""The last one is used, in all threads: some of the programs are solved in one of their own."""


@contextmanager
def solved_by(solver: LinearSolver) -> Iterator[None]:
    """Solve this process's linear programs by another solver; column generation, which goes on with a model, keeps HiGHS."""
    _solvers.append(solver)
    try:
        yield
    finally:
        _solvers.pop()


def solver_name() -> str:
    """The solver that runs linear programs now: its `name`, or else its class's."""
    solver = _solvers[-1]
    return str(getattr(solver, "name", type(solver).__name__))


def without_callbacks(highs: highspy.Highs) -> highspy.Highs:
    """A solver that is freed with its last reference: its callbacks refer to it, and such a circle waits for the collector."""
    highs.disableCallbacks()
    highs.callbacks.clear()
    return highs


def _model(program: LinearProgram) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = program.matrix.shape
    lp.col_cost_ = program.cost
    lp.offset_ = program.offset
    lp.col_lower_, lp.col_upper_ = program.column_lower, program.column_upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    columns = sp.csc_array(program.matrix)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = columns.indptr, columns.indices, columns.data
    if program.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in program.integer]
    return lp


class _Run:
    """One run of HiGHS in a thread of its own: the main thread stays free to take Ctrl-C, to mark the budget, to leave.

    A thread that is left behind keeps its `Highs` object, which is not used again; it ends at HiGHS's next look
    at its limits. What it had found by then is kept by the callbacks.
    """

    def __init__(self, highs: highspy.Highs, budget: Budget, report: Callable[[float, float], None] | None) -> None:
        self.highs, self.budget, self.report = highs, budget, report
        self.abandoned = False
        self.values: np.ndarray | None = None
        self.proven = -np.inf
        self.size = highs.getNumRow() + highs.getNumCol()
        highs.cbMipInterrupt.subscribe(self._in_the_tree)
        highs.cbMipImprovingSolution.subscribe(self._improved)
        highs.cbSimplexInterrupt.subscribe(self._stop)
        highs.cbIpmInterrupt.subscribe(self._stop)

    def _stop(self, event: Any) -> None:
        event.data_in.user_interrupt = self.abandoned or self.budget.expired

    def _in_the_tree(self, event: Any) -> None:
        self.budget.spend(self.size * (IN_TREE if event.data_out.mip_node_count > 0 else AT_ROOT))
        self._stop(event)
        if self.abandoned:
            return
        data = event.data_out
        self.proven = max(self.proven, data.mip_dual_bound)
        if self.report is not None and abs(data.mip_primal_bound) < 1e30:
            self.report(data.mip_primal_bound, data.mip_dual_bound)

    def _improved(self, event: Any) -> None:
        if not self.abandoned:
            self.values = np.array(event.data_out.mip_solution)

    def to_the_end(self) -> bool:
        """Run; False if HiGHS did not come back soon after the budget ended."""
        budget = self.budget
        # Presolve looks at no limit but a clock: where work alone is counted, a model far too large for it is not begun.
        if math.isinf(budget.clock) and STEP * AT_ROOT * self.size > 10 * budget.remaining:
            budget.spend(budget.remaining / STEP)
        if budget.expired:
            return True  # it has not begun, and may be asked
        try:
            until_limit(budget, self.highs.run)
        except LimitReached:
            self.abandoned = True
        return not self.abandoned

    def result(self, is_mip: bool) -> LinearResult:
        """The incumbent and the bound of a run that ended, in scaled units."""
        info, solution = self.highs.getInfo(), self.highs.getSolution()
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        timed = self.highs.getModelStatus() == highspy.HighsModelStatus.kTimeLimit
        return LinearResult(
            values=np.array(solution.col_value) if found else self.values,
            bound=float(info.mip_dual_bound) if is_mip else -np.inf,
            termination=_ENDED.get(self.highs.getModelStatus()) or self.budget.ended("time_limit" if timed else "gap"),
            nodes=int(max(info.mip_node_count, 0)),
            row_duals=np.array(solution.row_dual) if solution.dual_valid else None,
        )

    def left_behind(self) -> LinearResult:
        """The incumbent and the bound of a run that was left, from the callbacks alone."""
        proven = self.proven if self.proven < 1e30 else -np.inf
        return LinearResult(self.values, proven, self.budget.why)


def relaxation_bound(
    program: LinearProgram, budget: Budget, seed: int = 0, **settings: Any
) -> tuple[float | None, Termination]:
    """A safe lower bound from the LP relaxation, and why HiGHS stopped."""
    result = minimise(program, budget, seed=seed, relax=True, **settings)
    if result.termination == "infeasible" or result.row_duals is None:
        return None, result.termination
    return dual_bound(program, result.row_duals), result.termination


def relaxed(
    problem: Problem, statement: Any, second: Callable[..., Answer], *, budget: Budget, seed: int = 0, least: float = 0.0,
    **asked: Any,
) -> Answer:  # fmt: skip
    """The linear relaxation of a problem's Pyomo statement by HiGHS, made safe: a bound, no assignment.

    Infeasibility is confirmed by CP-SAT in whole numbers (`second`).

    Notes
    -----
    The bound is weak duality on HiGHS's row multipliers, whatever these are worth (`safe_bounds.dual_bound`).
    """
    if said := too_large(problem):
        return Answer(None, least, message=said)
    with off_clock():
        make = load(statement)
    ended: Termination = "infeasible"
    try:
        program = within(budget, lambda: compile_model(make(problem).model)[0])
    except errors.InfeasibleConstraintException:  # a row of fixed variables
        bound = None
    else:
        if program is None:
            return Answer(None, least, budget.why)
        bound, ended = relaxation_bound(program, budget, seed, **asked)
    if ended == "infeasible":
        if second(problem, budget=budget, seed=seed).termination != "infeasible":
            return Answer(None, least, budget.ended("completed"))
        message = "no assignment meets all limits, not even with divisible key groups"
        return Answer(None, termination="infeasible", message=message)
    return Answer(None, max(least, bound or 0.0), "completed" if ended == "optimal" else ended)

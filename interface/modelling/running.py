"""A model read into matrices, run by HiGHS or by a solver of OR-Tools: common to Pyomo and MathOpt, and MathOpt's own."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from ortools.math_opt.python import mathopt

from keyshift.modelling.additions import Row
from keyshift.modelling.model import Model, Run
from keyshift.modelling.program import (
    NamedProgram,
    distinct,
    lp_lines,
    mps_lines,
    program_algebra,
    write_nl,
    write_text,
)
from keyshift.models import Budget, InputError
from keyshift.models.answer import SCIP_SMALL
from keyshift.solvers import highs
from keyshift.solvers import mathopt as mathopt_solvers
from keyshift.solvers.safe_bounds import LinearProgram, Units, dual_bound, in_units, without_small

if TYPE_CHECKING:
    from keyshift.models.base.pyomo import pyo


class LinearModel(Model):
    """A `Model` that is read into matrices: Pyomo's and MathOpt's."""

    suffixes: ClassVar[tuple[str, ...]] = (".mps", ".lp", ".nl")
    beyond: ClassVar[str] = ""
    """The way out for what no matrix holds, said where a file is refused."""

    @abstractmethod
    def program(self) -> NamedProgram:
        """The model's matrices.

        Raises
        ------
        InputError
            Where it has something that no matrix holds.
        """

    @abstractmethod
    def _hold(self, values: dict[str, float]) -> np.ndarray:
        """Keep the values of all variables as a start, and return the assignment in them."""

    @abstractmethod
    def _write_nl(self, path: Path) -> None: ...

    def algebra(self, every: bool = False) -> str:
        """The model in readable form, in lines of 80 columns: the first rows of each family, or `every` row."""
        return program_algebra(self.program(), every)

    def _fingerprint(self) -> str:
        return self.program().fingerprint()

    def _extends(self, fresh: Self) -> bool:
        return self.program().extends(fresh.program())

    def _added_rows(self, fresh: Self) -> list[Row]:
        mine, stated = self.program(), fresh.program()
        known = {(name, frozenset(terms)) for name, terms, _, _ in stated.terms()}
        rows = [
            Row({v: f for f, v in terms}, low, high)
            for name, terms, low, high in mine.terms()
            if (name, frozenset(terms)) not in known
        ]
        boxes = [
            dict(zip(p.columns, np.stack([p.linear.column_lower, p.linear.column_upper], 1).tolist(), strict=True))
            for p in (mine, stated)
        ]
        return rows + [Row({name: 1.0}, *box) for name, box in boxes[0].items() if boxes[1].get(name, box) != box]

    def _near(self, fixed: Mapping[str, float], budget: Budget, seed: int) -> np.ndarray | None:
        program = self.program()
        at = np.array([fixed.get(name, np.nan) for name in program.columns])
        p, free = program.linear, np.isnan(at)
        if ((at < p.column_lower) | (at > p.column_upper)).any() or program.squares:
            return None
        p = replace(p, column_lower=np.where(free, p.column_lower, at), column_upper=np.where(free, p.column_upper, at))
        _, values = by_highs(replace(program, linear=p), budget, seed, None)
        return None if values is None else self._hold(program.values(values))

    def _write(self, path: Path) -> None:
        if path.suffix == ".nl":
            self._write_nl(path)
            return
        try:
            program = self.program()
        except InputError as error:
            raise InputError(f"{path}: {error}{self.beyond}") from None
        write_text(path, (mps_lines if path.suffix == ".mps" else lp_lines)(program))


def by_highs(
    program: NamedProgram, budget: Budget, seed: int, start: np.ndarray | None
) -> tuple[Run, np.ndarray | None]:
    """HiGHS as all of keyshift runs it: in units that suit its tolerances, its bound made safe."""
    linear, name = program.linear, highs.solver_name()
    name = "highs" if name == "HiGHS" else name  # `solved_by` has put another in its place
    if not program.columns:  # nothing is left to decide, and HiGHS does not begin
        return Run(name, True, linear.offset, "optimal", True), np.zeros(0)
    result = highs.minimise(linear, budget, seed=seed, start=start, relax=not program.whole)
    if result.termination == "infeasible":  # presolve has said so of rows of one's own that an answer keeps
        run, values = by_mathopt(program, "scip", budget, seed)
        if values is not None:
            return run, values
    details: dict[str, Any] = {"nodes": result.nodes} if program.whole else {}
    proven = result.bound if math.isfinite(result.bound) else None
    if not program.whole and result.row_duals is not None:
        proven = dual_bound(linear, result.row_duals)
        details |= _marginals(program, result.values, result.row_duals)
    return Run(name, result.values is not None, proven, result.termination, True, details), result.values


def by_mathopt(
    program: NamedProgram, solver: str, budget: Budget, seed: int,
    native: tuple[mathopt.Model, list[mathopt.Variable]] | None = None, hints: list[mathopt.SolutionHint] | None = None,
) -> tuple[Run, np.ndarray | None]:  # fmt: skip
    """A solver of OR-Tools on the program, or on the model that it was read from, with that one's variables in their order."""
    made, units = (program, None) if native is not None else _in_units(program)
    model, columns = to_mathopt(made) if native is None else native
    result = mathopt_solvers.run(model, solver, budget, seed=seed, hints=hints)
    values = None
    if result is not None and result.has_primal_feasible_solution():
        held = result.variable_values()
        values = np.array([held[column] for column in columns], dtype=float)
        values = values if units is None else units.values(values)
    return _from_solver(program, solver, budget, result, values, units), values


def _in_units(program: NamedProgram) -> tuple[NamedProgram, Units]:
    """The same program in units that suit a solver's tolerances: `solvers.safe_bounds`."""
    linear, units = in_units(program.linear)
    worth = (units.columns / units.objective).tolist(), units.columns.tolist()
    squares = {(a, b): factor * worth[0][a] * worth[1][b] for (a, b), factor in program.squares.items()}
    return replace(program, linear=without_small(linear, SCIP_SMALL), squares=squares), units


def _from_solver(
    program: NamedProgram, solver: str, budget: Budget, result: mathopt.SolveResult | None, values: np.ndarray | None,
    units: Units | None,
) -> Run:  # fmt: skip
    """The run of a solver of OR-Tools; for a linear program, its multipliers give a bound that does not rest on its word."""
    if result is None:
        return Run(solver, False, None, budget.why)
    proven: float | None = result.termination.objective_bounds.dual_bound * (1.0 if units is None else units.objective)
    details: dict[str, Any] = {}
    safe = not program.whole and not program.squares and bool(result.solutions) and result.has_dual_feasible_solution()
    if safe:
        duals = np.array(list(result.dual_values().values()), dtype=float)
        duals = duals if units is None else units.row_duals(duals)
        proven = dual_bound(program.linear, duals)
        details |= _marginals(program, values, duals)
    if not program.whole and program.squares and values is not None:
        below = _below_squares(program, values, budget)
        proven, safe = (proven, False) if below is None else (below, True)
        details["values"] = program.values(values)
    ended = mathopt_solvers.ended(result, budget)
    return Run(solver, values is not None, proven, ended, safe, details)


def _below_squares(program: NamedProgram, at: np.ndarray, budget: Budget) -> float | None:
    """A bound on a program of squares from any point: its tangent there lies below, and is linear."""
    if any(a != b or factor < 0 for (a, b), factor in program.squares.items()):
        return None
    cost, offset = program.linear.cost.copy(), program.linear.offset
    for (j, _), factor in program.squares.items():
        cost[j] += 2 * factor * at[j]
        offset -= factor * float(at[j]) ** 2
    tangent = replace(program.linear, cost=cost, offset=offset)
    bound, _ = highs.relaxation_bound(tangent, budget)
    return bound


def to_mathopt(program: NamedProgram) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    """The same program as a MathOpt model, and its variables column by column."""
    p = program.linear
    model = mathopt.Model(name=program.name)
    boxes = zip(p.column_lower.tolist(), p.column_upper.tolist(), p.integer.tolist(), strict=True)
    columns = [model.add_variable(lb=low, ub=high, is_integer=whole) for low, high, whole in boxes]
    matrix = sp.csr_array(p.matrix)
    ends, at, factors = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    for r, (low, high) in enumerate(zip(p.row_lower.tolist(), p.row_upper.tolist(), strict=True)):
        row = model.add_linear_constraint(lb=low, ub=high)
        for e in range(ends[r], ends[r + 1]):
            row.set_coefficient(columns[at[e]], factors[e])
    model.objective.offset = p.offset
    for column, cost in zip(columns, p.cost.tolist(), strict=True):
        model.objective.set_linear_coefficient(column, cost)
    for (a, b), factor in program.squares.items():
        model.objective.set_quadratic_coefficient(columns[a], columns[b], factor)
    return model, columns


def _marginals(program: NamedProgram, values: np.ndarray | None, duals: np.ndarray) -> dict[str, Any]:
    """Values, multipliers and reduced costs, by name."""
    reduced = program.linear.cost - sp.csr_array(program.linear.matrix).T @ duals
    made: dict[str, Any] = {"duals": program.multipliers(duals), "reduced_costs": program.values(reduced)}
    return made if values is None else {**made, "values": program.values(values)}


# A model in MathOpt, opened -------------------------------------------------------------------------------------------


class OpenedMathOpt(LinearModel):
    """`Model` for MathOpt: HiGHS through keyshift, SCIP, CP-SAT, GLOP and PDLP through OR-Tools."""

    _hint: Any = None
    _values: Any = None
    """The variables' values in the last run that found some."""

    @property
    def size(self) -> str:
        """How many variables and constraints it has, in words."""
        return f"{self.native.get_num_variables()} variables, {self.native.get_num_linear_constraints()} constraints"

    def names(self) -> list[str]:
        """The names of all variables, as files have them."""
        return [self.name_in_files(v.name) for v in self.native.variables()]

    def program(self) -> NamedProgram:
        """The model's matrices; `InputError` where it has something that no matrix holds."""
        proto = self.native.export_model()
        for what in ("quadratic_constraints", "second_order_cone_constraints", "sos1_constraints", "sos2_constraints",
                     "indicator_constraints"):  # fmt: skip
            if len(getattr(proto, what)):
                raise InputError(f"the model has {what.replace('_', ' ')}, which matrices cannot express")
        if proto.objective.maximize:
            raise InputError("the model maximises: write it as a minimum")
        v, c, entries, goal = proto.variables, proto.linear_constraints, proto.linear_constraint_matrix, proto.objective
        cost = np.zeros(len(v.ids))
        cost[np.searchsorted(v.ids, goal.linear_coefficients.ids)] = goal.linear_coefficients.values
        squares = goal.quadratic_coefficients
        pairs = np.searchsorted(v.ids, [squares.row_ids, squares.column_ids]).T.tolist()
        factors = np.array(entries.coefficients, dtype=float)
        places = np.searchsorted(c.ids, entries.row_ids), np.searchsorted(v.ids, entries.column_ids)
        linear = LinearProgram(
            cost=cost,
            offset=goal.offset,
            matrix=sp.csr_array((factors, places), shape=(len(c.ids), len(v.ids))),
            row_lower=np.array(c.lower_bounds, dtype=float),
            row_upper=np.array(c.upper_bounds, dtype=float),
            column_lower=np.array(v.lower_bounds, dtype=float),
            column_upper=np.array(v.upper_bounds, dtype=float),
            integer=np.array(v.integers, dtype=bool),
        )
        return NamedProgram(
            self.problem.name, linear, dict(zip(map(tuple, pairs), squares.coefficients, strict=True)),
            *([self.name_in_files(name) for name in _names(kind, of)] for kind, of in (("variable", v), ("constraint", c))),
        )  # fmt: skip

    def _fingerprint(self) -> str:
        return hashlib.sha256(self.native.export_model().SerializeToString(deterministic=True)).hexdigest()

    def _set_start(self, assignment: np.ndarray) -> None:
        self._hint = self.statement.hint(assignment)
        self._values = None

    def _hold(self, values: dict[str, float]) -> np.ndarray:
        by_name = {v: values[self.name_in_files(v.name)] for v in self.native.variables()}
        self._hint = mathopt.SolutionHint(variable_values=by_name)
        return np.asarray(self.statement.assignment(by_name))

    def _relaxed(self) -> Any:
        made = mathopt.Model.from_model_proto(self.native.export_model())
        for variable in made.variables():
            variable.integer = False
        return made

    def _write_nl(self, path: Path) -> None:
        program = self.program()
        rows, columns = distinct(program.rows), distinct(program.columns)
        write_nl(to_pyomo(program), path, lambda c: rows[c.index()], lambda v: columns[v.index()])

    def _run(self, solver: str | None, budget: Budget, seed: int) -> Run:
        program, hint, variables = self.program(), self._hint, list(self.native.variables())
        solver = solver or program.fitting_solver
        if solver == "highs":
            if program.squares:
                raise InputError("highs does not take squares here; there is scip")
            whole = hint is not None and all(v in hint.variable_values for v in variables)
            start = np.array([hint.variable_values[v] for v in variables], dtype=float) if whole else None
            run, values = by_highs(program, budget, seed, start)
        elif solver in mathopt_solvers.SOLVERS:
            hints = [] if hint is None else [hint]
            run, values = by_mathopt(program, solver, budget, seed, (self.native, variables), hints)
        else:
            there = ", ".join(["highs", *mathopt_solvers.SOLVERS])
            raise InputError(f"the solver {solver!r} is not on this machine; there are {there}")
        self._values = None if values is None else dict(zip(variables, values.tolist(), strict=True))
        return run

    def _read(self, values: Any) -> np.ndarray:
        if values is None and self._taken is not None:
            return self._taken
        if isinstance(values, dict) and all(isinstance(name, str) for name in values):
            by_name = {self.name_in_files(v.name): v for v in self.native.variables()}
            self._require_known(values, by_name)
            values = {v: float(values.get(name, 0.0)) for name, v in by_name.items()}
        elif values is not None and not isinstance(values, dict):
            values = values.variable_values()
        known = self._values if values is None else values
        if known is None:
            raise InputError("this model has not been solved yet: give the SolveResult")
        return np.asarray(self.statement.assignment(known))


def _names(kind: str, of: Any) -> list[str]:
    """Names of the variables or the constraints, their numbers where they have none."""
    names = of.names or [""] * len(of.ids)
    return [name or f"{kind}[{number}]" for name, number in zip(names, of.ids, strict=True)]


def to_pyomo(program: NamedProgram) -> pyo.ConcreteModel:
    """The same program as a Pyomo model: x numbered by column, row by row."""
    from keyshift.models.base.pyomo import pyo

    p, m = program.linear, pyo.ConcreteModel(name=program.name)
    boxes = list(zip(p.column_lower.tolist(), p.column_upper.tolist(), strict=True))
    whole = p.integer.tolist()
    m.x = pyo.Var(
        range(len(boxes)), domain=lambda m, j: pyo.Integers if whole[j] else pyo.Reals, bounds=lambda m, j: boxes[j]
    )
    place = {name: j for j, name in enumerate(program.columns)}
    rows = [(pyo.quicksum(f * m.x[place[n]] for f, n in terms), low, high) for _, terms, low, high in program.terms()]
    m.row = pyo.Constraint(range(len(rows)), rule=lambda m, r: (rows[r][1], rows[r][0], rows[r][2]))
    squares = (factor * m.x[a] * m.x[b] for (a, b), factor in program.squares.items())
    costs = (c * m.x[j] for j, c in enumerate(p.cost.tolist()) if c)
    m.objective = pyo.Objective(expr=pyo.quicksum(costs) + pyo.quicksum(squares) + p.offset)
    return m

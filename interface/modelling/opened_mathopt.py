"""A model in MathOpt, opened."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from ortools.math_opt.python import mathopt

from keyshift.modelling import running
from keyshift.modelling.model import Run
from keyshift.modelling.program import NamedProgram, distinct, write_nl
from keyshift.models import Budget, InputError
from keyshift.solvers import mathopt as by_mathopt
from keyshift.solvers.safe_bounds import LinearProgram

if TYPE_CHECKING:
    from keyshift.models.pyomo import pyo


class OpenedMathOpt(running.LinearModel):
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
        return [v.name for v in self.native.variables()]

    def program(self) -> NamedProgram:
        """The model's matrices; `InputError` where it has something that no matrix holds."""
        proto = self.native.export_model()
        for what in ("quadratic_constraints", "second_order_cone_constraints", "sos1_constraints", "sos2_constraints",
                     "indicator_constraints"):  # fmt: skip
            if len(getattr(proto, what)):
                raise InputError(f"the model has {what.replace('_', ' ')}, which no matrix holds")
        if proto.objective.maximize:
            raise InputError("the model maximises: write it as a minimum")
        v, c, entries, goal = proto.variables, proto.linear_constraints, proto.linear_constraint_matrix, proto.objective
        cost = np.zeros(len(v.ids))
        cost[np.searchsorted(v.ids, goal.linear_coefficients.ids)] = goal.linear_coefficients.values
        squares = goal.quadratic_coefficients
        pairs = np.searchsorted(v.ids, [squares.row_ids, squares.column_ids]).T.tolist()
        linear = LinearProgram(
            cost=cost,
            offset=goal.offset,
            matrix=sp.csr_array(
                (
                    np.array(entries.coefficients, dtype=float),
                    (np.searchsorted(c.ids, entries.row_ids), np.searchsorted(v.ids, entries.column_ids)),
                ),
                shape=(len(c.ids), len(v.ids)),
            ),
            row_lower=np.array(c.lower_bounds, dtype=float),
            row_upper=np.array(c.upper_bounds, dtype=float),
            column_lower=np.array(v.lower_bounds, dtype=float),
            column_upper=np.array(v.upper_bounds, dtype=float),
            integer=np.array(v.integers, dtype=bool),
        )
        return NamedProgram(
            self.problem.name, linear, dict(zip(map(tuple, pairs), squares.coefficients, strict=True)),
            _names("variable", v), _names("constraint", c),
        )  # fmt: skip

    def _fingerprint(self) -> str:
        return hashlib.sha256(self.native.export_model().SerializeToString(deterministic=True)).hexdigest()

    def _set_start(self, assignment: np.ndarray) -> None:
        self._hint = self.statement.hint(assignment)
        self._values = None

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
            run, values = running.by_highs(program, budget, seed, start)
        elif solver in by_mathopt.SOLVERS:
            hints = [] if hint is None else [hint]
            run, values = running.by_mathopt(program, solver, budget, seed, (self.native, variables), hints)
        else:
            there = ", ".join(["highs", *by_mathopt.SOLVERS])
            raise InputError(f"the solver {solver!r} is not on this machine; there are {there}")
        self._values = None if values is None else dict(zip(variables, values.tolist(), strict=True))
        return run

    def _read(self, values: Any) -> np.ndarray:
        if values is None and self._taken is not None:
            return self._taken
        if isinstance(values, dict) and all(isinstance(name, str) for name in values):
            by_name = {v.name: v for v in self.native.variables()}
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
    from keyshift.models.pyomo import pyo

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

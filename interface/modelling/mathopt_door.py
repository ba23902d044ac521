"""A MathOpt statement behind the door."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from ortools.math_opt.python import mathopt

from keyshift.modelling import running, writing
from keyshift.modelling.algebra import program_algebra
from keyshift.modelling.model import Model, Run
from keyshift.modelling.program import NamedProgram
from keyshift.models import Budget, InputError
from keyshift.solvers import mathopt as by_mathopt
from keyshift.solvers.safe_bounds import LinearProgram


class MathOptDoor(Model):
    """`Model` for MathOpt: HiGHS through keyshift, SCIP, CP-SAT, GLOP and PDLP through OR-Tools."""

    suffixes: ClassVar[tuple[str, ...]] = (".mps", ".lp", ".nl")

    @property
    def size(self) -> str:
        """How many variables and constraints it has, in words."""
        return f"{self.native.get_num_variables()} variables, {self.native.get_num_linear_constraints()} constraints"

    def names(self) -> list[str]:
        """The names of all variables, as files have them."""
        return [v.name for v in self.native.variables()]

    def algebra(self, every: bool = False) -> str:
        """The model as a person reads it, in lines of 80 columns; the first rows of each family, or `every` one."""
        return program_algebra(self.program(), every)

    def program(self) -> NamedProgram:
        """The model's matrices.

        Raises
        ------
        InputError
            Where it has something that no matrix holds.
        """
        model = self.native
        proto = model.export_model()
        for what in ("quadratic_constraints", "second_order_cone_constraints", "sos1_constraints", "sos2_constraints",
                     "indicator_constraints"):  # fmt: skip
            if len(getattr(proto, what)):
                raise InputError(f"the model has {what.replace('_', ' ')}, which no matrix holds")
        if proto.objective.maximize:
            raise InputError("the model maximises: write it as a minimum")
        columns, rows = list(model.variables()), list(model.linear_constraints())
        place = {v: j for j, v in enumerate(columns)}
        number = {c: r for r, c in enumerate(rows)}
        entries = [(number[e.linear_constraint], place[e.variable], e.coefficient)
                   for e in model.linear_constraint_matrix_entries()]  # fmt: skip
        at = np.array([e[:2] for e in entries], dtype=np.int64).reshape(-1, 2)
        factors = np.array([e[2] for e in entries], dtype=float)
        cost = np.zeros(len(columns))
        for term in model.objective.linear_terms():
            cost[place[term.variable]] = term.coefficient
        squares = {}
        for term in model.objective.quadratic_terms():
            a, b = sorted((place[term.key.first_var], place[term.key.second_var]))
            squares[a, b] = float(term.coefficient)
        linear = LinearProgram(
            cost=cost,
            offset=float(model.objective.offset),
            matrix=sp.csr_array((factors, (at[:, 0], at[:, 1])), shape=(len(rows), len(columns))),
            row_lower=np.array([c.lower_bound for c in rows], dtype=float),
            row_upper=np.array([c.upper_bound for c in rows], dtype=float),
            column_lower=np.array([v.lower_bound for v in columns], dtype=float),
            column_upper=np.array([v.upper_bound for v in columns], dtype=float),
            integer=np.array([v.integer for v in columns], dtype=bool),
        )
        return NamedProgram(
            self.problem.name, linear, squares, [v.name or f"variable[{v.id}]" for v in columns],
            [c.name or f"constraint[{c.id}]" for c in rows],
        )  # fmt: skip

    def _fingerprint(self) -> str:
        return hashlib.sha256(self.native.export_model().SerializeToString(deterministic=True)).hexdigest()

    def _extends(self, fresh: Self) -> bool:
        return self.program().extends(fresh.program())

    def _settled(self) -> bool:
        return not hasattr(self.statement, "settled") or bool(self.statement.settled(self._values))

    def _set_start(self, assignment: np.ndarray) -> None:
        self._hint = self.statement.hint(assignment)
        self._values: Any = None

    def _relaxed(self) -> Any:
        made = mathopt.Model.from_model_proto(self.native.export_model())
        for variable in made.variables():
            variable.integer = False
        return made

    def _write(self, path: Path) -> None:
        program = self.program()
        if path.suffix == ".nl":
            from keyshift.modelling.as_pyomo import write_nl

            write_nl(program, path)
            return
        writing.write_text(path, (writing.mps_lines if path.suffix == ".mps" else writing.lp_lines)(program))

    def _run(self, solver: str | None, budget: Budget, seed: int) -> Run:
        program = self.program() if solver in (None, "highs") or self.relaxed or not self.about.integer else None
        if self._whole and program is not None:
            program = program.made_whole(self.statement.whole_family)
        if solver is None:
            assert program is not None
            solver = program.fitting_solver
        if solver == "highs":
            assert program is not None
            if program.squares:
                raise InputError("highs does not take squares here; there is scip")
            return self._by_highs(program, budget, seed)
        if solver not in by_mathopt.SOLVERS:
            there = ", ".join(["highs", *by_mathopt.SOLVERS])
            raise InputError(f"the solver {solver!r} is not on this machine; there are {there}")
        hint = getattr(self, "_hint", None)
        result = by_mathopt.run(self.native, solver, budget, seed=seed, hints=[] if hint is None else [hint])
        if result is not None and result.has_primal_feasible_solution():
            self._values = result.variable_values()
        values = getattr(self, "_values", None)
        if program is None:
            program = self.program()
        self._show(values)
        columns = None if values is None else np.array([values[v] for v in self.native.variables()], dtype=float)
        return running.from_solver(program, solver, budget, result, columns)

    def _by_highs(self, program: NamedProgram, budget: Budget, seed: int) -> Run:
        variables, hint = list(self.native.variables()), getattr(self, "_hint", None)
        start = None
        if hint is not None and all(v in hint.variable_values for v in variables):
            start = np.array([hint.variable_values[v] for v in variables], dtype=float)
        run, values = running.by_highs(program, budget, seed, start)
        self._values = None if values is None else dict(zip(variables, values.tolist(), strict=True))
        self._show(self._values)
        return run

    def _show(self, values: Any) -> None:
        """Let a statement that has a reader of its own see what was found: Pyomo's variables hold it themselves."""
        if self.about.reader is not None:
            self.statement.found = values

    def _take(self, assignment: np.ndarray) -> None:
        self._taken = assignment

    def _read(self, values: Any) -> np.ndarray:
        if values is None and (taken := getattr(self, "_taken", None)) is not None:
            return np.asarray(taken)
        if isinstance(values, dict) and all(isinstance(name, str) for name in values):
            by_name = {v.name: v for v in self.native.variables()}
            for name in values:
                if name not in by_name:
                    raise InputError(f"the model has no variable {name}")
            values = {v: float(values.get(name, 0.0)) for name, v in by_name.items()}
        elif values is not None and not isinstance(values, dict):
            values = values.variable_values()
        known = getattr(self, "_values", None) if values is None else values
        if known is None:
            raise InputError("nobody has solved this model yet: give the SolveResult")
        return np.asarray(self.statement.assignment(known))

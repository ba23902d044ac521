"""A Pyomo statement behind the door."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyomo.environ as pyo
from pyomo.common.errors import InfeasibleConstraintException, InvalidConstraintError, PyomoException
from pyomo.repn import generate_standard_repn

from keyshift.modelling import running, writing
from keyshift.modelling.algebra import program_algebra
from keyshift.modelling.model import Model, Run
from keyshift.modelling.other_solvers import by_pyomo, found_here
from keyshift.modelling.program import NamedProgram
from keyshift.models import Budget, InputError
from keyshift.models.labels import lettered
from keyshift.solvers import highs
from keyshift.solvers import mathopt as by_mathopt


class PyomoDoor(Model):
    """`Model` for Pyomo: HiGHS through keyshift, OR-Tools' solvers, and whatever `pyo.SolverFactory` finds."""

    suffixes: ClassVar[tuple[str, ...]] = (".mps", ".lp", ".nl")

    @property
    def size(self) -> str:
        """How many variables and constraints it has, in words."""
        variables = sum(len(v) for v in self.native.component_objects(pyo.Var, active=True))
        rows = sum(len(c) for c in self.native.component_objects(pyo.Constraint, active=True))
        return f"{variables} variables, {rows} constraints"

    def names(self) -> list[str]:
        """The names of all variables, as files have them."""
        return [self.name_of(v) for v in self.native.component_data_objects(pyo.Var)]

    def algebra(self, every: bool = False) -> str:
        """The model as a person reads it, in lines of 80 columns; the first rows of each family, or `every` one."""
        return program_algebra(self.program(), every)

    # Names and matrices -----------------------------------------------------------------------------------------

    def name_of(self, data: Any) -> str:
        """The name of a variable or a constraint in files and in `algebra`: x[k3,n1]."""
        component, index = data.parent_component().local_name, data.index()
        if index is None:
            return str(component)
        parts = index if isinstance(index, tuple) else (index,)
        letters = getattr(self.statement, "letters", {}).get(component)
        said = lettered(letters, parts) if letters is not None and len(letters) == len(parts) else None
        if said is None and hasattr(self.statement, "label"):
            said = self.statement.label(component, parts)
        return f"{component}[{','.join(map(str, parts)) if said is None else said}]"

    def program(self) -> NamedProgram:
        """The model's matrices.

        Raises
        ------
        InputError
            Where it has something that no matrix holds.
        """
        return self._compiled()[0]

    def _compiled(self) -> tuple[NamedProgram, list[Any]]:
        objectives = list(self.native.component_data_objects(pyo.Objective, active=True))
        if len(objectives) != 1:
            raise InputError(f"the model has {len(objectives)} active objectives, and needs one")
        objective = objectives[0]
        quadratic = objective.polynomial_degree() == 2
        try:
            linear, columns, rows, squares = self._with_squares(objective) if quadratic else self._linear()
        except InfeasibleConstraintException:
            raise InputError("a row of the model holds no variable, and is broken whatever is chosen") from None
        except (InvalidConstraintError, PyomoException) as error:
            said = " ".join(str(error).split())[:120]
            raise InputError(f"the model is not linear: {said}") from None
        named = NamedProgram(
            self.problem.name, linear, squares, [self.name_of(v) for v in columns], [self.name_of(c) for c in rows]
        )
        return named, columns

    def _linear(self) -> tuple[Any, list[Any], list[Any], dict[tuple[int, int], float]]:
        return *highs.compile_rows(self.native), {}

    def _with_squares(self, objective: Any) -> tuple[Any, list[Any], list[Any], dict[tuple[int, int], float]]:
        """The matrices of a model with a quadratic objective, which the compiler takes only without its squares."""
        terms = generate_standard_repn(objective, quadratic=True)
        model = self.native
        stand_in = pyo.quicksum(c * v for c, v in zip(terms.linear_coefs, terms.linear_vars, strict=True))
        objective.deactivate()
        model.keyshift_linear_part = pyo.Objective(expr=stand_in + (terms.constant or 0.0))
        try:
            linear, columns, rows = highs.compile_rows(model)
        finally:
            model.del_component("keyshift_linear_part")
            objective.activate()
        place = {id(v): j for j, v in enumerate(columns)}
        squares: dict[tuple[int, int], float] = {}
        for factor, (a, b) in zip(terms.quadratic_coefs, terms.quadratic_vars, strict=True):
            at = (min(place[id(a)], place[id(b)]), max(place[id(a)], place[id(b)]))
            squares[at] = squares.get(at, 0.0) + float(factor)
        return linear, columns, rows, squares

    def _fingerprint(self) -> str:
        return self.program().fingerprint()

    def _extends(self, fresh: Self) -> bool:
        twins = {v.name: v for v in fresh.native.component_data_objects(pyo.Var)}
        for variable in self.native.component_data_objects(pyo.Var):
            if variable.fixed and (twin := twins.get(variable.name)) is not None:
                twin.fix(variable.value)  # a constant in the rows of both
        return self.program().extends(fresh.program())

    def _settled(self) -> bool:
        return not hasattr(self.statement, "settled") or bool(self.statement.settled())

    # Starts, copies, files --------------------------------------------------------------------------------------

    def _set_start(self, assignment: np.ndarray) -> None:
        self.statement.set_start(assignment)

    def _relaxed(self) -> Any:
        made = self.native.clone()
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(made)
        return made

    def _write(self, path: Path) -> None:
        if path.suffix == ".nl":
            self._write_nl(path)
            return
        try:
            program = self.program()
        except InputError as error:
            raise InputError(f"{path}: {error}; .nl holds what is not linear") from None
        writing.write_text(path, (writing.mps_lines if path.suffix == ".mps" else writing.lp_lines)(program))

    def _write_nl(self, path: Path) -> None:
        try:
            written = writing.write_nl(self.native, path)
        except PyomoException as error:
            raise InputError(f"{path}: Pyomo cannot write this model: {' '.join(str(error).split())[:120]}") from None
        rows = [self.name_of(c) for c in written.constraints] + [o.local_name for o in written.objectives]
        writing.write_text(path.with_suffix(".row"), rows)
        writing.write_text(path.with_suffix(".col"), [self.name_of(v) for v in written.variables])

    # Solving ----------------------------------------------------------------------------------------------------

    def _run(self, solver: str | None, budget: Budget, seed: int) -> Run:
        if solver is not None and solver != "highs" and solver not in by_mathopt.SOLVERS:
            return by_pyomo(self.native, solver, budget, seed)
        try:
            program, columns = self._compiled()
        except InputError as error:
            if "broken whatever is chosen" in str(error):
                return Run(solver or "highs", False, None, "infeasible")
            raise
        if self._whole:
            program = program.made_whole(self.statement.whole_family)
        solver = solver or program.fitting_solver
        if solver == "highs":
            if program.squares:
                there = ", ".join(["scip", *found_here()])
                raise InputError(f"highs does not take whole variables and squares together; there are {there}")
            run, values = running.by_highs(program, budget, seed, self._held(columns))
        else:
            run, values = self._by_mathopt(program, solver, budget, seed)
        if values is not None:
            for column, value in zip(columns, values.tolist(), strict=True):
                column.set_value(value, skip_validation=True)
        return run

    def _by_mathopt(
        self, program: NamedProgram, solver: str, budget: Budget, seed: int
    ) -> tuple[Run, np.ndarray | None]:
        model, variables = running.to_mathopt(program)
        result = by_mathopt.run(model, solver, budget, seed=seed)
        values = None
        if result is not None and result.has_primal_feasible_solution():
            held = result.variable_values()
            values = np.array([held[v] for v in variables], dtype=float)
        return running.from_solver(program, solver, budget, result, values), values

    def _held(self, columns: list[Any]) -> np.ndarray | None:
        """The values of a start, where every variable has one."""
        if self._known is None:
            return None
        held = np.array([math.nan if v.value is None else v.value for v in columns], dtype=float)
        return held if np.isfinite(held).all() else None

    def _read(self, values: Any) -> np.ndarray:
        if isinstance(values, dict):
            self.set_values(values)
        known: np.ndarray = self.statement.assignment()
        return known

    def set_values(self, values: dict[str, float]) -> None:
        """Give the variables values by their names, 0 to those that are not named.

        Raises
        ------
        InputError
            For a name that the model does not have.
        """
        by_name = {self.name_of(v): v for v in self.native.component_data_objects(pyo.Var)}
        for name in values:
            if name not in by_name:
                raise InputError(f"the model has no variable {name}")
        for name, variable in by_name.items():
            if not variable.fixed:
                variable.set_value(float(values.get(name, 0.0)), skip_validation=True)

"""A model in Pyomo, opened."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.modelling import running
from keyshift.modelling.additions import Row
from keyshift.modelling.model import Run
from keyshift.modelling.program import NamedProgram, write_nl
from keyshift.models import Budget, InputError
from keyshift.models.answer import Termination
from keyshift.models.base.pyomo import errors, generate_standard_repn, pyo
from keyshift.models.errors import refusing
from keyshift.solvers import highs
from keyshift.solvers import mathopt as by_mathopt


def lettered(letters: str, index: Iterable[object]) -> str:
    """An index with a letter before each number; a dash stands for none.

    >>> lettered("kn", (3, 1))
    'k3,n1'
    """
    return ",".join(f"{letter.strip('-')}{part}" for letter, part in zip(letters, index, strict=True))


class OpenedPyomo(running.LinearModel):
    """`Model` for Pyomo: HiGHS through keyshift, OR-Tools' solvers, and whatever `pyo.SolverFactory` finds."""

    beyond: ClassVar[str] = "; .nl holds what is not linear"

    def __init__(self, *given: Any, **options: Any) -> None:
        said = "there is no model: a row without variables cannot be satisfied"
        with refusing(said, errors.InfeasibleConstraintException):
            super().__init__(*given, **options)

    @property
    def size(self) -> str:
        """How many variables and constraints it has, in words."""
        variables = sum(len(v) for v in self.native.component_objects(pyo.Var, active=True))
        rows = sum(len(c) for c in self.native.component_objects(pyo.Constraint, active=True))
        return f"{variables} variables, {rows} constraints"

    def names(self) -> list[str]:
        """The names of all variables, as files have them."""
        return [self.name_of(v) for v in self.native.component_data_objects(pyo.Var)]

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
        return self.name_in_files(f"{component}[{','.join(map(str, parts)) if said is None else said}]")

    def program(self) -> NamedProgram:
        """The model's matrices; `InputError` where it has something that no matrix holds."""
        said = "a row of the model has no variables and cannot be satisfied"
        with refusing(said, errors.InfeasibleConstraintException):
            return self._compiled()[0]

    def _compiled(self) -> tuple[NamedProgram, list[Any]]:
        objectives = list(self.native.component_data_objects(pyo.Objective, active=True))
        if len(objectives) != 1:
            raise InputError(f"the model has {len(objectives)} active objectives, and needs one")
        objective = objectives[0]
        quadratic = objective.polynomial_degree() == 2
        try:
            compiled = self._with_squares(objective) if quadratic else (*highs.compile_rows(self.native), {})
        except errors.InfeasibleConstraintException:
            raise
        except (errors.InvalidConstraintError, errors.PyomoException) as error:
            said = " ".join(str(error).split())[:120]
            raise InputError(f"the model is not linear: {said}") from None
        linear, columns, rows, squares = compiled
        names = [self.name_of(v) for v in columns], [self.name_of(c) for c in rows]
        return NamedProgram(self.problem.name, linear, squares, *names), columns

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

    def _fixed_alike(self, fresh: Self) -> list[Row]:
        """Fix in a fresh model what is fixed here, a constant in the rows of both; as rows."""
        twins = {v.name: v for v in fresh.native.component_data_objects(pyo.Var)}
        fixed = [v for v in self.native.component_data_objects(pyo.Var) if v.fixed and v.name in twins]
        for variable in fixed:
            twins[variable.name].fix(variable.value)
        return [Row({self.name_of(v): 1.0}, v.value, v.value) for v in fixed]

    def _extends(self, fresh: Self) -> bool:
        self._fixed_alike(fresh)
        return super()._extends(fresh)

    def _added_rows(self, fresh: Self) -> list[Row]:
        return self._fixed_alike(fresh) + super()._added_rows(fresh)

    def _settled(self) -> bool:
        return not hasattr(self.statement, "settled") or bool(self.statement.settled())

    # Starts, copies, files --------------------------------------------------------------------------------------

    _take = running.LinearModel._set_start

    def _hold(self, values: dict[str, float]) -> np.ndarray:
        self.set_values(values)
        self._searched = True
        return np.asarray(self.statement.assignment())

    def _relaxed(self) -> Any:
        made = self.native.clone()
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(made)
        return made

    def _write_nl(self, path: Path) -> None:
        with refusing(f"{path}: Pyomo cannot write this model: {{reason}}", errors.PyomoException):
            write_nl(self.native, path, self.name_of, self.name_of)

    # Solving ----------------------------------------------------------------------------------------------------

    def _run(self, solver: str | None, budget: Budget, seed: int) -> Run:
        if solver is not None and solver != "highs" and solver not in by_mathopt.SOLVERS:
            return by_pyomo(self.native, solver, budget, seed)
        try:
            program, columns = self._compiled()
        except errors.InfeasibleConstraintException:
            return Run("arithmetic", False, None, "infeasible")
        if self._whole:
            program = program.made_whole(self.statement.whole_family)
        solver = solver or program.fitting_solver
        if solver == "highs":
            if program.squares:
                there = ", ".join(["scip", *found_here()])
                raise InputError(f"highs does not take whole variables and squares together; there are {there}")
            run, values = running.by_highs(program, budget, seed, self._held(columns))
        else:
            run, values = running.by_mathopt(program, solver, budget, seed)
        if values is not None:
            for column, value in zip(columns, values.tolist(), strict=True):
                column.set_value(value, skip_validation=True)
        return run

    def _held(self, columns: list[Any]) -> np.ndarray | None:
        """The values of a start, where every variable has one."""
        if self._known is None and not self._searched:
            return None
        held = np.array([math.nan if v.value is None else v.value for v in columns], dtype=float)
        return held if np.isfinite(held).all() else None

    def _read(self, values: Any) -> np.ndarray:
        if isinstance(values, dict):
            self.set_values(values)
        return self.statement.assignment()

    def set_values(self, values: dict[str, float]) -> None:
        """Give the variables values by their names, 0 to those that are not named.

        Raises
        ------
        InputError
            For a name that the model does not have.
        """
        by_name = {self.name_of(v): v for v in self.native.component_data_objects(pyo.Var)}
        self._require_known(values, by_name)
        for name, variable in by_name.items():
            if not variable.fixed:
                variable.set_value(float(values.get(name, 0.0)), skip_validation=True)


ASKED = ("gurobi", "cplex", "xpress", "mosek", "cbc", "glpk", "ipopt")
"""Solvers whose presence is worth telling."""
_ENDED: dict[str, Termination] = {"optimal": "optimal", "infeasible": "infeasible", "maxTimeLimit": "time_limit"}


def found_here() -> list[str]:
    """Solvers besides keyshift's own that Pyomo finds on this machine."""
    return [name for name in ASKED if _factory(name) is not None]


def _factory(name: str) -> Any:
    """Pyomo's interface to a solver; None where it is not on this machine."""
    log = logging.getLogger("pyomo")
    was, log.disabled = log.disabled, True
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        made = pyo.SolverFactory(name)
        return made if made.available(exception_flag=False) else None
    except Exception:  # an interface that cannot even be made is not there
        return None
    finally:
        logging.disable(before)
        log.disabled = was


def by_pyomo(model: pyo.ConcreteModel, name: str, budget: Budget, seed: int) -> Run:
    """Run a solver through Pyomo's own interface; its bound is its word."""
    solver = _factory(name)
    if solver is None:
        there = ", ".join(["highs", "scip", "cp-sat", "glop", "pdlp", *found_here()])
        raise InputError(f"the solver {name!r} is not on this machine; there are {there}")
    limit = {"timelimit": max(1.0, budget.remaining)} if math.isfinite(budget.remaining) else {}
    if hasattr(solver, "config") and hasattr(solver.config, "time_limit") and limit:
        solver.config.time_limit = limit.pop("timelimit")
    if budget.expired:
        return Run(name, False, None, budget.why)
    try:
        results = solver.solve(model, load_solutions=False, **limit)
        condition = str(results.solver.termination_condition)
        found = len(results.solution) > 0
        if found:
            model.solutions.load_from(results)
    except Exception as error:  # whatever a solver's interface raises about a model that it does not take
        said = " ".join(str(error).split())[:160]
        raise InputError(f"{name} does not take this model: {said}") from None
    proven = results.problem.lower_bound
    bound = float(proven) if isinstance(proven, int | float) and math.isfinite(proven) else None
    return Run(name, found, bound, _ENDED.get(condition) or budget.ended("gap"))

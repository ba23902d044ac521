"""Solvers that Pyomo finds on the machine by itself: Gurobi, CPLEX, CBC and their like."""

from __future__ import annotations

import logging
import math
from typing import Any

import pyomo.environ as pyo

from keyshift.modelling.model import Run
from keyshift.models import Budget, InputError
from keyshift.models.answer import Termination

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

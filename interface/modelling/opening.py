"""statements, model: which declarative models a problem has, and the way into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyshift.catalogue import formulation_of
from keyshift.catalogue.method import Statement
from keyshift.modelling.model import Model
from keyshift.models import InputError, Problem, Solution
from keyshift.models.base.lazily import lazily, load
from keyshift.models.objectives import Prioritised

with lazily():
    from keyshift.modelling.opened_cpsat import OpenedCpSat
    from keyshift.modelling.opened_pyomo import OpenedPyomo
    from keyshift.modelling.running import OpenedMathOpt

LANGUAGES = {"pyomo": OpenedPyomo, "cp-sat": OpenedCpSat, "mathopt": OpenedMathOpt}


def statements(problem: Problem | type[Problem] | str) -> tuple[str, ...]:
    """List the kinds of declarative model that a problem has, the simplest first.

    Parameters
    ----------
    problem : Problem, class or str
        A class, or a name such as ``"mixed-routing"``, is enough.

    Returns
    -------
    tuple of str
        Such as ``("pyomo", "cp-sat")``.
    """
    return tuple(entry.kind for entry in formulation_of(problem).statements)


def model(problem: Problem, kind: str = "pyomo", *, strengthened: bool = False, **options: Any) -> Model:
    """Build a declarative model of a problem, to read it, change it, write it to a file, or solve it with any solver.

    Parameters
    ----------
    problem : Problem
    kind : str, default "pyomo"
        One of ``statements(problem)``.
    strengthened : bool, default False
        Whether to exclude some feasible answers, but not all optima, as keyshift's own methods do: interchangeable nodes
        in order, limits from a known answer, variables fixed or limited from one side only. Such a model is solved
        faster, but is wrong as soon as anything is added to it.
    **options
        The kind's own: "pyomo" of key-group allocation takes ``weights=(w1, w2)``, the objective w1 d - w2 (d_u + d_l) as
        [Madsen2016] prints it.

    Returns
    -------
    Model
        ``native`` is the model in its own language, to which you can add constraints. An integer variable has exactly
        the value that its name says, so a constraint may use it in any way. A continuous variable, such as a load
        distance or the largest load, may be larger than that, so a constraint may only limit it from above. If
        variables count interchangeable keys (routing: x[r,n]; splitting and placement: x[g,n]), there is no variable
        for a single key, except in the kind "pyomo-keys" (x[k,n]). If they are flows along intervals or values of
        partitions, there is none for a single node.

    Raises
    ------
    InputError
        For an unknown kind; for a problem that arithmetic alone shows to be infeasible; for one with several
        priorities, since a model has one objective.
    """
    about = _entry(problem, kind)
    if isinstance(problem, Prioritised):
        if problem.stages != (problem.own_measure,):
            raise InputError(
                f"a model minimises {problem.own_measure} alone, not {', '.join(problem.stages)}: open the problem "
                "without priorities; model.statement.keep(measure, most) and .minimise(measure) state a later stage"
            )
        problem = problem.plain()
    if conflicts := problem.conflicts():
        raise InputError(f"there is no model, since the problem is infeasible: {conflicts[0]}")
    opened: type[Model] = load(LANGUAGES[about.language])
    return opened(problem, about, strengthened, **options)


def _entry(problem: Problem, kind: str) -> Statement:
    entries = {entry.kind: entry for entry in formulation_of(problem).statements}
    if kind not in entries:
        raise InputError(f"no model of kind {kind!r} for {problem.name}; choose one of {', '.join(entries)}")
    return entries[kind]


def read_answer(problem: Problem, path: str | Path, kind: str = "pyomo") -> Solution:
    """``model(problem, kind).read(path)``, as it was called until 0.2."""
    return model(problem, kind).read(path)

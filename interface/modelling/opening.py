"""statements, model: which declarative models a problem has, and the way into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyshift.catalogue import formulation_of
from keyshift.catalogue.method import Statement
from keyshift.modelling.model import Model
from keyshift.models import InputError, Problem, Solution
from keyshift.models.lazily import lazily, load
from keyshift.models.priorities import Prioritised

with lazily():
    from keyshift.modelling.opened_cpsat import OpenedCpSat
    from keyshift.modelling.opened_mathopt import OpenedMathOpt
    from keyshift.modelling.opened_pyomo import OpenedPyomo

LANGUAGES = {"pyomo": OpenedPyomo, "cp-sat": OpenedCpSat, "mathopt": OpenedMathOpt}


def statements(problem: Problem | type[Problem] | str) -> tuple[str, ...]:
    """The kinds of declarative model that a problem has; the simplest first.

    Parameters
    ----------
    problem : Problem, class or str
        A class, or a name such as ``"mixed-routing"``, serves as well.

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
        in order, limits from a known answer, variables fixed or limited from one side only. It is solved faster, and
        wrong as soon as anything is added.
    **options
        The kind's own: "pyomo" of key-group allocation takes ``weights=(w1, w2)``, the objective w1 d - w2 (d_u + d_l) as
        [Madsen2016] prints it.

    Returns
    -------
    Model
        ``native`` is the model in its own language, for constraints of one's own. A rule may speak of every variable
        that is whole: it is what its name says, no more and no less. The others - a load distance, the largest load -
        are at least what they are called after: a rule may limit them from above. Where a variable counts keys that
        are alike (routing: x[r,n]; splitting and placement: x[g,n]), a rule about one named key cannot be said, but in the
        kind "pyomo-keys" (x[k,n]); where it is the flow along an interval or the value of a partition, one about a node cannot.

    Raises
    ------
    InputError
        For an unknown kind, a problem of which arithmetic alone shows that it has no answer, or one with more than its
        own priority: a model has one objective.
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
        raise InputError(f"there is nothing to model: {conflicts[0]}")
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

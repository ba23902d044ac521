"""statements and model: which declarative models a problem has, and the way into one."""

from __future__ import annotations

from keyshift.catalogue import FORMULATIONS, formulation_of
from keyshift.catalogue.loading import load
from keyshift.catalogue.statement import Statement
from keyshift.modelling.model import Model
from keyshift.models import InputError, Problem
from keyshift.models.priorities import Prioritised

DOORS = {
    "pyomo": "keyshift.modelling.pyomo_door:PyomoDoor",
    "cp-sat": "keyshift.modelling.cpsat_door:CpSatDoor",
    "mathopt": "keyshift.modelling.mathopt_door:MathOptDoor",
}


def statements(problem: Problem | type[Problem]) -> tuple[str, ...]:
    """The kinds of declarative model that a problem, or a class of problems, has; the plainest first.

    Parameters
    ----------
    problem : Problem or class

    Returns
    -------
    tuple of str
        Such as ``("pyomo", "cp-sat")``.
    """
    return tuple(entry.kind for entry in _entries(problem))


def model(problem: Problem, kind: str = "pyomo", *, strengthened: bool = False) -> Model:
    """Open a declarative model of a problem: to read it, to change it, to write it down, to solve it anywhere.

    Parameters
    ----------
    problem : Problem
    kind : str, default "pyomo"
        One of ``statements(problem)``.
    strengthened : bool, default False
        Whether to assume what some optimum keeps, but not every answer, as our own solving does: interchangeable nodes
        in order, limits from a known answer, variables fixed or held from one side alone. It is solved faster, and
        wrong as soon as anything is added.

    Returns
    -------
    Model
        ``native`` is the model in its own language, for constraints of one's own. A rule may speak of every variable
        that is whole: it is what its name says, no more and no less. The others - a load distance, the largest load -
        are at least what they are called after: a rule may limit them from above. Where a variable counts keys that
        are alike (routing: x[r,n]; splitting and placement: x[g,n]), a rule about one named key cannot be said; where
        it is the flow along an interval or the value of a partition, one about a node cannot.

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
    door: type[Model] = load(DOORS[about.language])
    return door(problem, about, strengthened)


def _entries(problem: Problem | type[Problem]) -> tuple[Statement, ...]:
    if isinstance(problem, type):
        name = str(getattr(problem, "name", ""))
        if name not in FORMULATIONS:
            raise InputError(f"{problem.__name__} is not a problem that keyshift knows: {', '.join(FORMULATIONS)}")
        return FORMULATIONS[name].statements
    return formulation_of(problem).statements


def _entry(problem: Problem, kind: str) -> Statement:
    entries = {entry.kind: entry for entry in _entries(problem)}
    if kind not in entries:
        raise InputError(f"no model of kind {kind!r} for {problem.name}; choose one of {', '.join(entries)}")
    return entries[kind]

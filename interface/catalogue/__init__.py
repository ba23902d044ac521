"""The catalogue: which problems there are, and which methods answer them.

Entries name their code as ``"module:attribute"`` and load it on first use, so that listing the methods of a
problem loads no solver. One module for each formulation, with the constant
`FORMULATION`; intervals.py has three of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from keyshift.catalogue import (
    allocation,
    collocation,
    intervals,
    mclb,
    movement,
    placement,
    routing,
    splitting,
)
from keyshift.catalogue.method import Formulation, Method
from keyshift.models import InputError, Problem

_ALL = (
    allocation.FORMULATION,
    collocation.FORMULATION,
    mclb.FORMULATION,
    movement.FORMULATION,
    splitting.FORMULATION,
    placement.FORMULATION,
    routing.FORMULATION,
    *intervals.FORMULATIONS,
)

FORMULATIONS: Mapping[str, Formulation] = MappingProxyType({f.name: f for f in _ALL})
"""Every formulation, by the name of its problem."""


def formulation_of(problem: Problem) -> Formulation:
    """The catalogue's entry for a problem."""
    name = str(getattr(type(problem), "name", ""))
    if not isinstance(problem, Problem) or name not in FORMULATIONS:
        raise InputError(f"{type(problem).__name__} is not a problem that keyshift knows: {', '.join(FORMULATIONS)}")
    return FORMULATIONS[name]


def methods(problem: Problem) -> list[Method]:
    """List the methods that apply to a problem, the default one first.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    list of Method
        Each with its name, kind ("exact", "relaxation", "heuristic") and source.
    """
    return list(formulation_of(problem).methods)


def find_method(problem: Problem, name: str | None) -> Method:
    """The method of that name, or the default one; `InputError` names the alternatives."""
    known = methods(problem)
    if name is None:
        return known[0]
    for method in known:
        if method.name == name:
            return method
    raise InputError(f"no method {name!r} for {problem.name}; choose one of {', '.join(m.name for m in known)}")

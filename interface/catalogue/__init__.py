"""The catalogue: which problems there are, and which methods answer them; and how to add to it.

Entries import their code `lazily`: it loads on first use, so that listing the methods of a problem loads no solver. One
module for each formulation, with the constant `FORMULATION`, or `FORMULATIONS` where it has more than one. Begin with method.py.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from inspect import isabstract
from pathlib import Path
from typing import Any

from keyshift.catalogue import allocation, collocation, intervals, mclb, routing, splitting
from keyshift.catalogue.method import (
    BY_NAME,
    FORMULATIONS,
    Formulation,
    Method,
    Statement,
    Trade,
    chosen_methods,
    find_method,
    formulation_of,
    methods,
)
from keyshift.models import InputError, Problem
from keyshift.models.errors import refusing

__all__ = [
    "FORMULATIONS", "Formulation", "Method", "Statement", "Trade", "chosen_methods", "find_method", "formulation_of",
    "methods", "plug_in", "register", "register_problem", "registered",
]  # fmt: skip

_ALL = (
    allocation.ALLOCATION,
    collocation.FORMULATION,
    mclb.FORMULATION,
    allocation.MOVEMENT,
    allocation.REPLICATION,
    *splitting.FORMULATIONS,
    routing.FORMULATION,
    *intervals.FORMULATIONS,
)

BY_NAME.update((f.name, f) for f in _ALL)
_BROUGHT = frozenset(BY_NAME)
_OWN: dict[tuple[str, str], Method] = {}


def register(problem: str, method: Method) -> None:
    """Add a method of your own to a problem: `solve`, `compare` and `study` in this process then know it by name.

    It replaces a method that was registered under the same name before.

    Parameters
    ----------
    problem : str
        The problem's name, such as ``"key-group-allocation"``.
    method : Method
        Its `code` names a function in a module that can be imported: ``solve(problem, *, budget, seed=0) -> Answer``.

    Raises
    ------
    InputError
        For an unknown problem, the name of one of keyshift's own methods, or code that cannot be imported.
    """
    if problem not in FORMULATIONS:
        raise InputError(f"problem = {problem!r}: choose one of {', '.join(FORMULATIONS)}")
    replaced = registered(problem, method.name)
    known = {m.name: m for m in FORMULATIONS[problem].methods if m is not replaced}
    if method.name in known:
        raise InputError(f"{problem} has a method {method.name!r}: give yours another name")
    _refuse_unimportable(method)
    _OWN[problem, method.name] = method
    BY_NAME[problem] = replace(FORMULATIONS[problem], methods=(*known.values(), method))


def register_problem(
    problem: type[Problem],
    *,
    summary: str,
    methods: Sequence[Method],
    statements: Sequence[Statement] = (),
    trades: Sequence[Trade] = (),
    bounds: Mapping[str, Any] | None = None,
    lesson: str = "",
) -> Formulation:
    """Add a formulation of your own: all functions, files and the shell of this process then know it by its name.

    It replaces a formulation that was registered under the same name before.

    Parameters
    ----------
    problem : type
        A frozen dataclass under `Problem` whose first field is a `Workload` called `workload`, or a stream.
    summary : str
        One sentence: what is decided.
    methods : sequence of Method
        The default one first.
    statements : sequence of Statement, optional
    trades : sequence of Trade, optional
    bounds : mapping, optional
        See `Formulation`.
    lesson : str, optional

    Raises
    ------
    InputError
        For a class that is no problem, the name of one of keyshift's own, or code that cannot be imported.

    Notes
    -----
    Other processes, those of `study` and those behind a pickle, know the problem where they can import its module. On the shell
    ``--plugin module.py``, or the variable KEYSHIFT_PLUGINS, names the file; a data file never can.
    """
    name = str(getattr(problem, "name", ""))
    under_problem = isinstance(problem, type) and issubclass(problem, Problem) and is_dataclass(problem)
    if not under_problem or isabstract(problem):
        said = f"{getattr(problem, '__name__', problem)} is not a dataclass under Problem that has all its methods"
        raise InputError(said)
    if not name or name in _BROUGHT:
        raise InputError(f"{name!r} of {problem.__name__}: give your problem a name of its own")
    if not methods or len({m.name for m in methods}) < len(methods):
        raise InputError(f"{name} needs methods, each with a name of its own")
    entries = tuple(methods), tuple(statements), tuple(trades), dict(bounds or {})
    made = Formulation(name, summary, problem, lesson, *entries)
    for method in made.methods:
        _refuse_unimportable(method)
    BY_NAME[name] = made
    return made


def plug_in(path: str) -> None:
    """Import a file that registers methods or problems, named by the user on the shell.

    Its folder goes to the end of the path, so that processes which are started find it, too.
    """
    file = Path(path).resolve()
    if file.suffix != ".py" or not file.is_file():
        raise InputError(f"--plugin {path}: there is no such Python file")
    sys.path.append(str(file.parent))
    found = Path(getattr(importlib.import_module(file.stem), "__file__", None) or "")
    if found.resolve() != file:
        raise InputError(f"--plugin {path}: {file.stem} is the name of another module, {found}: rename the file")


def _refuse_unimportable(method: Method) -> None:
    said = f"the code of {method.name!r} cannot be imported: {{reason}}"
    with refusing(said, ImportError, AttributeError, ValueError):
        method.function  # noqa: B018


def registered(problem: str, name: str) -> Method | None:
    """The method of that name if this process registered it; None if it is keyshift's own."""
    return _OWN.get((problem, name))

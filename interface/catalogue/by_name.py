"""Methods by their own names, callable on a problem: from keyshift.heuristics import albic; from keyshift.solvers import ssm."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from keyshift.catalogue import FORMULATIONS, Method
from keyshift.models import InputError, Problem, Solution


def methods_of(floor: str) -> dict[str, dict[str, Method]]:
    """Every name of a floor, `-` as `_`, with the methods that it stands for by their problem."""
    found: dict[str, dict[str, Method]] = {}
    for formulation in FORMULATIONS.values():
        for method in formulation.methods:
            code = method.code if isinstance(method.code, str) else f"{method.code.__module__}:"
            if code.startswith(f"{floor}."):
                found.setdefault(method.name.replace("-", "_"), {})[formulation.name] = method
    return found


def method_called(floor: ModuleType, name: str) -> Callable[..., Solution]:
    """The method of that name as a function of a problem; AttributeError where there is none, or a module is called so."""
    home = Path(floor.__path__[0])
    hidden = name.startswith("_") or (home / name).is_dir() or (home / name).with_suffix(".py").is_file()
    found = {} if hidden else methods_of(floor.__name__)
    if name not in found:
        raise AttributeError(f"module {floor.__name__} has no attribute {name}")
    of = found[name]

    def solve(problem: Problem, **options: Any) -> Solution:
        from keyshift.solving import solve as by_method

        if getattr(problem, "name", None) not in of:
            raise InputError(f"{name} answers {', '.join(of)}, not {getattr(problem, 'name', type(problem).__name__)}")
        return by_method(problem, of[problem.name].name, **options)

    solve.__name__, solve.__qualname__, solve.__module__ = name, name, floor.__name__
    solve.__doc__ = "\n\n".join(page(problem, method) for problem, method in of.items())
    return solve


def page(problem: str, method: Method) -> str:
    """What a method is: its source and guarantee, what its file and its function say, its options."""
    function = method.function
    said = [inspect.getdoc(sys.modules[function.__module__]) or "", inspect.getdoc(function) or ""]
    options = ", ".join(f"{name}={value!r}" for name, value in method.options.items())
    head = f'{problem} by "{method.name}" ({method.kind}): {method.source}. Guarantee: {method.guarantee}.'
    tail = f'As keyshift.solve(problem, "{method.name}"); its own options: {options or "none"}.'
    return "\n\n".join(filter(None, [head, *said, tail]))

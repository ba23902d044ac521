"""A method's parameters, read from its source: what is wrong with an option is said before any solver is loaded."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from keyshift.catalogue.options import annotations_of
from keyshift.models import ranges

GIVEN_BY_SOLVE = ("problem", "budget", "seed", "start")
"""No options: what `solve` gives every method."""
_KNOWN = {**vars(ranges), "Annotated": Annotated, "Any": Any, "Literal": Literal, "Ge": Ge, "Gt": Gt, "Le": Le}


@lru_cache(maxsize=256)
def parameters_of(code: str) -> dict[str, Any]:
    """The annotations of the parameters of ``"module:function"``, by name.

    The source is parsed, not run. Where it does not say enough - a function that was imported, an annotation made
    elsewhere - the module is imported after all.
    """
    module, _, name = code.partition(":")
    found = _definition(module, name)
    if found is None:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return annotations_of(function)
    return found


def _definition(module: str, name: str) -> dict[str, Any] | None:
    spec = importlib.util.find_spec(module)
    source = getattr(spec and spec.loader, "get_source", lambda module: None)(module)
    tree = ast.parse(source or "")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(functions) != 1 or functions[0].decorator_list:
        return None
    names = _KNOWN | dict(_aliases(tree))
    arguments = functions[0].args
    try:
        return {
            a.arg: None if a.arg in GIVEN_BY_SOLVE else _value(a.annotation, names) if a.annotation else Any
            for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        }
    except NameError:
        return None


def _aliases(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """A module's alias of a type: ``Threshold = Literal["mean", "upper"]``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Subscript):
            target, kind = node.targets[0], node.value.value
            if isinstance(target, ast.Name) and isinstance(kind, ast.Name) and kind.id in ("Literal", "Annotated"):
                yield target.id, _value(node.value, _KNOWN)


def _value(expression: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(expression), "annotation", "eval"), names)  # our own source, never input

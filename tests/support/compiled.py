"""Which modules Numba compiles, and what it has compiled so far."""

from __future__ import annotations

import ast
import functools
import gc
import importlib.util
from collections import Counter
from pathlib import Path

DECORATOR = "keyshift.models.base.compiling"
"""Where `njit` is; its kernels are called by kernels alone."""


def reaches_kernels(code: str) -> bool:
    """Whether a function of keyshift, as ``module:function``, calls compiled ones, or a module does that it imports at any remove.

    Of its own module what other functions import within themselves does not count.
    """
    module, _, function = code.partition(":")
    if "@njit" in _text(module):
        return True
    seen, waiting = set(), _imports(module, function)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting |= _imports(name) - seen
    return any("@njit" in _text(name) for name in seen - {DECORATOR})


def compiled() -> dict[str, int]:
    """How many signatures each compiled function of keyshift has, for Python and for other kernels together."""
    from numba.core.dispatcher import Dispatcher

    kernels = [o for o in gc.get_objects() if isinstance(o, Dispatcher) and o.__module__.startswith("keyshift.")]
    found: Counter[str] = Counter()
    for kernel in kernels:
        found[f"{kernel.__module__}.{kernel.__name__}"] += len(kernel.signatures)
    return found


@functools.cache
def _text(module: str) -> str:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin).read_text()


@functools.cache
def _imports(module: str, function: str = "") -> set[str]:
    tree, found = ast.parse(_text(module)), set()
    if function:  # without the bodies of the others
        tree.body = [n for n in tree.body if not isinstance(n, ast.FunctionDef) or n.name == function]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("keyshift."):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if _exists(name)}


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is a module: the name is an attribute of it
        return False

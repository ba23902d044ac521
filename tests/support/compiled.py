"""Which modules Numba compiles, and what it has compiled so far."""

from __future__ import annotations

import ast
import functools
import gc
import importlib.util
from collections import Counter
from pathlib import Path


def reaches_kernels(module: str) -> bool:
    """Whether a module of keyshift, or one that it imports at any remove and place, holds compiled functions."""
    seen, waiting = set(), {module}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting |= _imports(name) - seen
    return any("@njit" in _text(name) for name in seen)


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
def _imports(module: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(_text(module))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("keyshift."):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if _exists(name)}


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is a module: the name is an attribute of it
        return False

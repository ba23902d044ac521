"""Imports that say who uses what, and run when it is first needed.

The catalogue names all solvers and loads none of them; so does the package itself. Python 3.15 has a word for it,
``lazy from m import f``; until then::

    with lazily():
        from keyshift.solvers.allocation.portfolio import solve_milp

Editors and type checkers see the import. `solve_milp` is `Named` until something asks it to `load`.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

_LOCK = threading.RLock()


class Named(NamedTuple):
    """Something in a module that is not imported yet."""

    module: str
    name: str

    def load(self) -> Any:
        """The thing itself."""
        return getattr(importlib.import_module(self.module), self.name)

    def __getattr__(self, name: str) -> Named:
        """Something in it, where it is a module itself."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Named(f"{self.module}.{self.name}", name)


@contextmanager
def lazily() -> Iterator[dict[str, Named]]:
    """Within the block, ``from m import f`` in the module that has it makes `f` a `Named`; yields all of them by name."""
    found: dict[str, Named] = {}
    here, real = sys._getframe(2).f_globals, builtins.__import__

    def named(
        module: str, names: Mapping[str, Any] | None = None, others: Any = None, wanted: Any = (), level: int = 0
    ) -> Any:
        if names is not here or not wanted:  # another module's, or another thread's
            return real(module, names, others, wanted, level)
        made = {name: Named(module, name) for name in wanted}
        found.update(made)
        return SimpleNamespace(**made)

    with _LOCK:
        builtins.__import__ = named  # type: ignore[assignment]  # its own parameters are positional
        try:
            yield found
        finally:
            builtins.__import__ = real


def on_first_use(namespace: dict[str, Any], found: Mapping[str, Named]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that hands on what it imported lazily: the thing itself, at its first use."""
    for name in found:
        del namespace[name]

    def opened(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        namespace[name] = value = found[name].load()
        return value

    return opened


class NamesCode:
    """A dataclass some of whose fields name code: they keep ``"module:attribute"``, also of a `Named` or of the thing itself."""

    CODE: ClassVar[tuple[str, ...]] = ("code",)

    def __post_init__(self) -> None:
        for name in self.CODE:
            given = getattr(self, name)
            if given is not None and not isinstance(given, str):
                parts = given if isinstance(given, Named) else (given.__module__, given.__qualname__)
                object.__setattr__(self, name, ":".join(parts))


def load(code: Any) -> Any:
    """The thing that ``"module:attribute"`` or a `Named` says; anything else is the thing itself."""
    if isinstance(code, str):
        return resolve_name(code)
    return code.load() if isinstance(code, Named) else code


# Libraries that take long to load: imported when something of them is first used ------------------------------------------


class _Library:
    """A library by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._name), name)
        self.__dict__[name] = found
        return found


if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse as sp
else:
    pd, sp = _Library("pandas"), _Library("scipy.sparse")

__all__ = ["Named", "NamesCode", "lazily", "load", "on_first_use", "pd", "sp"]

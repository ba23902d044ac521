"""What the catalogue says of a problem and of a method."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from keyshift.models import Answer, InputError, Problem

Kind = Literal["exact", "relaxation", "heuristic"]
_READY: set[tuple[str, str]] = set()
_GIVEN_BY_SOLVE = ("problem", "budget", "seed", "start")


def load(entry: str) -> Any:
    """Import what ``"module:attribute"`` names."""
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class Method:
    """One way to answer a problem.

    Attributes
    ----------
    name : str
        The paper's name for it.
    kind : {"exact", "relaxation", "heuristic"}
        Proves optima; proves bounds; only finds assignments.
    source : str
        Where it is described.
    entry : str
        ``"module:function"``; called as ``function(problem, budget=..., seed=..., **options)`` and, when it takes
        one, ``start=...``; returns an `Answer`.
    warm_start : tuple of str
        Heuristics that `solve` tries, in this order, to find a start when the caller gives none.
    limits : str
        A sentence on sizes it refuses, for the table of methods.
    prepare : str, optional
        ``"module:function"`` that, called with the method's own function, compiles what that needs; see `make_ready`.
    """

    name: str
    kind: Kind
    source: str
    entry: str
    warm_start: tuple[str, ...] = ()
    limits: str = ""
    prepare: str | None = None

    def make_ready(self) -> None:
        """Import the method's code and compile its kernels, once in a process, before any time limit runs."""
        if self.prepare is not None and (self.prepare, self.entry) not in _READY:
            load(self.prepare)(self.function)
            _READY.add((self.prepare, self.entry))

    @property
    def function(self) -> Callable[..., Answer]:
        """The code itself, imported on first use."""
        function: Callable[..., Answer] = load(self.entry)
        return function

    @property
    def takes_start(self) -> bool:
        """Whether the method can begin from a known assignment."""
        return "start" in inspect.signature(self.function).parameters

    @property
    def options(self) -> dict[str, Any]:
        """The method's own options with their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.name not in _GIVEN_BY_SOLVE}

    def checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, each fitting its annotation; `InputError` for one that does not, or that the method has not."""
        self.refuse_unknown(options)
        if not options:
            return {}
        from keyshift.catalogue.options import check_option

        return {name: check_option(self.function, name, value) for name, value in options.items()}

    def refuse_unknown(self, options: Mapping[str, Any]) -> None:
        """Raise `InputError` for an option the method does not have."""
        for name in options:
            if name not in self.options:
                has = f"its options are {', '.join(self.options)}" if self.options else "it has none"
                raise InputError(f"method {self.name!r} has no option {name!r}; {has}")


@dataclass(frozen=True)
class Formulation:
    """A problem class, how to load it, and the methods that answer it (the default one first)."""

    name: str
    entry: str
    methods: tuple[Method, ...] = field(default=())
    pareto: str | None = None
    """``"module:function"`` that computes the problem's Pareto front, where it has one."""

    @property
    def problem_class(self) -> type[Problem]:
        """The problem's class, imported on first use."""
        cls: type[Problem] = load(self.entry)
        return cls

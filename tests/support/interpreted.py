"""Numba's functions as the Python they were written in: what the text says, and what coverage can see."""

from __future__ import annotations

from types import ModuleType

import pytest


def interpret(monkeypatch: pytest.MonkeyPatch, module: ModuleType, *users: ModuleType) -> None:
    """Replace a module's compiled functions by their Python text, there and where they were imported by name."""
    for name, function in list(vars(module).items()):
        if hasattr(function, "py_func"):
            for place in (module, *users):
                if getattr(place, name, None) is function:  # another module's function may have the same name
                    monkeypatch.setattr(place, name, function.py_func)

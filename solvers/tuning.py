"""The numbers that tune searches, bounds and solvers: one file for all formulations, and one of the user's over it."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from keyshift.models.base.disk import read_text
from keyshift.models.errors import InputError

OVER = "KEYSHIFT_SETTINGS"
"""The variable that names a file of the user's own."""


def numbers(table: str) -> dict[str, Any]:
    """The numbers of one formulation, by name."""
    return _all()[table]


@cache
def _all() -> dict[str, dict[str, Any]]:
    known: dict[str, dict[str, Any]] = tomllib.loads(read_text(Path(__file__).with_name("settings.toml"), 100_000))
    name = os.environ.get(OVER)
    if name:
        try:
            over = tomllib.loads(read_text(Path(name), 100_000))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{OVER}: {name} is not TOML: {error}") from None
        for table, given in over.items():
            if table not in known or not isinstance(given, dict):
                raise InputError(f"{OVER}: {name} has a table {table!r:.60}; there are {', '.join(known)}")
            for key, value in given.items():
                _take(known[table], f"{OVER}: {name}, {table}", key, value)
    return known


def _take(known: dict[str, Any], where: str, key: str, value: Any) -> None:
    if key not in known:
        raise InputError(f"{where}.{key}: there is no such number; there are {', '.join(known)}")
    whole = isinstance(known[key], int)
    fits = type(value) is int if whole else type(value) in (int, float)
    if not fits or not 0 <= value < float("inf"):
        raise InputError(f"{where}.{key} = {value!r:.60} must be a {'whole ' if whole else ''}number, at least 0")
    known[key] = value if whole else float(value)

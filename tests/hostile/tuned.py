"""Tuning parameters at random: with any that a search can use, answers stay right and bounds safe."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import random
from functools import cache
from types import ModuleType
from typing import Any

from keyshift import heuristics, solvers
from keyshift.models.answer import Settings, tuned_by
from keyshift.models.errors import InputError

Tuning = dict[str, dict[str, Any]]
"""Fields that differ from the usual ones, by the name of their class."""


@cache
def kinds(*rooms: ModuleType) -> dict[str, type[Settings]]:
    """Every class of settings in some rooms of the package, of solvers and heuristics by default, by its name."""
    for room in rooms or (solvers, heuristics):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    found = Settings.__subclasses__()
    for kind in found:
        found += kind.__subclasses__()
    return {kind.__name__: kind for kind in sorted(found, key=lambda kind: kind.__name__)}


def drawn(rng: random.Random) -> Tuning:
    """Half of the classes, and of each some numbers: from a tenth to three times the usual ones, whole ones down to 1."""
    made: Tuning = {}
    for name, kind in kinds().items():
        usual = dataclasses.asdict(kind())
        changed = {field: _other(rng, value) for field, value in usual.items() if rng.random() < 0.4}
        fields = {field: value for field, value in changed.items() if value is not None}
        if rng.random() < 0.5 and _usable(kind(**fields)):
            made[name] = fields
    return made


def _usable(settings: Settings) -> bool:
    try:
        return bool(tuned_by([settings]))
    except InputError:
        return False


def _other(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return rng.choice([max(1, value // 10), value // 3 + 1, 2, 3 * value])
    most = 3 * value if value > 1 else min(1.0, 3 * value)  # a share stays one
    return rng.choice([value / 10, value / 3, most])


def settings(tuning: Tuning) -> list[Settings]:
    """The settings themselves."""
    return [kinds()[name](**fields) for name, fields in tuning.items()]

"""A problem's own parameters as JSON, and back; nothing in such a file names code to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.problem import Problem


def parameters_of(problem: Problem) -> dict[str, Any]:
    """The parameters of a problem besides its data, as JSON can hold them."""
    own = [f.name for f in fields(problem) if f.init][1:]  # type: ignore[arg-type]  # every problem is a dataclass
    return {name: encode(getattr(problem, name)) for name in own}


def encode(value: Any) -> Any:
    """A value as JSON: fractions, arrays and mappings with other keys than text are marked by one word."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return {"fraction": f"{value.numerator}/{value.denominator}"}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, Mapping):
        return {"mapping": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    raise InputError(f"a {type(value).__name__} cannot be written as JSON")


def decode(value: Any) -> Any:
    """What `encode` wrote."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"fraction"}:
        try:
            return Fraction(str(value["fraction"]))
        except (ValueError, ZeroDivisionError):
            raise InputError(f"{value['fraction']!r} is no fraction") from None
    if set(value) == {"array"}:
        return np.array(value["array"])
    if set(value) == {"mapping"}:
        return {decode(k): decode(v) for k, v in value["mapping"]}
    raise InputError(f"{sorted(value)} is none of fraction, array, mapping")

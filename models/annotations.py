"""Values are checked by annotations: the type, the limits, and one sentence for what does not fit."""

from __future__ import annotations

import inspect
import json
from collections import ChainMap
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.guards import fraction

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_NUMBERS = "float | list[float] | list[list[float]]"
_READ_AS = {"ArrayLike": _NUMBERS, "Workload": "Any"}
"""Annotations that say what an array may be made of: on the command line it is a number, a list, or a table."""


def annotations_of(owner: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's, or a dataclass's, parameters.

    Parameters
    ----------
    owner : callable
        They are evaluated where it was defined; what a class inherits, where its base was.
    """
    code = inspect.unwrap(owner)
    homes = map(inspect.getmodule, code.__mro__) if inspect.isclass(code) else ()
    scopes = [vars(home) for home in homes if home is not None] or [code.__globals__]
    read_as = {name: eval(text, {"Any": Any}) for name, text in _READ_AS.items()}
    made = {}
    for name, parameter in inspect.signature(code).parameters.items():
        given = parameter.annotation
        # our own source, never input
        made[name] = eval(given, {}, ChainMap(read_as, *scopes)) if isinstance(given, str) else given
    return {name: Any if given is inspect.Parameter.empty else given for name, given in made.items()}


@lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def check_option(owner: Callable[..., Any], name: str, value: Any) -> Any:
    """A value that fits the annotation of a parameter.

    Parameters
    ----------
    owner : callable
        A function, or a dataclass.
    name : str
        One of its parameters.
    value
        Given in Python, or read from a text.

    Raises
    ------
    InputError
        ``threads = 1.5 must be a whole number``.
    """
    return check_value(annotations_of(owner)[name], name, value)


def check_value(annotation: Any, name: str, value: Any) -> Any:
    """The same for an annotation in hand."""
    from pydantic import ValidationError

    from keyshift.models.files.schema import sentence

    adapter = _adapter(annotation)
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str) and Fraction in get_args(annotation):
        plain = fraction(name, plain)
    try:
        return _validated(adapter, plain)
    except ValidationError as error:
        if isinstance(plain, float) and plain.is_integer():
            try:
                return _validated(adapter, int(plain))  # 3.0 is a whole number
            except ValidationError:
                pass
        raise InputError(sentence(error, "", root=(name,))) from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply") from None


def _validated(adapter: TypeAdapter[Any], value: Any) -> Any:
    """JSON's rules where the value could stand in JSON: a list is a tuple, a text is the key of a mapping."""
    try:
        text = json.dumps(value, default=_listed)
    except (TypeError, ValueError, RecursionError):
        return adapter.validate_python(value, strict=True)
    return adapter.validate_json(text, strict=True)


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError

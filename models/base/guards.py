"""Validation: arguments become read-only arrays; every refusal names the field, the position and the value."""

from __future__ import annotations

import inspect
import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, overload

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import ArrayLike, NDArray

from keyshift.models.base.labels import unlabelled
from keyshift.models.base.lazily import sp
from keyshift.models.base.names import by_text, expect_length
from keyshift.models.errors import InputError, refusing

if TYPE_CHECKING:
    from pydantic import TypeAdapter


Scalar = TypeVar("Scalar", bound=np.generic)

_FRACTION = re.compile(
    r"[+-]?(([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?|[0-9]{1,4000}/[0-9]{1,4000})"
)
LARGEST = 2**53
"""Whole numbers up to here are exact as floats, in which they are checked."""


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the array, no longer writable."""
    array.setflags(write=False)
    return array


class FrozenArrays:
    """A dataclass whose arrays are read-only, also those that come back writable from a pickle."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                frozen(value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        FrozenArrays.__post_init__(self)


def non_negative(
    name: str, values: ArrayLike, *, ndim: tuple[int, ...] = (1,), length: int | None = None, of: str = "entries"
) -> NDArray[np.float64]:
    """Finite numbers >= 0. With ``ndim=(1, 2)`` one row is taken as a matrix of one row."""
    array = _numbers(name, values)
    if array.ndim not in ndim:
        raise InputError(f"{name} has {array.ndim} dimensions, expected {' or '.join(map(str, ndim))}")
    if 2 in ndim:
        array = np.atleast_2d(array)
    if array.size == 0:
        raise InputError(f"{name} is empty")
    expect_length(name, array.shape[-1], length, of)
    _refuse(name, array, ~np.isfinite(array), "must be finite")
    _refuse(name, array, array < 0, "must not be negative")
    with np.errstate(over="ignore"):
        if not np.isfinite(array.sum()):
            raise InputError(f"{name} sums to more than a float can hold: the largest number is {array.max():g}")
    return frozen(np.ascontiguousarray(array))


def positive(name: str, values: ArrayLike, what: str = "", **expected: Any) -> NDArray[np.float64]:
    """Numbers as `non_negative` returns them, each above 0: each of them is a `what`."""
    array = non_negative(name, values, **expected)
    if (array == 0).any():
        raise InputError(f"{name}[{int(np.argmin(array))}] = 0{what and f': a {what}'} must be above 0")
    return array


def indices(
    name: str, values: ArrayLike, *, length: int, upper: int | None = None, what: str = "index"
) -> NDArray[np.int64]:
    """Whole numbers in 0..upper-1."""
    array = _numbers(name, values)
    not_one = f"is not {'an' if what[0] in 'aeiou' else 'a'} {what}"
    if array.ndim != 1:
        raise InputError(f"{name} has {array.ndim} dimensions, expected 1")
    expect_length(name, array.size, length, "key groups")
    _refuse(name, array, ~np.isfinite(array) | (array != np.floor(array)), f"must be a whole {what} number")
    _refuse(name, array, array < 0, f"{not_one}: it must not be negative")
    _refuse(name, array, array > LARGEST, f"{not_one}: it is too large")
    if upper is not None:
        _refuse(name, array, array >= upper, f"{not_one}: they are numbered 0 to {upper - 1}")
    return frozen(array.astype(np.int64))


def numbered(name: str, values: NDArray[np.int64], upper: int, what: str, least: int = 0) -> None:
    """Refuse whole numbers outside of `least`..upper-1."""
    not_one = f"is not {'an' if what[0] in 'aeiou' else 'a'} {what}"
    _refuse(name, values, (values < least) | (values >= upper), f"{not_one}: they are numbered {least} to {upper - 1}")


def flags(name: str, values: ArrayLike | None, *, length: int) -> NDArray[np.bool_]:
    """Booleans (or 0/1); None means all False."""
    if values is None:
        return frozen(np.zeros(length, dtype=bool))
    array = np.asarray(unlabelled(name, values))
    if array.dtype != bool:
        array = _numbers(name, values)
        if array.ndim == 1:
            _refuse(name, array, (array != 0) & (array != 1), "must be true or false")
    if array.ndim != 1:
        raise InputError(f"{name} has {array.ndim} dimensions, expected 1")
    expect_length(name, array.size, length, "nodes")
    return frozen(array.astype(bool))


def traffic(name: str, values: Any, key_groups: int) -> sp.csr_array:
    """A square sparse matrix of finite numbers >= 0, duplicates summed, explicit zeros dropped."""
    if sp.issparse(values):
        # Another workload's matrix may be large, and cannot change: it is shared.
        shared = isinstance(values, sp.csr_array) and values.has_canonical_format and values.data.all()
        shared = shared and not any(map(_writable, (values.data, values.indices, values.indptr)))
        matrix = sp.csr_array(values, dtype=np.float64, copy=not shared)
    else:
        dense = _numbers(name, values)
        if dense.ndim != 2:
            raise InputError(f"{name} has {dense.ndim} dimensions, expected 2")
        matrix = sp.csr_array(dense)
    if matrix.shape != (key_groups, key_groups):
        said = f"{name} has shape {matrix.shape}, expected {(key_groups, key_groups)}: key groups by key groups"
        raise InputError(said)
    matrix.sum_duplicates()
    for wrong, why in ((~np.isfinite(matrix.data), "must be finite"), (matrix.data < 0, "must not be negative")):
        if wrong.any():
            at = int(np.argmax(wrong))
            row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
            raise InputError(f"{name}[{row}, {matrix.indices[at]}] = {matrix.data[at]:g} {why}")
    if not matrix.data.all():
        matrix.eliminate_zeros()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        frozen(part if part.base is None else part.base)
        frozen(part)
    return matrix


def _writable(array: NDArray[Any]) -> bool:
    """Whether an array, or the array of which it is a view, can be changed."""
    base = array if array.base is None else array.base
    return array.flags.writeable or not isinstance(base, np.ndarray) or base.flags.writeable


def traffic_of_windows(name: str, values: Any, key_groups: int, windows: int) -> tuple[sp.csr_array, ...]:
    """One matrix that stands for all windows, or a matrix for each; see `traffic`."""
    first = values[0] if isinstance(values, list | tuple | np.ndarray) and len(values) else None
    rows = isinstance(first, list | tuple) and len(first) > 0 and isinstance(first[0], list | tuple | np.ndarray)
    if not (rows or sp.issparse(first) or (isinstance(first, np.ndarray) and first.ndim == 2)):
        return (traffic(name, values, key_groups),)
    expect_length(name, len(values), windows, "windows")
    return tuple(traffic(f"{name}[{s}]", matrix, key_groups) for s, matrix in enumerate(values))


def named(name: str, values: Mapping[str, ArrayLike], *, length: int) -> Mapping[str, NDArray[np.float64]]:
    """A read-only mapping of non-negative arrays."""
    if not isinstance(values, Mapping):
        raise InputError(f"{name} must map names to arrays, not be a {type(values).__name__}")
    each = zip(by_text(name, values), values.items(), strict=True)
    made = {text: non_negative(f"{name}[{k!r}]", v, length=length, of="key groups") for text, (k, v) in each}
    return MappingProxyType(made)


def fraction(name: str, text: str) -> Fraction:
    """The exact value of a number written as text: 1.25, 1e-9, 5/4; too many digits are refused."""
    if not _FRACTION.fullmatch(text):
        raise InputError(f"{name} = {text!r:.60} must be a finite number, such as 1.25 or 5/4")
    with refusing(f"{name} = {text!r:.60} must be a finite number: it divides by 0", ZeroDivisionError):
        return Fraction(text)


def as_number(text: str) -> float:
    """A number as a file or a line writes it, or `ValueError`: Python's own reading of 1_0 is 10."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Refuse a value that is none of some words."""
    words = [repr(word) for word in known]
    if value not in known:
        said = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
        raise InputError(f"{name} = {value!r} must be {said}")


@overload
def whole(name: str, value: Any, *, least: int = ..., most: int = ..., optional: Literal[False]) -> int: ...
@overload
def whole(name: str, value: Any, *, least: int = ..., most: int = ...) -> int | None: ...
def whole(name: str, value: Any, *, least: int = 0, most: int = 2**63 - 1, optional: bool = True) -> int | None:
    """One whole number from `least` to `most`, or None where that is allowed."""
    if value is None and optional:
        return None
    given = value.item() if isinstance(value, np.generic) else value
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"{name} = {value!r} must be a whole number")
    if given < least:
        said = f"{name} = {value if given > -(10**40) else 'a long negative number'} must be at least {least}"
        raise InputError(said)
    if given > most:
        raise InputError(f"{name} = {value if given < 10**40 else 'a number of many digits'} must be at most {most}")
    return given


@overload
def real(name: str, value: Any, *, least: float = ..., optional: Literal[False], above: bool = ...) -> float: ...
@overload
def real(name: str, value: Any, *, least: float = ..., above: bool = ...) -> float | None: ...
def real(name: str, value: Any, *, least: float = 0.0, optional: bool = True, above: bool = False) -> float | None:
    """One finite number >= least (> least with ``above``), or None where that is allowed."""
    if value is None and optional:
        return None
    number = not isinstance(value, bool | np.bool_) and isinstance(value, int | float | np.number)
    try:
        given = float(value) if number else np.nan
    except (OverflowError, TypeError):  # a whole number of 400 digits, a complex number
        given = np.inf
    if not np.isfinite(given):
        raise InputError(f"{name} = {value!r:.60} must be a finite number")
    if given < least or (above and given == least):
        raise InputError(f"{name} = {given:g} must be {'above' if above else 'at least'} {least:g}")
    return given


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    values = unlabelled(name, values)
    not_numbers = TypeError, ValueError, OverflowError, RecursionError
    with refusing(f"{name} must be an array of numbers ({{reason}})", *not_numbers):
        given = np.asarray(values)
        # Texts, times and complex numbers are not numbers here, though NumPy converts them.
        if given.dtype.kind not in "biufO":
            raise InputError(f"{name} must be an array of numbers, not of {given.dtype.name}")
        if given.dtype.kind == "O":  # as columns of texts are, and float("1_2") is 12
            texts = np.fromiter((isinstance(v, str | bytes) for v in given.flat), np.bool_, given.size)
            _refuse(name, given, texts.reshape(given.shape), "must be a number")
        return np.array(given, dtype=np.float64)


def _refuse(name: str, array: NDArray[Any], wrong: NDArray[np.bool_], why: str) -> None:
    """Refuse the first wrong entry, with its position and value."""
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        found = {"f": "{:g}", "O": "{!r:.60}"}.get(array.dtype.kind, "{}").format(array[where])
        raise InputError(f"{name}[{', '.join(map(str, where))}] = {found} {why}")


# The ranges that options may have: an annotation says the type and the limits ------------------------------------------


Whole = Annotated[int, Ge(0), Le(LARGEST)]
"""0, 1, 2, ..."""

Count = Annotated[int, Ge(1), Le(LARGEST)]
"""1, 2, 3, ..."""

Threads = Annotated[int, Ge(1), Le(1024)]
"""Threads of one process."""

Finite = Annotated[float, Ge(-1e300), Le(1e300)]
"""Any number but infinity."""

NonNegative = Annotated[float, Ge(0), Le(1e300)]
"""A number >= 0."""

Positive = Annotated[float, Gt(0), Le(1e300)]
"""A number > 0."""

Share = Annotated[float, Ge(0), Le(1)]
"""A number from 0 to 1."""


# What does not fit an annotation, in one sentence ----------------------------------------------------------------------

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

    from keyshift.models.base.schema import sentence

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

"""A problem as JSON, and back: its data and its parameters. Nothing in such a file names code to run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.catalogue.method import FORMULATIONS
from keyshift.models.base.disk import shown
from keyshift.models.base.guards import fraction
from keyshift.models.base.lazily import sp
from keyshift.models.errors import InputError, refusing
from keyshift.models.problem import Problem
from keyshift.models.splitting.stream import Stream
from keyshift.models.workload import Workload


def parameters_of(problem: Problem) -> dict[str, Any]:
    """The parameters of a problem besides its data, as JSON can hold them."""
    return {name: encode(value) for name, value in list(problem.arguments().items())[1:]}


def pose(name: str, data: Any, parameters: Mapping[str, Any]) -> Problem:
    """The problem of that name about a workload or a stream, with parameters as `parameters_of` gives them.

    Raises
    ------
    InputError
        For an unknown name, and for what the problem refuses.
    """
    if not isinstance(name, str) or name not in FORMULATIONS:
        raise InputError(f"problem = {shown(name)}: there are {', '.join(FORMULATIONS)}")
    made: Any = FORMULATIONS[name].problem_class
    of_another_type = TypeError, AttributeError, ValueError, ArithmeticError, LookupError
    with refusing(f"the parameters do not suit {name}: {{reason}}", *of_another_type):
        return made(data, **{key: decode(value) for key, value in parameters.items()})


def problem_record(problem: Problem) -> dict[str, Any]:
    """A whole problem, its data included."""
    data = next(iter(problem.arguments().values()))
    return {"name": problem.name, "data": encode(data), "parameters": parameters_of(problem)}


def problem_of(record: Any) -> Problem:
    """The problem of a record that `problem_record` wrote."""
    if not isinstance(record, dict) or set(record) != {"name", "data", "parameters"}:
        raise InputError("a problem has name, data and parameters")
    if not isinstance(record["parameters"], dict):
        raise InputError("parameters must be a mapping")
    return pose(record["name"], decode(record["data"]), record["parameters"])


def encode(value: Any) -> Any:
    """A value as JSON; kinds that JSON lacks become a mapping with one key, the name of the kind."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Fraction):
        return {"fraction": f"{value.numerator}/{value.denominator}"}
    if isinstance(value, np.ndarray):
        return {"array": encode(value.tolist())}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    if isinstance(value, Mapping):
        return {"mapping": [[encode(k), encode(v)] for k, v in value.items()]}
    if sp.issparse(value):
        pairs = sp.coo_array(value)
        return {"sparse": [list(pairs.shape), pairs.row.tolist(), pairs.col.tolist(), pairs.data.tolist()]}
    if isinstance(value, Workload):
        return {"workload": {name: encode(part) for name, part in value.arguments().items() if part is not None}}
    if isinstance(value, Stream):
        return {"stream": np.concatenate(list(value.chunks())).tolist()}
    raise InputError(f"a {type(value).__name__} cannot be written as JSON")


def decode(value: Any) -> Any:
    """The value of JSON that `encode` wrote.

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise InputError(f"{sorted(value)}: use a single word here")
    ((kind, content),) = value.items()
    if kind not in _DECODERS:
        raise InputError(f"{kind!r} must be one of {', '.join(_DECODERS)}")
    damaged = TypeError, ValueError, ArithmeticError, LookupError, AttributeError
    with refusing(f"not a readable {kind}: {str(content)[:60]}", *damaged):
        return _DECODERS[kind](content)


def _sparse(content: Any) -> sp.csr_array:
    shape, row, col, data = content
    # Rows of the largest sparse matrix that is read: it takes memory for each, however few numbers it holds.
    if max(shape) > (2**24):
        raise InputError(f"a matrix of {shape[0]:,} by {shape[1]:,} is more than {(2**24):,}")
    ends = np.array(row, dtype=int), np.array(col, dtype=int)
    return sp.csr_array((np.array(data, dtype=float), ends), shape=shape)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "fraction": lambda content: fraction("a fraction", str(content)),
    "array": lambda content: np.array(decode(content)),
    "mapping": lambda content: {decode(k): decode(v) for k, v in content},
    "sparse": _sparse,
    "workload": lambda content: Workload(**{name: decode(part) for name, part in content.items()}),
    "stream": lambda content: Stream.of(np.array(content, dtype=np.int64)),
}


# The same data and parameters give the same letters, on any machine ---------------------------------------------


def problem_fingerprint(problem: Problem) -> str:
    """SHA-256 over a problem's name, its data and its parameters, in hexadecimal."""
    digest = hashlib.sha256()
    _add(digest, "problem", problem.name)
    _add(digest, "arguments", problem.arguments())
    return digest.hexdigest()


def _add(digest: Any, name: str, value: Any) -> None:
    """Feed a value under its name; arrays by their bytes, which is quick for millions of keys."""
    digest.update(f"|{name}:".encode())
    if isinstance(value, Workload):
        value = value.arguments()
    if isinstance(value, Mapping):
        for key, part in value.items():
            _add(digest, str(key), part)
    elif isinstance(value, Stream):
        for chunk in value.chunks():
            _add(digest, "chunk", np.asarray(chunk))
    elif sp.issparse(value):
        pairs = sp.csr_array(value)
        for key in ("indptr", "indices", "data"):
            _add(digest, key, getattr(pairs, key))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        number = np.ascontiguousarray(value, dtype="<f8" if value.dtype.kind == "f" else "<i8")
        digest.update(f"{number.shape}".encode())
        digest.update(number.tobytes())
    else:
        digest.update(json.dumps(encode(value)).encode())

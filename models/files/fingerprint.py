"""A problem's fingerprint: the same data and parameters give the same letters, on any machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from keyshift.models.files.problem import encode
from keyshift.models.problem import Problem
from keyshift.models.splitting.stream import Stream
from keyshift.models.workload import Workload


def problem_fingerprint(problem: Problem) -> str:
    """SHA-256 over a problem's name, its data and its parameters, in hexadecimal."""
    digest = hashlib.sha256()
    _add(digest, "problem", problem.name)
    _add(digest, "arguments", problem.arguments())
    return digest.hexdigest()


def _add(digest: Any, name: str, value: Any) -> None:
    """Feed a value under its name; arrays by their bytes, which is quick for millions of keys."""
    import scipy.sparse as sp

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

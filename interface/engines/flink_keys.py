"""Flink's own arithmetic: from a key to its key group, from a key group to the subtask that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from keyshift.models import guards
from keyshift.models.errors import InputError
from keyshift.models.files.reading import shown
from keyshift.models.workload import FloatArray, IntArray
from keyshift.spark_stats.hashing import flink_murmur, java_hash_code

MOST_KEY_GROUPS = 32_768
"""Flink's own limit on the max parallelism."""

Kind = Literal["int", "long", "string"]
ROW_HASH = 62
"""Flink's ``Row.of(key).hashCode()`` less ``key.hashCode()``: 31 for the kind of the row, 31 for the array of one."""
_TYPES = {"int": pa.int32(), "long": pa.int64(), "string": pa.string()}


def key_groups(
    keys: Sequence[str] | ArrayLike, max_parallelism: int = 128, kind: Kind = "string", row: bool = False
) -> IntArray:
    """The key group of each key: ``MathUtils.murmurHash(key.hashCode()) % maxParallelism``.

    Parameters
    ----------
    keys : sequence
    max_parallelism : int, default 128
    kind : {"int", "long", "string"}
        Java's type of the key: Integer, Long or String.
    row : bool, default False
        Hash ``Row.of(key)``, as PyFlink's ``key_by`` does, and not the key itself, as Java's does.

    Raises
    ------
    InputError
        For a null, and for a key that is not of the type.
    """
    groups = read_max_parallelism(max_parallelism)
    if kind not in _TYPES:
        raise InputError(f"kind = {kind!r} must be one of {', '.join(_TYPES)}")
    listed = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)  # type: ignore[arg-type]
    for position, key in enumerate(listed):
        if key is None:
            raise InputError(f"keys[{position}] is null: Flink has no key group for it")
        if not _fits(key, kind):
            raise InputError(f"keys[{position}]: the key {shown(key)} is not {'an' if kind == 'int' else 'a'} {kind}")
    try:
        array = pa.array(listed, _TYPES[kind])
    except (pa.ArrowException, UnicodeEncodeError):
        raise InputError("a key is not a text that UTF-8 can hold") from None
    codes = java_hash_code(array)
    if row:
        codes = (codes.view(np.uint32) + np.uint32(ROW_HASH)).view(np.int32)
    return (flink_murmur(codes) % groups).astype(np.int64)


def _fits(key: object, kind: str) -> bool:
    if kind == "string":
        return isinstance(key, str)
    bits = 31 if kind == "int" else 63
    return isinstance(key, int) and not isinstance(key, bool) and -(2**bits) <= key < 2**bits


def subtasks(groups: ArrayLike, parallelism: int, max_parallelism: int = 128) -> IntArray:
    """The subtask that runs each key group: ``keyGroup * parallelism / maxParallelism``, rounded down.

    The ranges of all subtasks are `keyshift.models.intervals.flink_ranges.default_ranges`.
    """
    most = read_max_parallelism(max_parallelism)
    read_parallelism(parallelism, most)
    found = np.asarray(groups, dtype=np.int64)
    if found.size and not (found.min() >= 0 and found.max() < most):
        raise InputError(f"key groups are numbered 0 to {most - 1}")
    return found * parallelism // most


def default_max_parallelism(parallelism: int) -> int:
    """Flink's default: 1.5 times the parallelism, up to the next power of two, within 128 and 32,768."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << max(wanted - 1, 0).bit_length(), 128), MOST_KEY_GROUPS)


def loads_of(groups: ArrayLike, weights: ArrayLike | None = None, max_parallelism: int = 128) -> FloatArray:
    """Load of each key group: how many keys, or the sum of their weights, shape (max_parallelism,)."""
    found = guards.indices("groups", groups, length=np.size(groups), upper=max_parallelism, what="key group")
    given = None if weights is None else guards.non_negative("weights", weights, length=found.size, of="keys")
    return np.bincount(found, weights=given, minlength=max_parallelism).astype(float)


def read_max_parallelism(max_parallelism: int) -> int:
    """Between 1 and Flink's own limit."""
    most = guards.whole("max_parallelism", max_parallelism, least=1, optional=False)
    if most > MOST_KEY_GROUPS:
        raise InputError(f"max_parallelism = {most}: Flink allows at most {MOST_KEY_GROUPS:,}")
    return most


def read_parallelism(parallelism: int, max_parallelism: int) -> int:
    """Between 1 and the max parallelism."""
    count = guards.whole("parallelism", parallelism, least=1, optional=False)
    if count > max_parallelism:
        raise InputError(f"parallelism = {count} is more than the max parallelism, {max_parallelism}")
    return count

"""Key groups -> nodes: where an engine puts a key group when nobody has planned anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from keyshift.models.errors import InputError

IntArray = NDArray[np.int64]


def ranges(key_groups: int, nodes: int) -> IntArray:
    """Even, contiguous ranges, as Flink lays them out: ``key_group * nodes // key_groups``.

    Source: Apache Flink, `KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup`.
    """
    return np.arange(key_groups, dtype=np.int64) * nodes // key_groups


def modulo(key_groups: int, nodes: int) -> IntArray:
    """Deal the key groups out like cards: ``key_group % nodes``."""
    return np.arange(key_groups, dtype=np.int64) % nodes


PLACEMENTS: dict[str, Callable[[int, int], IntArray]] = {"ranges": ranges, "modulo": modulo}


def placement(name: str, key_groups: int, nodes: int) -> IntArray:
    """Return the node of each key group, 0..nodes-1, shape (key_groups,), under the named placement."""
    if name not in PLACEMENTS:
        raise InputError(f"placement = {name!r} is unknown; there are {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name](key_groups, nodes)

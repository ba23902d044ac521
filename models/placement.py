"""Key groups -> nodes: where an engine puts a key group when nobody has planned anything."""

from __future__ import annotations

import hashlib
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


def consistent(key_groups: int, nodes: int, points: int = 100) -> IntArray:
    """Consistent hashing: each key group runs on the node of the next of its `points` points around the ring.

    A node more moves only the key groups that it takes over. The points are the first 8 bytes of the SHA-256 of
    ``node/point`` and of ``key group``, so the ring is the same everywhere; they are ours, no engine's.

    Source: [Karger1997].
    """
    ring = np.array([_point(f"{node}/{i}") for node in range(nodes) for i in range(points)], dtype=np.uint64)
    order = np.argsort(ring, kind="stable")
    places = np.array([_point(str(group)) for group in range(key_groups)], dtype=np.uint64)
    following = np.searchsorted(ring[order], places) % len(ring)
    return (order[following] // points).astype(np.int64)


def _point(label: str) -> int:
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big")


PLACEMENTS: dict[str, Callable[[int, int], IntArray]] = {"ranges": ranges, "modulo": modulo, "consistent": consistent}


def placement(name: str, key_groups: int, nodes: int) -> IntArray:
    """Return the node of each key group, 0..nodes-1, shape (key_groups,), under the named placement."""
    if name not in PLACEMENTS:
        raise InputError(f"placement = {name!r} is unknown; there are {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name](key_groups, nodes)

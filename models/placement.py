"""Key groups -> nodes: where an engine puts a key group that has not been planned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyshift.models.base.labels import ordered
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


def rehashed(home: ArrayLike, nodes: ArrayLike, first: int) -> IntArray:
    """The hash after nodes were added and removed: a key moves only to a node that was added, or off one that is gone.

    An added node takes an even share of the keys from all others. Each key draws a number for each node and goes to the highest
    [Thaler1998]. The node that the first hash gave has the highest draw of all nodes there were at first: a root of one draw.

    Parameters
    ----------
    home : array_like of int, shape (p,)
        The node that the hash gave each key at first, 0 to first - 1.
    nodes : array_like of int
        The nodes there are now: those of the first that stay, and added ones, whose numbers go on from there.
    first : int
        How many there were at first.
    """
    home = ordered("home", home, None, np.size(home), "keys")
    base, now = np.asarray(home, dtype=np.int64), np.sort(np.asarray(nodes, dtype=np.int64))
    if now.size == 0:
        raise InputError("nodes is empty: the hash needs one")
    key = mixed_bits(np.arange(base.size, dtype=np.uint64))
    made = _highest(key, now[now >= first], base, _draws(key, base) ** (1 / first))
    gone = ~np.isin(made, now)
    made[gone] = _highest(key[gone], now, made[gone], np.full(int(gone.sum()), -1.0))
    return made


def _highest(key: np.ndarray, nodes: IntArray, holder: IntArray, best: NDArray[np.float64]) -> IntArray:
    """The node whose draw is highest; the holder, where none is above its own."""
    made = holder.copy()
    for node in nodes.tolist():
        drawn = _draws(key, node)
        made, best = np.where(drawn > best, node, made), np.maximum(drawn, best)
    return made


def _draws(key: np.ndarray, node: ArrayLike) -> NDArray[np.float64]:
    """A number from 0 to 1 for each key and its node, the same in every run."""
    mixed = mixed_bits(key ^ mixed_bits(np.atleast_1d(node).astype(np.uint64) + np.uint64(2**41)))
    return (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53


def mixed_bits(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 [Steele2014]: a bijection on 64 bits that looks random."""
    x = values * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _point(label: str) -> int:
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big")


PLACEMENTS: dict[str, Callable[[int, int], IntArray]] = {"ranges": ranges, "modulo": modulo, "consistent": consistent}


def placement(name: str, key_groups: int, nodes: int) -> IntArray:
    """The node of each key group, 0..nodes-1, shape (key_groups,), by the placement of that name."""
    if name not in PLACEMENTS:
        raise InputError(f"placement = {name!r} is unknown; there are {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name](key_groups, nodes)

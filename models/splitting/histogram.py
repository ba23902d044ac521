"""How often each key of a stream occurs."""

from __future__ import annotations

from dataclasses import dataclass

from keyshift.models.workload import FloatArray, IntArray


@dataclass(frozen=True)
class Histogram:
    """The different keys in order of first appearance; `messages` and `weight` of each, all of shape (keys,)."""

    keys: IntArray
    messages: IntArray
    weight: FloatArray

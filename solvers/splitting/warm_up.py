"""Compile what the methods of key splitting and key placement need, on streams too short to take time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keyshift.models import Answer
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.solvers.warm_up import rehearse


def compile_splitting(method: Callable[..., Answer]) -> None:
    """Run a method on every kind of stream."""
    rehearse(method, _problems(KeySplitting))


def compile_placement(method: Callable[..., Answer]) -> None:
    """Run a method on every kind of stream, its keys kept whole."""
    rehearse(method, _problems(KeyPlacement))


def _problems(kind: type[KeySplitting]) -> Iterator[KeySplitting]:
    """Weights, speeds, keys without candidates and more than one source have kernels of their own; so have many keys."""
    stream = np.array([5, 1, 5, 2, 3, 5, 4, 1, 6, 5, 2, 7])
    weights = np.linspace(0.5, 2.0, stream.size)
    kinds: list[dict[str, Any]] = [{}, {"choices": None}, {"sources": 2, "feed": "key", "aggregation_period": 4}]
    unequal: list[dict[str, Any]] = [{}, {"weights": weights}, {"workers": [1.0, 2.0, 1.0]}]
    for options in kinds:
        for more in unequal:
            yield kind(stream, **{"workers": 3, **options, **more})
    yield kind(np.arange(1500), workers=3)

"""Instances of key placement."""

from __future__ import annotations

import numpy as np

import keyshift as ks
from instances import splitting

NAME = ks.KeyPlacement.name
NOT_APPLICABLE = splitting.NOT_APPLICABLE


def random_problem(rng: np.random.Generator, messages: int, workers: int) -> ks.KeyPlacement:
    """One random instance, small enough to try every assignment of keys."""
    return ks.KeyPlacement(
        splitting.random_stream(rng, messages, 5), **splitting.random_options(rng, messages, workers)
    )


def battery() -> dict[str, ks.Problem]:
    """The same as for key splitting."""
    return splitting.battery(ks.KeyPlacement)

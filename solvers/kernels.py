"""What compiled searches share: random numbers, from a state of one number that a kernel can carry along, and copies."""

from __future__ import annotations

import numpy as np

from keyshift.models.base.compiling import LEAF, njit


@njit(cache=True, error_model="numpy", _nrt=False)
def uniform(rng):
    """The next random number in [0, 1): xorshift64*, whose state ``rng[0]``, a uint64, must not be 0."""
    x = rng[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    rng[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@njit(**LEAF)
def whole_below(rng, below):
    """A random whole number in 0..below-1."""
    return int(uniform(rng) * below)


def generator(seed: int, stream: int) -> np.ndarray:
    """State of a kernel's random numbers, shape (1,): one for each seed and stream."""
    return np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64) | np.uint64(1)


@njit(**LEAF)
def overwrite(array, values):
    """``array[:] = values``, for which Numba would compile words about shapes that do not fit, a second or two long."""
    for k in range(values.size):
        array[k] = values[k]

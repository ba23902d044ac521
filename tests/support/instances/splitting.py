"""Instances of key splitting."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.KeySplitting.name
NOT_APPLICABLE = {
    "zeros": "every message counts 1 unless it has a weight: see 'weightless'",
    "one node": "nodes are workers here: see 'one worker'",
    "one key group": "key groups are keys here: see 'one key'",
    "draining all but one": "a stream has no state on a node yet, so none can drain",
}


def random_stream(rng: np.random.Generator, messages: int, keys: int) -> np.ndarray:
    """A few messages of a few keys, uniform or skewed."""
    p = 1 / np.arange(1, keys + 1) ** rng.choice([0.0, 1.0, 2.0])
    return rng.choice(rng.integers(-(2**63), 2**63 - 1, keys), messages, p=p / p.sum())


def random_options(rng: np.random.Generator, messages: int, workers: int) -> dict:
    """Every option on or off."""
    return {
        "workers": rng.choice([1.0, 2.0, 0.7], workers) if rng.random() < 0.3 else workers,
        "choices": rng.choice([1, 2, 2, 3, None]),
        "weights": rng.choice([0.0, 1.0, 2.5, 3.0], messages) if rng.random() < 0.4 else None,
        "hash_seed": int(rng.integers(1000)),
    }


def random_problem(rng: np.random.Generator, messages: int, workers: int) -> ks.KeySplitting:
    """One random instance, small enough to try every assignment."""
    return ks.KeySplitting(random_stream(rng, messages, 4), **random_options(rng, messages, workers))


def battery(problem: type[ks.KeySplitting] = ks.KeySplitting) -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""
    rng = np.random.default_rng(11)
    zipf = rng.choice(400, 3000, p=(p := 1 / np.arange(1, 401)) / p.sum())
    few = zipf[:200]
    return {
        "ties": problem([1, 2, 3, 4] * 5, workers=4),
        "weightless": problem([1, 2, 2, 3], workers=3, weights=np.zeros(4)),
        "one worker": problem([5, 5, 7], workers=1),
        "one key": problem([9] * 10, workers=5),
        "one message": problem([9], workers=2, choices=3),
        "texts": problem(np.array(["the", "cat", "and", "the", "dog", "and", "the", "bird"]), workers=3),
        "all open": problem(few, workers=6, choices=None),
        "one choice": problem(few, workers=6, choices=1),
        "weights": problem(few[:40], workers=3, weights=rng.choice([0.5, 1.0, 7.0], 40)),
        "equal weights": problem(few, workers=5, weights=np.full(200, 0.1)),
        "unequal workers": problem(few, workers=[1.0, 3.0, 0.7]),
        "too many workers": problem(zipf, workers=60),
        "billionths": problem(few[:12], workers=3, weights=1e-9 * rng.choice([1.0, 2.5, 3.0], 12)),
        "trillions": problem(few[:12], workers=3, weights=1e11 * rng.choice([1.0, 8.0, 9.0], 12)),
        "mixed scales": problem(few[:12], workers=3, weights=rng.choice([1e-9, 1e-3, 1.0, 3e12, 4e12], 12)),
        "bytes on unequal workers": problem(
            few[:8], workers=[1.0, 3.0, 2.0], weights=1e8 * rng.choice([1.0, 8.0, 9.0], 8)
        ),
        "fast workers": problem(few[:30], workers=[1e6, 1.0, 3e5]),
        "sources": problem(zipf, workers=8, sources=5, feed="key", aggregation_period=100),
        "chunks": problem([zipf[:1000], zipf[1000:]], workers=7, choices=3, sources=3),
    }

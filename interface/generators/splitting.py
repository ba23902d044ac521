"""The key streams of [Nasir2015], section 6.1: Zipf, log-normal, drifting, and sources that are skewed themselves."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import brentq

from keyshift.models.base import guards
from keyshift.models.errors import InputError
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.workload import FloatArray, IntArray

Law = Literal["zipf", "ln1", "ln2", "drift"]

LOGNORMAL = {"ln1": (1.789, 2.366, 16_000), "ln2": (2.245, 1.133, 1_100)}
"""Mean and deviation of the logarithm, and keys. The journal version leaves out the first two: these are from memory of the
conference version (ICDE 2015, section V), from which they should be checked."""
WEEKS, TRENDING = 20, 100
"""The drifting stream: popularity is dealt out anew every week among this many of the most popular keys."""


def draw_keys(rng: np.random.Generator, shares: FloatArray, messages: int) -> IntArray:
    """Keys 0, 1, ... drawn independently; much faster than `Generator.choice` for long streams."""
    edges = np.cumsum(shares)
    keys = np.searchsorted(edges / edges[-1], rng.random(messages), side="right")
    return np.minimum(keys, shares.size - 1).astype(np.int64)


def zipf_shares(keys: int, exponent: float) -> FloatArray:
    """How often each key comes under Zipf's law, shape (keys,), summing to 1."""
    weight = np.arange(1, keys + 1) ** -float(exponent)
    return weight / weight.sum()


def zipf_exponent(keys: int, head: float) -> float:
    """The exponent at which the first key has the given share of the messages: the paper gives that share alone."""
    return float(brentq(lambda x: zipf_shares(keys, x)[0] - head, 0.01, 5))


def log_normal_shares(rng: np.random.Generator, law: str) -> FloatArray:
    """LN1 or LN2, most frequent key first."""
    mu, sigma, keys = LOGNORMAL[law]
    weight = np.sort(rng.lognormal(mu, sigma, keys))[::-1]
    return weight / weight.sum()


def drifting_keys(rng: np.random.Generator, messages: int, keys: int = 2900, head: float = 0.0329) -> IntArray:
    """Like the cashtags: who is popular changes every week, how popular the most popular are does not."""
    shares = zipf_shares(keys, zipf_exponent(keys, head))
    parts = []
    for part in np.array_split(np.arange(messages), WEEKS):
        names = np.arange(keys)
        names[:TRENDING] = rng.permutation(TRENDING)
        parts.append(names[draw_keys(rng, shares, part.size)])
    return np.concatenate(parts)


def key_stream(law: Law, messages: int, *, keys: int = 10_000, exponent: float = 1.0, seed: int = 0) -> IntArray:
    """Keys of a stream, shape (messages,).

    Parameters
    ----------
    law : {"zipf", "ln1", "ln2", "drift"}
    messages : int
    keys : int, default 10,000
        For "zipf" only: the other laws bring their number of keys.
    exponent : float, default 1
        For "zipf".
    seed : int, default 0
    """
    messages = guards.whole("messages", messages, least=1, optional=False)
    rng = np.random.default_rng(seed)
    if law == "zipf":
        keys = guards.whole("keys", keys, least=1, optional=False)
        return draw_keys(rng, zipf_shares(keys, exponent), messages)
    if law in LOGNORMAL:
        return draw_keys(rng, log_normal_shares(rng, law), messages)
    if law == "drift":
        return drifting_keys(rng, messages)
    raise InputError(f"law = {law!r} must be 'zipf', 'ln1', 'ln2' or 'drift'")


def nasir_splitting(
    *,
    seed: int = 0,
    law: Law = "zipf",
    messages: int = 100_000,
    keys: int = 10_000,
    exponent: float = 1.0,
    workers: int = 10,
    choices: int = 2,
    sources: int = 5,
    skewed_sources: bool = False,
) -> KeySplitting:
    """Zipf, log-normal and drifting key streams, from even or skewed sources.

    Split the keys of a stream over workers.

    With ``skewed_sources`` messages come to the sources by a key of their own, Zipf distributed, as edges of a graph
    come by their first vertex (Figure 8); otherwise in turn.

    Source: [Nasir2015], sections 6.1 and 6.2.
    """
    stream = key_stream(law, messages, keys=keys, exponent=exponent, seed=seed)
    by = draw_keys(np.random.default_rng([seed, 1]), zipf_shares(keys, exponent), messages) if skewed_sources else None
    return KeySplitting(
        stream, workers=workers, choices=choices, sources=sources, feed="key" if skewed_sources else "shuffle",
        source_keys=by, hash_seed=seed % 2**31,
    )  # fmt: skip


def nasir_placement(
    *,
    seed: int = 0,
    law: Law = "zipf",
    messages: int = 20_000,
    keys: int = 1_000,
    exponent: float = 1.0,
    workers: int = 10,
    choices: int = 2,
) -> KeyPlacement:
    """The same streams, every key on one worker.

    Place every key of a stream on one worker: what Off-Greedy and PoTC answer.

    Source: [Nasir2015], section 6.2.
    """
    stream = key_stream(law, messages, keys=keys, exponent=exponent, seed=seed)
    return KeyPlacement(stream, workers=workers, choices=choices, hash_seed=seed % 2**31)

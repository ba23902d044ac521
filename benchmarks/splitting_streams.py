"""Streams for the key-splitting benchmark: synthetic ones as in [Nasir2015], section 6.1, words and Wikipedia edits."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

# mu and sigma are missing from the copy of the paper at hand. These are what we remember of its conference version
# (ICDE 2015); we could not verify them.
LOGNORMAL = {"LN1": (1.789, 2.366, 16_000), "LN2": (2.245, 1.133, 1_100)}


def sample(rng, probability, messages):
    """Keys 0, 1, ... drawn independently; much faster than `choice` for long streams."""
    edges = np.cumsum(probability)
    keys = np.searchsorted(edges / edges[-1], rng.random(messages), side="right")
    return np.minimum(keys, probability.size - 1).astype(np.int64)


def zipf(keys, exponent):
    p = np.arange(1, keys + 1) ** -float(exponent)
    return p / p.sum()


def zipf_with_head(keys, head):
    """Zipf frequencies whose first key has the given share of the messages."""
    exponent = brentq(lambda x: zipf(keys, x)[0] - head, 0.01, 5)
    return zipf(keys, exponent), exponent


def lognormal(rng, name):
    mu, sigma, keys = LOGNORMAL[name]
    p = np.sort(rng.lognormal(mu, sigma, keys))[::-1]
    return p / p.sum()


def drifting(rng, messages, keys=2900, head=0.0329, weeks=20):
    """Like the cashtags: popularity is dealt out anew every week among the hundred most popular keys."""
    p, _ = zipf_with_head(keys, head)
    parts = []
    for part in np.array_split(np.arange(messages), weeks):
        names = np.arange(keys)
        names[:100] = rng.permutation(100)
        parts.append(names[sample(rng, p, part.size)])
    return np.concatenate(parts)


def graph(rng, messages, vertices=100_000):
    """Edges of a skewed directed graph: source vertex (out-degree) and destination vertex (in-degree)."""
    out, into = zipf_with_head(vertices, 0.02)[0], zipf_with_head(vertices, 0.0029)[0]
    return sample(rng, out, messages), rng.permutation(vertices)[sample(rng, into, messages)]


def data_folder():
    named = os.environ.get("KEYSHIFT_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


def words(rng, messages):
    """Words sampled from a list of English words with counts; None without the data folder."""
    folder = data_folder()
    if folder is None:
        return None
    counts = [int(line.split("\t")[1]) for line in (folder / "count_1w.txt").read_text().splitlines()]
    p = np.array(counts, dtype=float)
    return sample(rng, p / p.sum(), messages)


def edits(field):
    """Wikipedia edits in file order by page or user, as texts; None without the data folder."""
    folder = data_folder()
    if folder is None:
        return None
    with gzip.open(folder / "wikiticker-2015-09-12-sampled.json.gz", "rt") as file:
        return np.array([json.loads(line)[field] for line in file], dtype=object)

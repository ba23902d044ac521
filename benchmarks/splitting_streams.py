"""Streams for the key-splitting benchmark that are no family of [Nasir2015]'s: a graph, words, Wikipedia edits."""

from __future__ import annotations

import gzip
import json

import numpy as np
from data_folder import data_folder

from keyshift.models.families.splitting import draw_keys, zipf_exponent, zipf_shares


def zipf_with_head(keys, head):
    """Zipf frequencies whose first key has the given share of the messages, and their exponent."""
    exponent = zipf_exponent(keys, head)
    return zipf_shares(keys, exponent), exponent


def graph(rng, messages, vertices=100_000):
    """Edges of a skewed directed graph: source vertex (out-degree) and destination vertex (in-degree)."""
    out, into = zipf_with_head(vertices, 0.02)[0], zipf_with_head(vertices, 0.0029)[0]
    return draw_keys(rng, out, messages), rng.permutation(vertices)[draw_keys(rng, into, messages)]


def words(rng, messages):
    """Words sampled from a list of English words with counts; None without the data folder."""
    folder = data_folder()
    if folder is None:
        return None
    counts = [int(line.split("\t")[1]) for line in (folder / "count_1w.txt").read_text().splitlines()]
    p = np.array(counts, dtype=float)
    return draw_keys(rng, p / p.sum(), messages)


def edits(field):
    """Wikipedia edits in file order by page or user, as texts; None without the data folder."""
    folder = data_folder()
    if folder is None:
        return None
    with gzip.open(folder / "wikiticker-2015-09-12-sampled.json.gz", "rt") as file:
        return np.array([json.loads(line)[field] for line in file], dtype=object)

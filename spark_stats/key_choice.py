"""Which of millions of keys a plan may have to move: chosen home by home, from records of keys that are alike.

A node sheds what is above its limit, its *excess*, and no key has to leave a node that is within it, except to make room.
So of each home are listed

* some keys of every record, to fit the last gaps and to be swapped;
* the heaviest keys that are not more than the excess, until they carry a multiple of it: plans with few table entries;
* those of the most load for their state, likewise: plans that move little state.

Where the lighter keys of a home are less than its excess, one of its heavier keys has to leave, and so the roomiest
nodes need keys that make room for it: these have an excess then, too.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from keyshift.models.errors import InputError
from keyshift.models.workload import FloatArray, IntArray

SOME = 16
"""Keys of a record that are listed in any case, if the number of records allows."""
MULTIPLES = (16.0, 8.0, 4.0, 2.0, 1.25)
"""Of a node's excess, how much the listed keys carry: the first that does not list too many."""


def quotas(records: pd.DataFrame, limit: FloatArray, loads: FloatArray, most: int) -> IntArray:
    """Return how many keys of each record to list, at most `most` in all.

    Parameters
    ----------
    records : DataFrame
        home, load and heaviest (the sum and the largest of its keys' loads), state (about, of each key), count.
    limit, loads : ndarray, shape (n,)
        What each node may carry; what it carries if all keys stay, or go home.

    Raises
    ------
    InputError
        `most` is not even a key of each record, or not enough to shed the excess.
    """
    count = records["count"].to_numpy(dtype=np.int64)
    if count.sum() <= most:
        return count
    if most < 2 * len(records):
        raise InputError(
            f"movable = {most} keys are too few for {len(records)} records of keys alike: raise it, or take a larger degree"
        )
    some = np.minimum(count, min(SOME, most // (2 * len(records))))
    excess = excesses(records, limit, loads)
    for multiple in MULTIPLES:
        wanted = np.maximum(some, walked(records, excess, multiple))
        if wanted.sum() <= most:
            return wanted
    raise InputError(
        f"{wanted.sum()} keys would have to be listed to shed what nodes carry above their limits, more than movable = "
        f"{most}: raise it, or theta_max"
    )


def excesses(records: pd.DataFrame, limit: FloatArray, loads: FloatArray) -> FloatArray:
    """Load that each node has to shed, shape (n,): for its own limit, or to make room for a heavy key."""
    excess = np.maximum(loads - limit, 0.0)
    home, heaviest = records["home"].to_numpy(dtype=np.int64), records["heaviest"].to_numpy(dtype=float)
    light = heaviest <= excess[home]
    carried = np.bincount(home[light], weights=records["load"].to_numpy(dtype=float)[light], minlength=limit.size)
    forced = np.flatnonzero((excess > 0) & (carried < excess))
    leaving = np.sort([heaviest[(home == d) & ~light].min(initial=np.inf) for d in forced])[::-1]
    roomiest = np.argsort(loads - limit, kind="stable")[: leaving.size]
    roomiest, leaving = roomiest[excess[roomiest] == 0], leaving[: int((excess[roomiest] == 0).sum())]
    leaving = np.where(np.isfinite(leaving), leaving, 0.0)
    excess[roomiest] = np.maximum(leaving - (limit - loads)[roomiest], 0.0)
    return excess


def walked(records: pd.DataFrame, excess: FloatArray, multiple: float) -> IntArray:
    """Keys of each record until those before it carry a multiple of the home's excess, in two orders."""
    home, count = records["home"].to_numpy(dtype=np.int64), records["count"].to_numpy(dtype=np.int64)
    load, state = records["load"].to_numpy(dtype=float), records["state"].to_numpy(dtype=float)
    each = load / count
    usable = (records["heaviest"].to_numpy(dtype=float) <= excess[home]) & (each > 0)
    psi = each / np.where(state > 0, state, 1e-300)
    wanted = np.zeros_like(count)
    for order in (np.lexsort((-each, home)), np.lexsort((each, -psi, home))):
        order = order[usable[order]]
        total = np.cumsum(load[order])
        first = np.searchsorted(home[order], home[order])  # where its home's records begin
        before = total - load[order] - (total - load[order])[first]
        missing = np.clip(multiple * excess[home[order]] - before, 0.0, None)
        part = np.minimum(np.ceil(missing / each[order] * (1 - 1e-12)).astype(np.int64), count[order])
        wanted[order] = np.maximum(wanted[order], part)
    return wanted

"""What keys are summarised by, without Spark: HLHE of a distribution, a stream of a histogram."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from keyshift.models.errors import InputError
from keyshift.spark_stats.keys import _room, excesses, messages, quotas


def test_a_histogram_becomes_a_stream_of_all_its_messages():
    keys, counts = np.array([5, 7, 9]), np.array([900, 60, 1])
    chunks = list(messages(keys, counts, chunk=100))
    assert len(chunks) > 5
    assert Counter(np.concatenate(chunks).tolist()) == dict(zip(keys.tolist(), counts.tolist(), strict=True))
    share = [np.count_nonzero(chunk == 5) / chunk.size for chunk in chunks]
    assert min(share) > 0.8  # evenly spread
    assert all((a == b).all() for a, b in zip(chunks, messages(keys, counts, chunk=100), strict=True))


def test_what_the_other_keys_leave_is_the_room_of_the_listed():
    listed = pd.DataFrame({"home": [0, 0, 1], "load": [30.0, 10.0, 5.0]})
    limit = np.full(3, 66.0)
    with pytest.raises(InputError, match="a key carries 30, and beside the keys that are not listed no node has room"):
        _room(np.array([100.0, 72.0, 55.0]), np.full(3, 83.0), listed)
    room, theta = _room(np.array([100.0, 45.0, 35.0]), limit, listed)
    np.testing.assert_allclose(room, [66 - 60, 66 - 40, 66 - 35])
    assert (1 + theta) * 45 == pytest.approx(room.sum())  # so that the limits of the listed keys are the room itself
    with pytest.raises(InputError, match="node 0: the keys that are not listed carry 60, its limit is"):
        _room(np.array([100.0, 45.0, 5.0]), np.full(3, 55.0), listed)


def records_of(keys):
    """One record for each key, of (home, load, state)."""
    made = pd.DataFrame(keys, columns=["home", "load", "state"]).astype({"load": float, "state": float})
    return made.assign(heaviest=made["load"]).groupby(["home", "load", "state"], as_index=False).agg(
        count=("heaviest", "size"), heaviest=("heaviest", "max")
    ).assign(load=lambda r: r["load"] * r["count"])  # fmt: skip


def test_keys_are_listed_where_they_may_have_to_leave():
    rng = np.random.default_rng(0)
    keys = [(int(h), int(w), 1 + int(w) % 7) for h, w in zip(np.minimum(rng.integers(0, 5, 40_000), 3), rng.zipf(2.2, 40_000).clip(max=3000), strict=True)]  # fmt: skip
    records = records_of(keys)
    loads = np.bincount(records["home"], weights=records["load"], minlength=4)
    limit = np.full(4, 1.05 * loads.sum() / 4)
    listed = quotas(records, limit, loads, 12_000)
    assert (listed <= records["count"]).all()
    assert listed.sum() <= 12_000
    each = records["load"] / records["count"]
    carried = np.bincount(records["home"], weights=listed * each, minlength=4)
    assert (carried >= np.maximum(loads - limit, 0)).all()
    assert quotas(records, limit, loads, 40_000).tolist() == records["count"].tolist()  # so few: all of them
    with pytest.raises(InputError, match="too few for"):
        quotas(records, limit, loads, len(records))
    with pytest.raises(InputError, match="keys would have to be listed to shed"):
        quotas(records.assign(count=records["count"] * 1000), limit / 1000, loads, 2 * len(records))


def test_a_node_makes_room_for_a_key_that_has_to_leave_another():
    # Node 0 carries two keys of 70 and little else: one has to go, and no node has room for it as it is.
    records = records_of([(0, 70, 1), (0, 70, 1), (0, 1, 1), *[(1, 1, 1)] * 60, *[(2, 1, 1)] * 66])
    loads, limit = np.array([141.0, 60.0, 66.0]), np.full(3, 95.0)
    np.testing.assert_allclose(excesses(records, limit, loads), [46, 70 - 35, 0])
    listed = quotas(records, limit, loads, 100)
    assert listed[records["home"] == 1].sum() >= 35

"""What keys are summarised by, without Spark: pairs in little memory, HLHE of a distribution, a stream of a histogram."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyshift.models.errors import InputError
from keyshift.models.routing.hlhe import hlhe
from keyshift.models.routing.hlhe_kernel import discretise_counts
from keyshift.spark_stats import heavy_pairs
from keyshift.spark_stats.key_problems import _room, messages

SKEWS = (0.0, 0.5, 1.0, 1.5, 2.5)


def summary(pairs, tasks, capacity, block=heavy_pairs.BLOCK):
    """As Spark does: a summary for each task, then one of the summaries."""
    parts = []
    for part in np.array_split(pairs, tasks):
        batches = [
            pa.record_batch({"src_key": pa.array(chunk[:, 0]), "dst_key": pa.array(chunk[:, 1])})
            for chunk in np.array_split(part, 7)
        ]
        parts += list(heavy_pairs.summarise(batches, capacity, block))
    made = pa.Table.from_batches(heavy_pairs.summarise(parts, capacity, block)).to_pandas()
    final = made["final"].to_numpy()
    taken = int(made.loc[final, "tuples"].sum())
    found = {(a, b): n for a, b, n in made.loc[~final, ["src_key", "dst_key", "tuples"]].itertuples(index=False)}
    return found, taken


@pytest.mark.parametrize("skew", SKEWS)
def test_no_pair_is_off_by_more_than_the_bound(skew):
    rng = np.random.default_rng(int(10 * skew))
    weight = np.arange(1, 301.0) ** -skew
    pairs = rng.choice(300, size=(40_000, 2), p=weight / weight.sum())
    true = Counter(map(tuple, pairs.tolist()))
    for capacity in (20, 200):
        found, taken = summary(pairs, 5, capacity, block=3_000)  # many cuts
        assert len(found) <= capacity
        assert taken <= len(pairs) / (capacity + 1)
        errors = [n - found.get(pair, 0) for pair, n in true.items()]
        assert min(errors) >= 0
        assert max(errors) <= taken
        assert set(found) <= set(true)


def test_few_pairs_are_counted_exactly():
    pairs = np.array([[1, 2], [1, 2], [3, 4]])
    assert summary(pairs, 2, 10) == ({(1, 2): 2, (3, 4): 1}, 0)


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=200),
    st.sampled_from([1, 2, 8, 64]),
    st.sampled_from([1.0, 0.25]),
)
def test_hlhe_of_a_distribution_is_hlhe_of_its_keys(values, degree, unit):
    keys = np.array(values) * unit
    value, count = (part[::-1] for part in np.unique(keys, return_counts=True))
    low, high, upper = discretise_counts(value / value[-1], count, degree)
    made = np.concatenate([np.repeat(high * value[-1], upper), np.repeat(low * value[-1], count - upper)])
    np.testing.assert_allclose(np.sort(made), np.sort(hlhe(keys, degree)), rtol=1e-12)


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
    with pytest.raises(InputError, match="a key carries 30, and beside the keys that are not listed no node has room"):
        _room(np.array([100.0, 72.0, 55.0]), listed, 3, 0.1)
    room, theta = _room(np.array([100.0, 45.0, 35.0]), listed, 3, 0.1)
    np.testing.assert_allclose(room, [66 - 60, 66 - 40, 66 - 35])
    assert (1 + theta) * 45 == pytest.approx(room.sum())  # so that the limits of the listed keys are the room itself
    room, _ = _room(np.array([100.0, 45.0, 35.0]), listed, [2.0, 1.0, 1.0], 0.1)
    np.testing.assert_allclose(room, [99 - 60, 49.5 - 40, 49.5 - 35])
    with pytest.raises(InputError, match="node 0: the keys that are not listed carry 60, its limit is"):
        _room(np.array([100.0, 45.0, 5.0]), listed, 3, 0.1)

"""Statistics of single keys, compact records, and transition matrices."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from keyshift.models import InputError
from keyshift.models.placement import placement
from keyshift.models.routing.hlhe import hlhe
from keyshift.spark_stats import Operator, Topology, collect_keys, node_counts, transition_matrix


@pytest.mark.spark
def test_keys_and_compact_records(spark):
    rng = np.random.default_rng(3)
    words = [f"w{int(40 * rng.random() ** 3)}" for _ in range(400)]
    log = spark.createDataFrame([(w, 3) for w in words], "word string, size int")
    keys = collect_keys(log, Topology([Operator("count", key="word", state="size")]), "count", key_groups=8)
    counts = Counter(words)
    assert keys.distinct() == len(counts)
    top = keys.top(5)
    expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert list(zip(top["key"], top["load"], strict=True)) == expected
    assert (top["state"] == 3 * top["load"]).all()

    records = keys.compact(nodes=3, degree=4)
    assert records["count"].sum() == len(counts)
    reps = np.repeat(records["load"].to_numpy(), records["count"])
    np.testing.assert_array_equal(np.sort(reps), np.sort(hlhe(np.array(list(counts.values()), dtype=float), 4)))
    homes = placement("ranges", 8, 3)
    groups = {row.key: row.key_group for row in keys.frame.collect()}
    per_home = Counter(int(homes[groups[w]]) for w in counts)
    assert records.groupby("home")["count"].sum().to_dict() == dict(per_home)
    assert (records["planned"] == records["home"]).all()
    with pytest.raises(InputError, match="max_rows = 2"):
        keys.compact(nodes=3, max_rows=2)
    with pytest.raises(InputError, match="R = 3 must be a power of two"):
        keys.compact(nodes=3, degree=3)


def test_transitions_by_hand():
    counts = node_counts([10, 20, 30, 30, 10], 2, 4)
    np.testing.assert_array_equal(counts, [2, 3, 4, 4, 2])
    assert transition_matrix(counts) == {2: {3: 1.0}, 3: {4: 1.0}, 4: {2: 1.0}}
    assert transition_matrix(counts, changes_only=False)[4] == {4: 0.5, 2: 0.5}
    assert transition_matrix([2, 3], smoothing=1.0) == {2: {3: 1.0}, 3: {2: 1.0}}
    assert transition_matrix([2, 3, 4, 2], smoothing=1.0)[2] == {3: 2 / 3, 4: 1 / 3}
    assert transition_matrix([5, 5]) == {5: {5: 1.0}}
    np.testing.assert_array_equal(node_counts([7, 7], 2, 4), [2, 2])
    with pytest.raises(InputError, match="at least two windows"):
        transition_matrix([3])

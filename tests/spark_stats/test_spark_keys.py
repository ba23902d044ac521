"""Statistics of single keys against a recomputation in pandas, and the problems they become."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_frames import frame

import keyshift as ks
from keyshift.models import InputError
from keyshift.models.placement import placement
from keyshift.spark_stats import Operator, Topology, collect, collect_keys, node_counts, statistics, transition_matrix

CHAIN = Topology(
    [Operator("user", key="user", cost="size", state="size", windows=2), Operator("page", key="page", bytes="size")],
    [("user", "page")],
)
KEYS = st.one_of(st.none(), st.text(max_size=4), st.sampled_from(["a", "b,c", "d\ne", "é"]))
ROWS = st.lists(st.tuples(st.integers(0, 3), KEYS, st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=60)


def frame_of(rows):
    table = pd.DataFrame(rows, columns=["hour", "user", "page", "size"])
    return table.astype({"user": object}).where(table.notna(), None)


def check(spark, rows):
    """Load, state and traffic of every key, in pandas."""
    table = frame_of(rows)
    events = frame(
        spark,
        [(h, u, p, s) for h, u, p, s in table.itertuples(index=False)],
        "hour int, user string, page long, size int",
    )
    accepted = table[table["user"].notna()]
    with collect(events, CHAIN, time="timestamp_seconds(3600 * hour)", window="1 hour", key_groups=4) as stats:
        if accepted.empty:
            with pytest.raises(InputError, match="accepts no tuple"):
                stats.keys("user")
            return
        keys = stats.keys("user")
        last = accepted["hour"].max()
        assert keys.number == last
        recent = accepted[accepted["hour"] > last - 2]
        inside = recent[recent["hour"] == last]
        found = keys.frame.toPandas().set_index("key")
        assert found["state"].to_dict() == recent.groupby("user")["size"].sum().to_dict()
        assert found.loc[found["tuples"] > 0, "load"].to_dict() == inside.groupby("user")["size"].sum().to_dict()
        series = keys.series.toPandas()
        hour = (pd.to_datetime(series["window_start"], utc=True) - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(hours=1)
        assert Counter(zip(hour, series["key"], series["tuples"], strict=True)) == Counter(
            (h, u, n) for (h, u), n in accepted.groupby(["hour", "user"]).size().items()
        )
        pairs = inside.groupby(["user", "page"])["size"].agg(["size", "sum"])
        got = keys.traffic().toPandas().set_index(["src_key", "dst_key"])
        assert got["tuples"].to_dict() == pairs["size"].to_dict()
        heavy, others = keys.heavy_traffic(capacity=2)
        ordered = sorted(pairs["size"].items(), key=lambda pair: (-pair[1], pair[0]))
        assert [((a, b), n) for a, b, n in heavy.itertuples(index=False)] == ordered[:2]
        assert others == sum(n for _, n in ordered[2:3])


@pytest.mark.spark
def test_keys_agree_with_the_recomputation(spark):
    rng = np.random.default_rng(5)
    users = ["a", "b,c", "d\ne", "é", None]
    check(
        spark,
        [(int(rng.integers(4)), users[rng.integers(5)], int(rng.integers(7)), int(rng.integers(9))) for _ in range(80)],
    )


@pytest.mark.spark
@pytest.mark.slow
def test_keys_agree_with_the_recomputation_on_random_logs(spark):
    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(ROWS)
    def run(rows):
        check(spark, rows)

    run()


@pytest.mark.spark
def test_keys_and_their_problem(spark):
    rng = np.random.default_rng(3)
    words = [f"w{int(40 * rng.random() ** 3)}" for _ in range(400)]
    log = frame(spark, [(w, 3) for w in words], "word string, size int")
    keys = collect_keys(log, Topology([Operator("count", key="word", state="size")]), "count", key_groups=8).persist()
    counts = Counter(words)
    assert keys.distinct() == len(counts)
    top = keys.top(5)
    expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert list(zip(top["key"], top["load"], strict=True)) == expected
    assert (top["state"] == 3 * top["load"]).all()

    homes = placement("ranges", 8, 3)
    groups = {row.key: row.key_group for row in keys.frame.collect()}
    with pytest.raises(InputError, match="R = 3 must be a power of two"):
        keys.mixed_routing(3, 0.2, degree=3)

    # The same keys as problems.
    routing = keys.mixed_routing(3, 0.2, degree=4, movable=38, exceptions={"w0": (homes[groups["w0"]] + 1) % 3})
    w = routing.workload
    assert w.key_groups < len(counts)
    assert dict(zip(w.keys, w.load[0], strict=True)).items() <= counts.items()
    others = np.zeros(3)
    for word, n in counts.items():
        others[homes[groups[word]]] += 0 if word in w.keys else n
    np.testing.assert_allclose(
        routing.upper + others, np.full(3, 1.2 * 400 / 3)
    )  # the limit of all keys, for every node
    at = w.keys.index("w0")
    assert w.current[at] == (w.home[at] + 1) % 3
    with pytest.raises(InputError, match="more than max_rows = 5 records of keys alike"):
        keys.mixed_routing(3, 0.2, max_rows=5)
    with pytest.raises(InputError, match=r"exceptions\['w0'\] = 3 is not a node"):
        keys.mixed_routing(3, 0.2, exceptions={"w0": 3})
    with pytest.raises(InputError, match="on the upper side only"):
        keys.mixed_routing(3, 0.2, sides="both")

    splitting = keys.key_splitting(4)
    assert (splitting.messages, splitting.workers) == (400, 4)
    assert splitting.histogram.messages.sum() == 400
    direct = ks.KeySplitting(np.array(words), workers=4)
    assert sorted(splitting.histogram.messages) == sorted(direct.histogram.messages)
    assert keys.key_placement(4).total_weight == 400
    workload = keys.workload(3)
    assert dict(zip(workload.keys, workload.load[0], strict=True)) == counts
    keys.close()


@pytest.mark.spark
def test_windows_become_periods_and_transitions(spark, monkeypatch):
    rows = [(h, f"u{i % 7}", i % 3, 1) for h, n in enumerate([4, 8, 12, 0, 12]) for i in range(n)]
    events = frame(spark, rows, "hour int, user string, page long, size int")
    with collect(events, CHAIN, time="timestamp_seconds(3600 * hour)", window="1 hour", key_groups=4) as stats:
        series = list(stats.workloads(nodes=3, draining=[2]))
        assert series[-1].draining.tolist() == [False, False, True]
        assert [w.load.sum() / 2 for w in series] == [4, 8, 12, 0, 12]
        whole = stats.workload(nodes=3)
        np.testing.assert_array_equal(series[-1].state, whole.state)
        assert (series[-1].traffic != whole.traffic).nnz == 0
        assert series[1].state[:4].sum() == 12  # the user operator keeps two windows
        for most, blocks in ((1, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]), (20, [(0, 1), (2, 3), (4, 4)])):
            monkeypatch.setattr(statistics, "BLOCK_ROWS", most)
            rows = statistics.RowsInSpark(stats, stats.added, 100)
            assert [*dict.fromkeys((rows.first, rows.end) for w in range(5) for _ in [rows.between(w, w)])] == blocks
        for one, other in zip(series, stats.workloads(nodes=3, draining=[2]), strict=True):
            np.testing.assert_array_equal(one.load, other.load)
            np.testing.assert_array_equal(one.state, other.state)
            assert (one.traffic != other.traffic).nnz == 0
        # 24 units at most, 4 nodes: 6 a node; loads 8, 16, 24, 0, 24 need 2, 3, 4, 1, 4 nodes
        assert stats.transitions(1.0, most=4) == {1: {4: 1.0}, 2: {3: 1.0}, 3: {4: 1.0}, 4: {1: 1.0}}
        assert stats.transitions(0.5, node_capacity=12) == {1: {4: 1.0}, 2: {3: 1.0}, 3: {4: 1.0}, 4: {1: 1.0}}
        for wrong in ({"most": 2, "least": 3}, {}, {"node_capacity": 0.0}):
            with pytest.raises(InputError):
                stats.transitions(0.5, **wrong)
        with pytest.raises(InputError, match="name the operator of the keys"):
            stats.keys()
        with pytest.raises(InputError, match="sends to no operator"):
            stats.keys("page").traffic()


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

"""What runs inside Spark's tasks, called directly: tallies against pandas, HLHE against the NumPy version."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyshift.models.routing.hlhe import discretise_counts
from keyshift.spark_stats import tables, tallies
from keyshift.spark_stats.bit_fields import layout, packed, unpacked
from keyshift.spark_stats.tallies import ARRIVED, LATE, REFUSED, TallyPlan, group_sum

PLAN = TallyPlan(operators=2, edges=((0, 1),), sums=(("cost",), ("cost", "state"), ()))


def tuples(rng, n):
    """Random facts as one task sees them: window, why refused, the key group of each operator or -1, measures."""
    refused = rng.choice([0, 0, 0, 0, 5, -1, LATE], n)
    passes = refused == 0
    return pd.DataFrame(
        {
            "window": rng.integers(0, 3, n),
            "refused": refused,
            "group_0": np.where(passes & (rng.random(n) < 0.9), rng.integers(0, 4, n), -1),
            "group_1": np.where(passes & (rng.random(n) < 0.7), rng.integers(0, 4, n), -1),
            "cost": rng.integers(0, 100, n),
            "state": rng.integers(0, 1000, n),
        }
    )


def rows_of(batches):
    frames = [batch.to_pandas() for batch in tallies.unpack(batches, PLAN.width)]
    return pd.concat(frames).sort_values(["window", "kind", "a", "b"]).reset_index(drop=True)


def expected_of(frame):
    found = []
    there = frame[(frame["refused"] != -1) & (frame["refused"] != -2) & (frame["refused"] != LATE)]
    found += [(w, ARRIVED, 0, 0, len(part), 0, 0) for w, part in there.groupby("window")]
    wrong = frame[frame["refused"] != 0]
    found += [
        (w, REFUSED, code, int(code in (-1, -2)), len(part), 0, 0)
        for (w, code), part in wrong.groupby(["window", "refused"])
    ]
    for o, sums in enumerate((("cost",), ("cost", "state"))):
        part = there[there[f"group_{o}"] >= 0]
        for (w, g), rows in part.groupby(["window", f"group_{o}"]):
            totals = [int(rows[name].sum()) for name in sums]
            found.append((w, o, g, 0, len(rows), *totals, *[0] * (2 - len(totals))))
    both = there[(there["group_0"] >= 0) & (there["group_1"] >= 0)]
    found += [(w, 2, a, b, len(rows), 0, 0) for (w, a, b), rows in both.groupby(["window", "group_0", "group_1"])]
    columns = ["window", "kind", "a", "b", "tuples", "sum_0", "sum_1"]
    return pd.DataFrame(found, columns=columns).sort_values(columns[:4]).reset_index(drop=True)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 200), tasks=st.integers(1, 4))
def test_tallies_of_several_tasks_add_up(seed, n, tasks):
    frame = tuples(np.random.default_rng(seed), n)
    packed = []
    for part in np.array_split(np.arange(n), tasks):
        batches = [
            pa.RecordBatch.from_pandas(frame.iloc[half], preserve_index=False) for half in np.array_split(part, 2)
        ]
        packed += list(tallies.count(batches, PLAN))
    found = rows_of(tallies.merge(packed))
    pd.testing.assert_frame_equal(found, expected_of(frame), check_dtype=False)


def test_blocks_and_pieces_do_not_show():
    frame = tuples(np.random.default_rng(1), 300)
    batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
    packed = list(tallies.count([batch.slice(i, 40) for i in range(0, 300, 40)], PLAN, block=50, pack=3))
    pd.testing.assert_frame_equal(rows_of(tallies.merge(packed, pack=3)), expected_of(frame), check_dtype=False)


@pytest.mark.parametrize("spread", [1, 1_000, 2**20, 2**45])
@given(seed=st.integers(0, 2**32), n=st.integers(0, 60))
def test_grouping_equals_pandas(spread, seed, n):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-2, 2, n) * spread, rng.integers(0, 3, n)
    values = rng.integers(-(2**58), 2**58, n) if seed % 2 else rng.integers(0, 9, n)
    (found_a, found_b), (counts, sums) = group_sum([a, b], [None, values])
    truth = pd.DataFrame({"a": a, "b": b, "v": values}).groupby(["a", "b"])["v"].agg(["size", "sum"]).reset_index()
    for found, name in ((found_a, "a"), (found_b, "b"), (counts, "size"), (sums, "sum")):
        np.testing.assert_array_equal(found, truth[name].to_numpy())
    (alone, _), (only,) = group_sum([a, b], [None])
    np.testing.assert_array_equal(alone, truth["a"])
    np.testing.assert_array_equal(only, truth["size"])


@pytest.mark.parametrize("spread", [1, 2**30])
def test_a_sum_that_leaves_64_bits_is_refused(spread):
    a = np.array([0, spread, spread] * 4, dtype=np.int64)
    with pytest.raises(OverflowError, match="does not fit in 64 bits"):
        group_sum([a], [np.full(12, 2**61)])


def test_too_many_combinations_are_refused():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2**40, 50) for _ in range(20)]
    with pytest.raises(OverflowError, match="too many to be numbered"):
        group_sum(columns, [None])


def test_the_papers_example_ends_with_deviation_0():
    value, keys = np.array([8, 6, 3, 2, 1.0]), np.array([1, 1, 1, 2, 5])
    low, high, upper = discretise_counts(value, keys, 4)
    assert (low * (keys - upper) + high * upper).sum() == (value * keys).sum()


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_tables_hold_what_the_tallies_say(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(tables, "PIECE", piece)
    frame = tuples(np.random.default_rng(4), 300)
    batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
    packed = list(tallies.merge(tallies.count([batch], PLAN), pack=3))
    starts = np.arange(3), 3_600_000_000 * np.arange(3)
    measures = {"loads": ((3,), (3,)), "states": ((2,), (3, 4)), "sizes": ((),)}
    plan = tables.TablePlan(str(tmp_path), 1, "window", starts, PLAN.edges, **measures)
    assert list(tables.write(iter(packed), plan)) == list(tallies.summarise(packed, 1))
    truth = expected_of(frame)
    for window in range(3):
        own = truth[truth["window"] == window]
        files = {name: tmp_path / name / f"window={window}" for name in ("load", "arrivals", "traffic")}
        assert all([file.name for file in folder.iterdir()] == [tables.FILE.format(0)] for folder in files.values())
        found = {name: pq.read_table(folder / tables.FILE.format(0)).to_pandas() for name, folder in files.items()}
        assert {t.timestamp() for part in found.values() for t in part["window_start"]} == {3600 * window}
        assert found["arrivals"]["tuples"].tolist() == own.loc[own["kind"] == ARRIVED, "tuples"].tolist()
        load, rows = found["load"], own[own["kind"].isin([0, 1])]
        for name, column in {"operator": "kind", "key_group": "a", "tuples": "tuples", "load": "sum_0"}.items():
            assert load[name].tolist() == rows[column].tolist()
        first = (load["operator"] == 0).to_numpy()
        assert load["state_whole"].tolist() == np.where(first, rows["tuples"], 0).tolist()
        for name, column in {"state_high": "sum_0", "state_low": "sum_1"}.items():
            assert load[name].tolist() == np.where(first, 0, rows[column]).tolist()
        pairs, rows = found["traffic"], own[own["kind"] == 2]
        names = {"src_key_group": "a", "dst_key_group": "b", "tuples": "tuples"}
        assert all(pairs[name].tolist() == rows[column].tolist() for name, column in names.items())
        assert pairs["bytes"].isna().all()
        assert (pairs["src_operator"] == 0).all()
        assert (pairs["dst_operator"] == 1).all()


@pytest.mark.spark
def test_columns_that_share_64_bits_come_back(spark):
    rng = np.random.default_rng(4)
    ranges = {"window": (-(2**32), 2**32), "group_0": (-1, 399), "wide": (-(2**63), 2**63 - 1), "one": (7, 7)}
    ranges |= {"refused": (-4, 80), "most": (0, 2**61), "group_1": (-1, 0)}
    packs = layout(ranges)
    assert [[field.name for field in pack] for pack in packs] == [
        ["window", "group_0", "one", "refused", "group_1"],
        ["wide"],
        ["most"],
    ]
    frame = pd.DataFrame({n: rng.integers(*b, 1000, endpoint=True) for n, b in ranges.items()} | {"value": 5})
    frame.iloc[0, :-1], frame.iloc[1, :-1] = zip(*ranges.values(), strict=True)
    sent = packed(spark.createDataFrame(frame), packs).toPandas()
    assert sent.columns.tolist() == ["pack_0", "pack_1", "pack_2", "value"]
    back = unpacked(pa.Table.from_pandas(sent), packs)
    pd.testing.assert_frame_equal(pd.DataFrame(back)[frame.columns.tolist()], frame.astype("int64"))

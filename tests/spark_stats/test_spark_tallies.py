"""What runs inside Spark's tasks, called directly: tallies against pandas, HLHE against the NumPy version."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyshift.spark_stats import tallies
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
    """What the tasks gave, added up as Spark does."""
    return pd.concat([batch.to_pandas() for batch in batches]).groupby(PLAN.keys).sum().reset_index()


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
    made = []
    for part in np.array_split(np.arange(n), tasks):
        batches = [
            pa.RecordBatch.from_pandas(frame.iloc[half], preserve_index=False) for half in np.array_split(part, 2)
        ]
        made += list(tallies.count(batches, PLAN))
    pd.testing.assert_frame_equal(rows_of(made), expected_of(frame), check_dtype=False)


def test_blocks_and_batches_do_not_show(monkeypatch):
    monkeypatch.setattr(tallies, "BATCH", 3)
    frame = tuples(np.random.default_rng(1), 300)
    batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
    made = list(tallies.count([batch.slice(i, 40) for i in range(0, 300, 40)], PLAN, block=50))
    assert max(batch.num_rows for batch in made) == 3
    pd.testing.assert_frame_equal(rows_of(made), expected_of(frame), check_dtype=False)


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

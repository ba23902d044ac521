"""What is measured of an assignment of messages, and the chooser that reads it."""

from __future__ import annotations

import collections

import numpy as np
import pandas as pd
import pytest
from data_folder import data_folder

import keyshift as ks
from keyshift.models.splitting.data import KeyIndex
from keyshift.models.splitting.problem import jaccard


@pytest.mark.parametrize("case", range(8))
def test_outcome_equals_its_definition(case):
    rng = np.random.default_rng(case)
    m, workers, period = 700, 6, int(rng.integers(1, 200))
    keys = rng.choice(40, m)
    weights = rng.integers(0, 5, m) / 4 if case % 2 else None
    speeds = rng.choice([1.0, 2.0, 0.5], workers) if case % 3 else np.ones(workers)
    problem = ks.KeySplitting(
        keys, workers=speeds, choices=None, weights=weights, aggregation_period=period if case > 1 else None
    )
    sent = rng.integers(0, workers, m)
    y = np.ones(m) if weights is None else weights
    loads = np.cumsum(np.eye(workers)[sent] * y[:, None], axis=0)
    imbalance = (loads / speeds).max(axis=1) - loads.sum(axis=1) / speeds.sum()
    outcome = problem.outcome(sent, points=m)
    np.testing.assert_allclose(outcome.imbalance, imbalance, atol=1e-9)
    np.testing.assert_array_equal(outcome.times, np.arange(1, m + 1))
    np.testing.assert_allclose(outcome.loads, loads[-1] / speeds)
    figures = ks.check(problem, sent).metrics
    assert figures["average_imbalance"] == pytest.approx(imbalance.mean() / y.sum(), rel=1e-9)
    assert figures["final_imbalance"] == pytest.approx(imbalance[-1] / y.sum(), abs=1e-12)
    pairs = set(zip(keys.tolist(), sent.tolist(), strict=True))
    assert figures["counters"] == len(pairs)
    assert outcome.counters.tolist() == [sum(w == i for _, w in pairs) for i in range(workers)]
    assert figures["keys"] == len(set(keys.tolist()))
    if case > 1:
        flushed = {(t // period, k, w) for t, (k, w) in enumerate(zip(keys.tolist(), sent.tolist(), strict=True))}
        assert figures["aggregator_messages"] == len(flushed)
    coarse = problem.outcome(sent, points=10)
    np.testing.assert_array_equal(coarse.imbalance, outcome.imbalance[coarse.times - 1])
    assert coarse.times.size <= 10


def test_partitioner_and_outcome_agree_on_the_average():
    rng = np.random.default_rng(5)
    keys = rng.choice(100, 5000)
    for weights, workers in ((None, 7), (rng.random(5000), 7), (None, [1.0, 2.0, 3.0])):
        p = ks.Partitioner("pkg", workers, sources=3)
        sent = p.feed(keys, weights)
        outcome = ks.KeySplitting(keys, workers=workers, weights=weights).outcome(sent)
        assert p.average_imbalance == pytest.approx(outcome.average_imbalance, rel=1e-9)
        np.testing.assert_allclose(p.loads, outcome.loads)


def test_counters_of_the_schemes_keep_the_papers_order():
    p = 1 / np.arange(1, 2001)
    keys = np.random.default_rng(8).choice(2000, 60_000, p=p / p.sum())
    problem = ks.KeySplitting(keys, workers=20, aggregation_period=10_000)
    counters = {m: ks.solve(problem, m).metrics for m in ("hash", "pkg", "shuffle")}
    n = counters["hash"]["keys"]
    assert counters["hash"]["counters"] == n
    assert n < counters["pkg"]["counters"] <= 2 * n < counters["shuffle"]["counters"] <= 20 * n
    flushed = [counters[m]["aggregator_messages"] for m in ("hash", "pkg", "shuffle")]
    assert flushed == sorted(flushed)


def test_jaccard():
    assert jaccard(np.array([1, 2, 3]), np.array([1, 2, 3])) == 1
    assert jaccard(np.array([1, 2, 3]), np.array([1, 0, 0])) == 1 / 5  # one pair of five


def test_key_index_numbers_in_order_of_appearance():
    rng = np.random.default_rng(2)
    index, seen = KeyIndex(2), {}
    for _ in range(20):
        keys = rng.integers(-(2**63), 2**63 - 1, 50)[rng.integers(0, 50, 100)]
        expected = [seen.setdefault(k, len(seen)) for k in keys.tolist()]
        np.testing.assert_array_equal(index.number(keys), expected)
    assert index.count == len(seen)
    assert index.keys.tolist() == list(seen)
    assert index.find(np.array([*list(seen)[:3], 12345])).tolist() == [0, 1, 2, -1]


def test_histogram():
    keys = np.random.default_rng(3).integers(0, 30, 500)
    weights = np.arange(500) / 8
    known = ks.KeySplitting(keys, weights=weights).histogram
    assert dict(zip(known.keys.tolist(), known.messages.tolist(), strict=True)) == collections.Counter(keys.tolist())
    np.testing.assert_allclose(known.weight, [weights[keys == k].sum() for k in known.keys])
    np.testing.assert_array_equal(ks.KeySplitting(keys).histogram.weight, known.messages)


def test_the_chooser_finds_the_least_choices_and_the_keys_to_split():
    counts = (1e5 / np.arange(1, 2001) ** 1.3).astype(int)
    advice = ks.choose_splitting(counts, workers=40, target=0.002)
    assert [o.choices for o in advice.options] == list(range(advice.options[0].choices, advice.choices + 1))
    assert all(o.optimum > 0.002 or o.online > 0.002 for o in advice.options[:-1])
    assert advice.options[-1].online <= 0.002
    keys = np.repeat(np.arange(2000), counts)
    for option in advice.options:
        problem = ks.KeySplitting(keys, workers=40, choices=option.choices)
        best = ks.solve(problem)
        assert option.optimum == pytest.approx(best.metrics["final_imbalance"])
        assert best.metrics["counters"] <= option.counters
    assert advice.plan_imbalance <= 0.002
    assert 2000 <= advice.plan_counters <= 2000 + sum(advice.split.values())
    assert advice.plan_counters < advice.options[-1].counters / 5  # splitting the head alone is far cheaper
    assert max(advice.split, key=advice.split.get) == 0


def test_the_chooser_reads_names_and_gives_up_honestly():
    advice = ks.choose_splitting({"the": 60, "of": 20, "and": 20, "never": 0}, workers=4, target=0.01, most_choices=2)
    assert advice.choices is None
    assert advice.split["the"] >= 3
    assert advice.options[-1].online is None
    alone = ks.choose_splitting([5], workers=1, target=0.1)
    assert (alone.choices, alone.split, alone.plan_counters) == (1, {}, 1)
    large = ks.choose_splitting([10**9, 10**9], workers=2, target=0.01)
    assert large.plan_imbalance == 0
    for bad, says in (([0, 0], "no message"), ({"a": 1.5}, "'a'"), ([-1], "negative")):
        with pytest.raises(ks.InputError, match=says):
            ks.choose_splitting(bad, workers=2)


def test_words_are_balanced_as_their_head_share_says():
    folder = data_folder()
    if folder is None:
        pytest.skip("no folder of test data: set KEYSHIFT_TEST_DATA")
    table = pd.read_csv(folder / "count_1w.txt", sep="\t", names=["word", "count"], keep_default_na=False)
    p = table["count"].to_numpy(float) / table["count"].sum()
    words = np.random.default_rng(0).choice(table["word"].to_numpy(object), 50_000, p=p)
    few, many = int(1 / p[0]), int(8 / p[0])
    balanced = ks.solve(ks.KeySplitting(words, workers=few), "pkg")
    crowded = ks.KeySplitting(words, workers=many)
    assert balanced.metrics["average_imbalance"] < 1e-3
    assert ks.solve(crowded, "pkg").metrics["final_imbalance"] > 1e-2
    assert ks.solve(crowded).objective >= p[0] / 2.1 * words.size


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("most", [4, 50, 10**9, -1])
def test_pairs_are_met_however_keys_look(most, numbered):
    from keyshift.models.splitting.data import KeyWorkerPairs
    from keyshift.models.splitting.hashing import candidates

    rng = np.random.default_rng(abs(most))
    for choices, at_random in ((0, 1.0), (2, 0.0), (2, 0.05), (3, 0.0), (3, 0.05)):
        met, pairs = set(), KeyWorkerPairs((np.uint64(5), np.uint64(7), choices), numbered=numbered)
        for _ in range(6):
            keys = rng.integers(min(most, 0), max(1, most), 30) if rng.random() < 0.7 else rng.integers(0, 3, 5)
            of_key = candidates(keys, 7, max(1, choices), 5)
            sent = of_key[np.arange(keys.size), rng.integers(0, of_key.shape[1], keys.size)].astype(np.int32)
            sent = np.where(rng.random(keys.size) < at_random, rng.integers(0, 7, keys.size), sent).astype(np.int32)
            met |= set(zip(keys.tolist(), sent.tolist(), strict=True))
            numbers = pairs.add(keys, sent)
            assert (numbers is not None) or not numbered
            assert pairs.count == len(met)
        assert pairs.keys == len({key for key, _ in met})
        assert pairs.counters.tolist() == [sum(worker == w for _, worker in met) for w in range(7)]
        strange = [worker not in candidates(np.array([key]), 7, max(1, choices), 5)[0] for key, worker in met]
        assert pairs.strangers == (choices > 0 and any(strange))

"""The partitioners against plain Python, message by message, and what the paper claims of them."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
from instances import splitting

import keyshift as ks
from keyshift.heuristics.splitting import scheme_kernels as space_saving
from keyshift.heuristics.splitting.partitioner import SCHEMES
from keyshift.models.splitting.hashing import candidates

ESTIMATES = [("local", None), ("global", None), ("local", 7)]


def zipf(rng, messages, keys, exponent):
    p = 1 / np.arange(1, keys + 1) ** exponent
    return rng.choice(keys, messages, p=p / p.sum())


def least(load, options, weight, speeds):
    """The option least loaded after the message, the first on ties."""
    return min(options, key=lambda w: ((load[w] + weight) / speeds[w], options.index(w)))


class ExactCounts:
    """Frequencies without a sketch: what SpaceSaving is with enough counters."""

    def __init__(self):
        self.counts, self.seen = collections.Counter(), 0

    def in_head(self, key, threshold):
        self.seen += 1
        self.counts[key] += 1
        return self.counts[key] >= threshold * self.seen


def plain(scheme, keys, speeds, choices=2, sources=1, estimate="local", probe_every=None, weights=None, hash_seed=0):
    """A partitioner as one would write it without a thought for speed."""
    workers = len(speeds)
    hashed = candidates(keys, workers, max(choices, 2), hash_seed).tolist()
    true, own = [0.0] * workers, [[0.0] * workers for _ in range(sources)]
    turns, home, sketches = [0] * sources, {}, [ExactCounts() for _ in range(sources)]
    sent = []
    for t, key in enumerate(keys.tolist()):
        s, weight = t % sources, 1.0 if weights is None else weights[t]
        if probe_every and t % probe_every == 0:
            own = [list(true) for _ in range(sources)]
        load = true if estimate == "global" or sources == 1 else own[s]
        options = hashed[t][:choices]
        if scheme == "hash":
            w = hashed[t][0]
        elif scheme == "shuffle":
            w = (turns[s] + s) % workers
            turns[s] += 1
        elif scheme in ("pkg", "greedy-d"):
            w = least(load, options, weight, speeds)
        elif scheme in ("potc", "on-greedy"):
            open_to = options if scheme == "potc" else list(range(workers))
            w = home.setdefault(key, least(load, open_to, weight, speeds))
        elif scheme == "w-choices":
            head = sketches[s].in_head(key, 1 / (5 * workers))
            w = least(load, list(range(workers)) if head else options, weight, speeds)
        true[w] += weight
        if load is not true:
            own[s][w] += weight
        sent.append(w)
    return np.array(sent)


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s != "d-choices"])
@pytest.mark.parametrize("case", [0, 1, 2, *(pytest.param(case, marks=pytest.mark.slow) for case in (3, 4, 5))])
def test_every_scheme_is_what_plain_python_says(scheme, case):
    rng = np.random.default_rng(case)
    estimate, probe_every = ESTIMATES[case % 3]
    sources, workers = int(rng.integers(1, 5)), int(rng.integers(2, 9))
    speeds = np.ones(workers) if case % 2 else rng.choice([0.5, 1.0, 2.0], workers)
    keys = zipf(rng, 600, 40, 1.0).astype(np.int64)
    weights = rng.integers(0, 4, 600) / 2 if case >= 3 else None
    d = int(rng.integers(1, 6)) if scheme == "greedy-d" else 2
    options = {"sources": sources, "estimate": estimate, "probe_every": probe_every, "hash_seed": case}
    expected = plain(scheme, keys, speeds, d, weights=weights, **options)
    p = ks.Partitioner(scheme, speeds, d, counters=40 if "choices" in scheme else None, **options)
    np.testing.assert_array_equal(p.feed(keys, weights), expected)
    loads = np.bincount(expected, weights=weights, minlength=workers) / speeds
    np.testing.assert_allclose(p.loads, loads)
    assert p.imbalance == pytest.approx(loads.max() - (loads @ speeds) / speeds.sum())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_decide_as_one_pass(scheme, weighted):
    rng = np.random.default_rng(1)
    keys = zipf(rng, 5000, 300, 1.2)
    weights = rng.random(5000) if weighted else None
    options = {"sources": 3, "feed": "key", "probe_every": 11}
    whole = ks.Partitioner(scheme, 12, **options)
    sent = whole.feed(keys, weights)
    chunked = ks.Partitioner(scheme, 12, **options)
    cuts = [0, 1, 1, 40, 1000, 4999, 5000]
    parts = [chunked.feed(keys[a:b], None if weights is None else weights[a:b]) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), sent)
    assert chunked.average_imbalance == pytest.approx(whole.average_imbalance, rel=1e-9 if weighted else 0, abs=0)
    assert chunked.messages == 5000


def test_the_messages_of_a_source():
    keys = zipf(np.random.default_rng(5), 2000, 100, 0.5)
    by_key = ks.Partitioner("shuffle", 7, sources=4, feed="key").feed(keys)
    other = ks.Partitioner("shuffle", 7, sources=4, feed="key").feed(keys, source_keys=np.zeros(2000, dtype=int))
    assert np.bincount(by_key).max() <= 2000 / 7 + 4
    start = other[0]  # all from one source: plain round robin from where that source begins
    np.testing.assert_array_equal(other, (start + np.arange(2000)) % 7)


def test_more_choices_where_two_are_not_enough():
    keys = zipf(np.random.default_rng(7), 100_000, 2000, 1.5)
    found = {}
    for scheme in ("hash", "pkg", "d-choices", "w-choices"):
        p = ks.Partitioner(scheme, 50)
        p.feed(keys)
        found[scheme] = p.average_imbalance
        if scheme == "d-choices":
            assert 2 < p.head_choices[0] < 50
    assert found["w-choices"] < 1e-3
    assert found["d-choices"] < 1e-2 < found["pkg"] < found["hash"]


def held(sketch, s):
    """The keys that a sketch holds, with their counts."""
    used = sketch.often[s] > 0
    return dict(zip(sketch.key[s, used].tolist(), sketch.often[s, used].tolist(), strict=True))


@pytest.mark.parametrize("counters", [1, 2, 5, 40, 60, 100])
def test_space_saving_never_underestimates(counters):
    rng = np.random.default_rng(counters)
    keys = zipf(rng, 3000, 60, 1.0).astype(np.int64) * 7919
    sketch, true = space_saving.empty_sketch(1, counters), collections.Counter()
    for t, key in enumerate(keys.tolist(), start=1):
        true[key] += 1
        estimate = space_saving.add(key, 0, *sketch)
        assert true[key] <= estimate <= true[key] + t / counters
        assert held(sketch, 0)[key] == estimate
        assert (sketch.often[0] >= sketch.hand[0, 1]).all()
        assert (sketch.often[0, : sketch.hand[0, 0]] > sketch.hand[0, 1]).all()
    assert sum(held(sketch, 0).values()) == 3000
    assert len(held(sketch, 0)) == (sketch.table >= 0).sum() == min(counters, len(true))
    if counters >= 60:
        assert held(sketch, 0) == true


def test_find_choices_is_the_least_that_fits():
    head, n, slack = np.array([0.2, 0.1, 0.05]), 40, 1e-4

    def fits(d):
        for h in range(1, 4):
            b = n - n * (1 - 1 / n) ** (h * d)
            carried = head[:h].sum() + (b / n) ** d * head[h:].sum() + (b / n) ** 2 * (1 - head.sum())
            if carried > b * (1 / n + slack):
                return False
        return True

    d = space_saving.find_choices(head, n, slack)
    assert fits(d)
    assert not any(fits(less) for less in range(8, d))
    assert space_saving.find_choices(np.zeros(0), n, slack) == 2
    assert space_saving.find_choices(np.array([0.9]), 10, 0.0) == 10  # nothing less than all workers will do


def test_a_scheme_that_ignores_a_rule_says_so():
    problem = splitting.battery()["too many workers"]
    shuffled = ks.solve(problem, "shuffle")
    assert shuffled.problem.choices is None
    assert "ignores the 2 candidates" in shuffled.message
    assert not ks.check(problem, shuffled).feasible
    assert shuffled.objective < ks.solve(problem).bound
    table = ks.compare(problem, ["flow", "pkg", "shuffle"])
    assert table.best.method == "flow"
    assert np.isnan(table.to_frame().set_index("method")["above_best_bound"]["shuffle"])
    assert ks.solve(problem, "greedy-d", d=2).problem is problem
    assert ks.solve(problem, "greedy-d", d=7).problem.choices is None
    placed = ks.KeyPlacement(np.repeat([1, 2, 3], 4), workers=5, choices=2)
    assert ks.solve(placed, "on-greedy").problem.one_place


def test_weights_come_always_or_never():
    p = ks.Partitioner("pkg", 3)
    assert p.average_imbalance == 0
    np.testing.assert_array_equal(p.loads, 0)
    p.feed([1, 2, 3])
    with pytest.raises(ks.InputError, match="with all chunks or with none"):
        p.feed([1, 2, 3], weights=[1, 2, 3])
    with pytest.raises(ks.InputError, match=r"stream\[4\] = 0.5"):
        p.feed([1, 0.5])


def test_imbalance_of_uniform_keys_grows_as_messages_over_workers():
    """Theorem 5.1, d = 2, m = 1000 n >= n^2: with p1 <= 1 / (5 n) the imbalance is O(m / n); uniform on 5 n keys is the worst of it."""
    relative = []
    for n in (20, 40, 80, 160, 320):
        m = 200 * 5 * n
        per_seed = []
        for seed in range(5):
            keys = np.random.default_rng(seed).integers(0, 5 * n, m)
            p = ks.Partitioner("pkg", n, hash_seed=seed)
            p.feed(keys)
            per_seed.append(p.imbalance / (m / n))
        relative.append(np.mean(per_seed))
    assert max(relative) < 1.0  # a constant times m / n, and the constant does not grow with n
    assert relative[-1] < 1.5 * relative[0]
    hashed = [ks.Partitioner("hash", n) for n in (20, 320)]
    for p in hashed:
        p.feed(np.random.default_rng(0).integers(0, 5 * p.workers, 1000 * p.workers))
    assert hashed[1].imbalance / 1000 > relative[-1]

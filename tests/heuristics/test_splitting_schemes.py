"""The partitioners against plain Python, message by message, and what the paper claims of them."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
from instances import splitting

import keyshift as ks
from keyshift.heuristics.splitting import scheme_kernels as kernels
from keyshift.heuristics.splitting.partitioner import SCHEMES
from keyshift.models.splitting.hashing import candidates
from keyshift.models.splitting.problem import jaccard
from keyshift.models.splitting.stream import CHUNK

ESTIMATES = [("local", None), ("global", None), ("local", 7)]


def zipf(rng, messages, keys, exponent):
    p = 1 / np.arange(1, keys + 1) ** exponent
    return rng.choice(keys, messages, p=p / p.sum())


def least(load, options, weight, speeds):
    """The option least loaded after the message, the first on ties."""
    return min(options, key=lambda w: ((load[w] + weight) / speeds[w], options.index(w)))


class ExactCounts:
    """Frequencies without a sketch: what a sketch is with enough counters."""

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


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_source_cannot_tell_local_from_global(scheme):
    keys = zipf(np.random.default_rng(2), 4000, 200, 1.1)
    local = ks.Partitioner(scheme, 9, estimate="local").feed(keys)
    np.testing.assert_array_equal(ks.Partitioner(scheme, 9, estimate="global").feed(keys), local)
    np.testing.assert_array_equal(ks.Partitioner(scheme, 9, estimate="local", probe_every=3).feed(keys), local)


def test_special_cases_of_greedy_d():
    keys = zipf(np.random.default_rng(3), 3000, 200, 1.0)
    sent = {d: ks.Partitioner("greedy-d", 8, d).feed(keys) for d in (1, 2, None)}
    np.testing.assert_array_equal(sent[1], ks.Partitioner("hash", 8).feed(keys))
    np.testing.assert_array_equal(sent[2], ks.Partitioner("pkg", 8).feed(keys))
    assert np.bincount(sent[None]).max() == 375  # all open: perfect
    assert (candidates(keys, 8, 3)[:, 0] == sent[1]).all()


def test_probing_at_every_message_is_global():
    keys = zipf(np.random.default_rng(4), 3000, 200, 1.0)
    everywhere = ks.Partitioner("pkg", 8, sources=5, estimate="global").feed(keys)
    probed = ks.Partitioner("pkg", 8, sources=5, probe_every=1).feed(keys)
    np.testing.assert_array_equal(probed, everywhere)
    local = ks.Partitioner("pkg", 8, sources=5).feed(keys)
    assert 0 < jaccard(local, everywhere) < 1


def test_the_messages_of_a_source():
    keys = zipf(np.random.default_rng(5), 2000, 100, 0.5)
    by_key = ks.Partitioner("shuffle", 7, sources=4, feed="key").feed(keys)
    other = ks.Partitioner("shuffle", 7, sources=4, feed="key").feed(keys, source_keys=np.zeros(2000, dtype=int))
    assert np.bincount(by_key).max() <= 2000 / 7 + 4
    start = other[0]  # all from one source: plain round robin from where that source begins
    np.testing.assert_array_equal(other, (start + np.arange(2000)) % 7)


def test_probing_and_local_estimates_stay_close_to_global():
    keys = zipf(np.random.default_rng(6), 50_000, 5000, 0.6)
    imbalances = {}
    for name, options in {"G": {"estimate": "global"}, "L": {}, "LP": {"probe_every": 500}}.items():
        p = ks.Partitioner("pkg", 10, sources=5, **options)
        p.feed(keys)
        imbalances[name] = p.average_imbalance
    hashed = ks.Partitioner("hash", 10)
    hashed.feed(keys)
    assert imbalances["G"] <= imbalances["L"] < hashed.average_imbalance / 10  # [Nasir2015], Figure 4


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
    """The keys that a sketch holds, with their estimated counts."""
    used = sketch.often[s] > 0
    taken = int(sketch.used[s, 1])
    return dict(zip(sketch.key[s, used].tolist(), (sketch.often[s, used] + taken).tolist(), strict=True))


@pytest.mark.parametrize("counters", [1, 2, 5, 20, 40, 60])
def test_a_sketch_never_underestimates(counters):
    rng = np.random.default_rng(counters)
    keys = zipf(rng, 3000, 100, 1.0).astype(np.int64) * 7919
    sketch, true = kernels.empty_sketch(1, counters), collections.Counter()
    for t, key in enumerate(keys.tolist(), start=1):
        true[key] += 1
        estimate = kernels.add(key, *(part[0] for part in sketch))
        assert true[key] <= estimate <= true[key] + t / counters
        counted = held(sketch, 0)
        assert counted.get(key, estimate) == estimate
        assert len(counted) == sketch.used[0, 0] <= 2 * counters
    assert all(count >= true[key] for key, count in counted.items())
    assert max((true[key] for key in true.keys() - counted.keys()), default=0) <= sketch.used[0, 1] <= 3000 / counters
    if counters >= 50:
        assert counted == true


def test_each_source_has_a_sketch_of_its_own():
    sketch = kernels.empty_sketch(2, 8)
    counts = [kernels.add(key, *(part[1] for part in sketch)) for key in (5, 5, 6, 5, 7, 6)]
    assert counts == [1, 2, 1, 3, 1, 2]
    assert held(sketch, 1) == {5: 3, 6: 2, 7: 1}
    assert held(sketch, 0) == {}


@pytest.mark.parametrize("scheme", ["pkg", "greedy-d", "d-choices", "w-choices"])
@pytest.mark.parametrize("feed", ["shuffle", "key"])
def test_sources_in_threads_decide_as_one_after_another(scheme, feed):
    keys = zipf(np.random.default_rng(8), 2 * CHUNK // 4, 5000, 1.3)
    side_by_side, in_turn = (ks.Partitioner(scheme, 30, 3, sources=3, feed=feed) for _ in range(2))
    sent = [side_by_side.feed(part) for part in np.split(keys, 2)]
    alone = [in_turn.feed(part) for part in np.split(keys, 16)]
    np.testing.assert_array_equal(np.concatenate(sent), np.concatenate(alone))
    assert side_by_side.average_imbalance == in_turn.average_imbalance
    np.testing.assert_array_equal(side_by_side.loads, np.bincount(np.concatenate(sent), minlength=30))


@pytest.mark.parametrize("scheme", ["pkg", "greedy-d", "d-choices", "w-choices"])
def test_messages_that_are_counted_go_where_messages_of_weight_one_go(scheme):
    keys = zipf(np.random.default_rng(9), 40_000, 3000, 1.4)
    for sources, workers in ((1, 40), (4, 7), (2, 2)):
        counted, weighed = (ks.Partitioner(scheme, workers, 5, sources=sources) for _ in range(2))
        np.testing.assert_array_equal(counted.feed(keys), weighed.feed(keys, np.ones(keys.size)))
        assert counted.average_imbalance == pytest.approx(weighed.average_imbalance)
        if scheme == "d-choices":
            np.testing.assert_array_equal(counted.head_choices, weighed.head_choices)


def test_find_choices_is_the_least_that_fits():
    head, n, slack = np.array([0.2, 0.1, 0.05]), 40, 1e-4

    def fits(d):
        for h in range(1, 4):
            b = n - n * (1 - 1 / n) ** (h * d)
            carried = head[:h].sum() + (b / n) ** d * head[h:].sum() + (b / n) ** 2 * (1 - head.sum())
            if carried > b * (1 / n + slack):
                return False
        return True

    d = kernels.find_choices(head, n, slack)
    assert fits(d)
    assert not any(fits(less) for less in range(8, d))
    assert kernels.find_choices(np.zeros(0), n, slack) == 2
    assert kernels.find_choices(np.array([0.9]), 10, 0.0) == 10  # nothing less than all workers will do


def test_off_greedy_by_hand():
    problem = ks.KeySplitting(np.repeat([1, 2, 3, 4], [5, 4, 3, 3]), workers=2)
    solution = ks.solve(problem, "off-greedy")
    assert solution.objective == 8  # 5 + 3 against 4 + 3
    assert solution.metrics["counters"] == 4
    problem = ks.KeySplitting(np.repeat([1, 2, 3, 4], [5, 4, 3, 3]), workers=[1.0, 3.0])
    assert ks.solve(problem, "off-greedy").objective == 4  # 12 on the fast one, 3 on the slow one


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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scheme": "best"}, "scheme = 'best'"),
        ({"estimate": "exact"}, "estimate = 'exact'"),
        ({"feed": "turn"}, "feed = 'turn'"),
        ({"workers": 0}, "workers = 0"),
        ({"workers": [1.0, 0.0]}, r"workers\[1\] = 0"),
        ({"threshold": 0.0, "scheme": "d-choices"}, "threshold = 0.0"),
        ({"sources": 0}, "sources = 0"),
    ],
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(ks.InputError, match=says):
        ks.Partitioner(**options)


def test_weights_come_always_or_never():
    p = ks.Partitioner("pkg", 3)
    assert p.average_imbalance == 0
    np.testing.assert_array_equal(p.loads, 0)
    p.feed([1, 2, 3])
    with pytest.raises(ks.InputError, match="with all chunks or with none"):
        p.feed([1, 2, 3], weights=[1, 2, 3])
    with pytest.raises(ks.InputError, match=r"stream\[4\] = 0.5"):
        p.feed([1, 0.5])


def test_the_imbalance_is_at_most_the_sum_of_the_sources_own():
    """[Nasir2015], section 3.2: what each source keeps even is even together."""
    for seed in range(5):
        keys, sources = np.random.default_rng(seed).zipf(1.5, 5_000) % 100, 4
        worker = ks.Partitioner("pkg", 8, sources=sources, hash_seed=seed).feed(keys)
        loads = np.array([np.bincount(worker[s::sources], minlength=8) for s in range(sources)])
        own = (loads.max(axis=1) - loads.mean(axis=1)).sum()
        assert loads.sum(axis=0).max() - loads.sum(axis=0).mean() <= own + 1e-9


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

"""Mixed routing's check, records, discretisation, table and generator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyshift as ks
from keyshift.generators.routing import ZipfStream, consistent_hash
from keyshift.models.routing.compact import compact, discretised, every_key, hlhe, with_means

W = ks.Workload(load=[4, 3, 2, 1], state=[1, 2, 3, 4], current=[0, 0, 1, 1], home=[0, 1, 1, 1], nodes=2)


def rules(problem, assignment):
    return [v.rule for v in ks.check(problem, assignment).violations]


# The check, one constraint at a time: must pass, must fail -----------------------------------------------------------


def test_upper_load():
    assert rules(ks.MixedRouting(W, theta_max=0.4), [0, 0, 1, 1]) == []  # 7 <= 1.4 * 5
    assert rules(ks.MixedRouting(W, theta_max=0.39), [0, 0, 1, 1]) == ["theta_max"]


def test_lower_load_counts_with_both_sides_only():
    lopsided = ks.Workload(load=[4, 4, 4, 0], state=[1, 1, 1, 1], current=[0, 1, 1, 2], home=[0, 1, 1, 2], nodes=3)
    assert rules(ks.MixedRouting(lopsided, theta_max=1.0, sides="both"), [0, 1, 1, 2]) == []
    assert rules(ks.MixedRouting(lopsided, theta_max=1.0), [0, 1, 1, 2]) == []
    assert rules(ks.MixedRouting(lopsided, theta_max=0.5), [0, 1, 2, 2]) == []
    assert rules(ks.MixedRouting(lopsided, theta_max=1.1, sides="both"), [0, 1, 1, 2]) == []
    assert rules(ks.MixedRouting(lopsided, theta_max=0.99, sides="both"), [0, 1, 1, 2]) == ["theta_max", "theta_max"]


def test_table_size():
    assert rules(ks.MixedRouting(W, theta_max=1, max_table_size=1), [0, 0, 1, 1]) == []
    assert rules(ks.MixedRouting(W, theta_max=1, max_table_size=0), [0, 0, 1, 1]) == ["max_table_size"]


def test_draining_nodes_are_vacated():
    problem = ks.MixedRouting(W.replace(draining=[True, False]))
    assert rules(problem, [1, 1, 1, 1]) == []
    assert rules(problem, [1, 1, 1, 0]) == ["draining"]


def test_objective_and_metrics():
    report = ks.check(ks.MixedRouting(W), [0, 1, 1, 0])
    assert report.objective == 6  # keys 1 and 3
    assert report.metrics["table_size"] == 1
    assert report.metrics["theta"] == 0
    assert report.metrics["skewness"] == 1
    assert report.metrics["migration_share"] == 0.6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"theta_max": -0.1}, "theta_max"),
        ({"theta_max": float("nan")}, "theta_max"),
        ({"max_table_size": -1}, "max_table_size"),
        ({"max_table_size": 1.5}, "max_table_size"),
        ({"sides": "lower"}, "sides"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ks.InputError, match=said):
        ks.MixedRouting(W, **options)


def test_bad_workloads_are_refused():
    with pytest.raises(ks.InputError, match="Workload"):
        ks.MixedRouting([1, 2])
    with pytest.raises(ks.InputError, match="home"):
        ks.MixedRouting(W.replace(home=None))


@pytest.mark.parametrize(
    ("workload", "options", "said"),
    [
        (W.replace(load=[9, 1, 1, 1]), {}, "key 0 alone"),
        (W.replace(draining=[True, False]), {"max_table_size": 0}, "1 keys hash to draining nodes"),
        (W, {"max_table_size": 0, "theta_max": 0.1}, "no key may leave its hash"),
        (W, {"max_table_size": 0, "theta_max": 0.1, "sides": "both"}, "no key may leave its hash"),
        (W.replace(load=[9, 0, 0, 0]), {"theta_max": 0.9, "sides": "both"}, "only 1 keys"),
    ],
)
def test_arithmetic_names_conflicts(workload, options, said):
    problem = ks.MixedRouting(workload, **options)
    assert any(said in sentence for sentence in problem.conflicts())
    assert ks.solve(problem, "milp").status == "infeasible"


# Records --------------------------------------------------------------------------------------------------------------


def random_workload(seed, p=200, n=4):
    rng = np.random.default_rng(seed)
    return ks.Workload(
        load=rng.integers(0, 5, p), state=rng.integers(0, 4, p), current=rng.integers(0, n, p),
        home=rng.integers(0, n, p), nodes=n,
    )  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_records_stand_for_their_keys(scale):
    w = random_workload(1)
    w = w.replace(load=w.last_load * scale)
    keys = compact(w)
    assert keys.count.sum() == w.key_groups
    assert keys.size == len(set(zip(w.current, w.home, w.last_load, w.state, strict=True)))
    of_key = np.empty(w.key_groups, dtype=int)
    of_key[keys.members] = np.repeat(np.arange(keys.size), keys.count)
    for field in ("current", "home", "state"):
        np.testing.assert_array_equal(getattr(keys, field)[of_key], getattr(w, field))
    np.testing.assert_array_equal(keys.load[of_key], w.last_load)
    np.testing.assert_array_equal(keys.expand(np.arange(keys.size), keys.current, keys.count), w.current)


def test_too_many_values_for_one_code():
    rng = np.random.default_rng(3)
    p, n = 22_000, 100_000  # n * n * p * p > 2**62
    w = ks.Workload(
        load=rng.random(p), state=rng.random(p), current=rng.integers(0, n, p), home=np.full(p, n - 1), nodes=n
    )
    keys = compact(w)
    assert keys.size == p
    np.testing.assert_array_equal(keys.load, w.last_load[keys.members])


def test_shares_must_add_up():
    keys = every_key(W)
    with pytest.raises(ks.InputError, match="add up"):
        keys.expand(np.array([0]), np.array([1]), np.array([1]))


# Discretisation -----------------------------------------------------------------------------------------------------


def test_the_papers_example_ends_with_no_deviation():
    values = np.array([8, 6, 3, 2, 2, 1, 1, 1, 1, 1.0])
    made = hlhe(values, 4)
    assert made.tolist() == [8, 4, 4, 2, 2, 2, 1, 1, 1, 1]
    assert (values - made).sum() == 0


def test_the_printed_rule_ends_at_minus_one():
    values = np.array([8, 6, 3, 2, 2, 1, 1, 1, 1, 1.0])
    made = hlhe(values, 4, printed=True)
    assert made.tolist() == [8, 4, 4, 4, 2, 1, 1, 1, 1, 1]
    assert (values - made).sum() == -1


def test_the_piecewise_function_of_figure_6a_ends_with_three():
    values = np.array([8, 6, 3, 2, 2, 1, 1, 1, 1, 1.0])
    made = np.select([values <= 3, values <= 6], [2, 5], 8)
    assert abs((values - made).sum()) == 3


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60), st.sampled_from([1, 2, 8, 64, 256]))
def test_every_value_takes_a_neighbour(values, degree):
    values = np.array(values, dtype=float)
    made = hlhe(values, degree)
    assert ((made == 0) == (values == 0)).all()
    if not values.any():
        return
    unit = values[values > 0].min()
    top = max(np.floor(values.max() / unit / degree), 1) * degree
    for x, y in zip(values[values > 0] / unit, made[values > 0] / unit, strict=True):
        assert x >= (y - degree if y > degree else y / 2 if y > 1 else 0)  # the neighbour below y, at least
        assert x < y + (degree if y >= degree else y) or y == top  # under the neighbour above
        assert y % degree == 0 if y >= degree else np.log2(y) % 1 == 0


def test_degree_one_keeps_whole_numbers():
    values = np.array([5.0, 3, 1, 0, 7])
    assert hlhe(values, 1).tolist() == values.tolist()


@pytest.mark.parametrize("degree", [0, 3, -4])
def test_the_degree_is_a_power_of_two(degree):
    with pytest.raises(ks.InputError, match="power of two"):
        hlhe(np.ones(2), degree)


def test_class_means_keep_every_nodes_load():
    stream = ZipfStream(3000, 5, window=3, seed=2)
    stream.advance()
    w = stream.workload()
    before = np.bincount(w.current, w.last_load, 5)
    for printed in (True, False):
        keys = discretised(w, 64, printed=printed)
        seen = np.bincount(keys.current, keys.load * keys.count, 5)
        assert np.allclose(seen, before, rtol=1e-12) == (not printed)
    assert with_means(every_key(w), w).load.tolist() == w.last_load.tolist()


# The table ----------------------------------------------------------------------------------------------------------

PLANS = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.tuples(*[st.integers(0, n - 1)] * 3), min_size=1, max_size=40).map(lambda rows: (n, rows))
)


@given(PLANS)
def test_lookup_is_what_the_plan_says_for_every_key(plan):
    nodes, rows = plan
    home, before, after = np.array(rows).T
    p = home.size
    w = ks.Workload(load=np.ones(p), state=np.ones(p), current=before, home=home, nodes=nodes)
    old, new = ks.RoutingTable.of(w), ks.RoutingTable.of(ks.MixedRouting(w), after)
    assert new.size == len(new) == (after != home).sum()
    np.testing.assert_array_equal(new.assignment(home), after)
    np.testing.assert_array_equal(old.assignment(home), before)
    np.testing.assert_array_equal(new.migrations(old, home), np.flatnonzero(before != after))
    change = new.diff(old)
    assert old.apply(change) == new
    assert change.size <= (before != after).sum()  # an edit for every key that moves; none for any other
    asked = np.random.default_rng(0).integers(0, p, 50)
    np.testing.assert_array_equal(new.lookup(asked, home[asked]), after[asked])


@pytest.mark.parametrize("name", ["table.parquet", "table.json"])
@pytest.mark.parametrize("labels", [None, ["a", "b", "c"]])
def test_a_table_survives_its_file(tmp_path, name, labels):
    table = ks.RoutingTable([2, 0], [1, 3])
    table.save(tmp_path / name, labels=labels)
    assert ks.RoutingTable.load(tmp_path / name) == table
    assert [f.name for f in tmp_path.iterdir()] == [name]
    ks.RoutingTable([], []).save(tmp_path / name)
    assert ks.RoutingTable.load(tmp_path / name).size == 0


def test_bad_tables_are_refused(tmp_path):
    with pytest.raises(ks.InputError, match="key 4 twice"):
        ks.RoutingTable([4, 4], [0, 1])
    with pytest.raises(ks.InputError, match="nodes has 1 entries"):
        ks.RoutingTable([4, 5], [0])
    with pytest.raises(ks.InputError, match="home has shape"):
        ks.RoutingTable([4], [0]).lookup([1, 2], [0])
    with pytest.raises(ks.InputError, match="no home"):
        ks.RoutingTable.of(W.replace(home=None))
    with pytest.raises(ks.InputError, match="does not exist"):
        ks.RoutingTable.load(tmp_path / "none.json")
    for name, said in (("broken.json", "entries = 3 must be a list"), ("broken.parquet", "broken.parquet")):
        (tmp_path / name).write_text('{"entries": 3}')
        with pytest.raises(ks.InputError, match=said):
            ks.RoutingTable.load(tmp_path / name)
    assert ks.RoutingTable([1], [1]) != "a table"
    assert repr(ks.RoutingTable([1], [1])) == "RoutingTable(1 entries)"


# The generator -----------------------------------------------------------------------------------------------------


def test_another_node_takes_keys_and_shifts_none():
    keys = np.arange(5000)
    before, after = consistent_hash(keys, 6), consistent_hash(keys, 7)
    assert set(after[before != after]) == {6}
    assert 0.05 < (before != after).mean() < 0.3
    assert (np.bincount(before) > 5000 / 6 * 0.5).all()


@pytest.mark.parametrize("fluctuation", [0.3, 1.0, 1.7])
def test_some_node_rises_by_the_fluctuation(fluctuation):
    stream = ZipfStream(4000, 8, fluctuation=fluctuation, tuples=4_000_000, seed=5)
    before = np.bincount(stream.home, stream.load, 8)
    stream.advance()
    change = (np.bincount(stream.home, stream.load, 8) - before) / before.mean()
    # Zipf's heaviest key may overshoot the target by its own share.
    assert fluctuation * 0.97 < np.abs(change).max() < fluctuation + 8 * stream.load.max() / stream.tuples


def test_no_more_than_all_frequencies_can_rise():
    stream = ZipfStream(12, 3, fluctuation=2.9, seed=1)
    for _ in range(3):
        stream.advance()
    assert stream.load.sum() == stream.tuples


def test_state_is_the_tuples_of_the_window():
    stream = ZipfStream(50, 3, window=3, seed=1)
    loads = [stream.load]
    for _ in range(4):
        stream.advance()
        loads.append(stream.load)
    np.testing.assert_array_equal(stream.state, sum(loads[-3:]))
    assert stream.workload().home is not None


def test_same_seed_same_stream():
    def run(seed):
        stream = ZipfStream(500, 4, seed=seed)
        stream.advance()
        return stream.load

    np.testing.assert_array_equal(run(3), run(3))
    assert not np.array_equal(run(3), run(4))


def test_real_frequencies_take_the_place_of_zipfs():
    stream = ZipfStream(frequencies=[5, 0, 1], nodes=2, fluctuation=0.0, tuples=600)
    stream.advance()
    assert stream.keys == 3
    assert stream.load[1] == 0
    with pytest.raises(ks.InputError, match="all 0"):
        ZipfStream(frequencies=[0, 0])
    with pytest.raises(ks.InputError, match="window"):
        ZipfStream(10, window=0)

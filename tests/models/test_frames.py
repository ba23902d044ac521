"""Workloads from tables and back: names of nodes and keys survive, and come back in plans and messages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import keyshift as ks


def table(**more) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "topic": ["a", "b", "c", "d"],
            "rate": [6.0, 3, 2, 1],
            "bytes": [9, 2, 2, 1],
            "broker": ["x", "x", "x", "y"],
            **more,
        }
    )


def read(frame: pd.DataFrame, **more) -> ks.Workload:
    return ks.Workload.from_frame(frame, load="rate", state="bytes", node="broker", key="topic", **more)


def test_names_come_back_in_plans():
    w = read(table())
    assert w.keys == ("a", "b", "c", "d")
    assert w.node_names == ("x", "y")
    plan = ks.solve(ks.KeyGroupAllocation(w, max_migrations=1)).plan()
    assert plan.moves[["key", "source", "target"]].values.tolist() == [["a", "x", "y"]]


def test_a_table_comes_back():
    frame = table(home=["y", "y", "x", "x"], operator=[0, 1, 0, 1], memory=[1.0, 2, 3, 4])
    w = read(frame, home="home", operator="operator", resources=["memory"], nodes=["z", "y", "x"], draining=["y"])
    assert w.node_names == ("z", "y", "x")
    assert w.draining.tolist() == [False, True, False]
    again = ks.Workload.from_frame(
        w.to_frame(),
        key="key",
        home="home",
        operator="operator",
        resources=["memory"],
        nodes=["z", "y", "x"],
        draining=["y"],
    )
    for name, value in w.arguments().items():
        if name not in ("resources", "units"):  # a frame has no place for units
            np.testing.assert_array_equal(value, again.arguments()[name])
    np.testing.assert_array_equal(w.resources["memory"], again.resources["memory"])


def test_labels_come_back():
    frame = table(kind=["p", "q", "p", "q"], zone=["z1" if b == "x" else "z2" for b in table()["broker"]])
    by_column = read(frame, groups=["kind"], domains=["zone"])
    by_name = read(frame, groups=["kind"], domains={"zone": {"y": "z2", "x": "z1"}})
    in_order = read(frame, groups=["kind"], domains={"zone": ["z1", "z2"]})
    for w in (by_column, by_name, in_order):
        assert w.groups == {"kind": ("p", "q", "p", "q")}
        assert w.domains == {"zone": ("z1", "z2")}
        again = ks.Workload.from_frame(w.to_frame(), key="key", groups=["kind"], domains=["zone"])
        assert (again.groups, again.domains) == (w.groups, w.domains)


def test_a_label_called_like_another_column_comes_back():
    w = ks.Workload(
        load=[1, 2], state=[1, 1], current=[0, 1], nodes=2, groups={"load": ["a", "b"]}, domains={"node": [3, 4]}
    )
    again = ks.Workload.from_frame(w.to_frame(), key="key", groups=["group.load"], domains=["domain.node"])
    assert (again.groups, again.domains) == (w.groups, w.domains)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"domains": ["zone"]}, "column 'zone', row 2: node x is 'z2' here and 'z1' before"),
        ({"domains": ["kind"], "nodes": ["x", "y", "z"]}, "column 'kind': node z has no row"),
        ({"domains": {"zone": {"q": 1}}}, r"domains\['zone'\]: node 'q'"),
        ({"domains": {"zone": {"x": "z1"}}}, r"domains\['zone'\]\[1\] = None must be a text or a whole number"),
        ({"groups": ["colour"]}, "the table has no column 'colour'"),
    ],
)
def test_bad_labels_are_refused(options, sentence):
    frame = table(kind=["p", "p", "p", "p"], zone=["z1", "z1", "z2", "z9"])
    with pytest.raises(ks.InputError, match=sentence):
        read(frame, **options)


def test_windows_capacities_and_numbers():
    frame = table(before=[1.0, 1, 1, 1])
    w = ks.Workload.from_frame(frame, load=["before", "rate"], state="bytes", node="broker", nodes={"y": 2.0, "x": 1.0})
    assert w.load.tolist() == [[1, 1, 1, 1], [6, 3, 2, 1]]
    assert w.capacity.tolist() == [2, 1]
    assert w.current.tolist() == [1, 1, 1, 0]
    assert list(w.to_frame()) == ["key", "node", "load_0", "load_1", "state"]
    plain = ks.Workload.from_frame(table(broker=[0, 0, 0, 1]), load="rate", state="bytes", node="broker", nodes=3)
    assert plain.node_names is None
    assert plain.nodes == 3


@pytest.mark.parametrize(
    ("more", "options", "sentence"),
    [
        ({"rate": [1, None, 2, 3]}, {}, "column 'rate' has no value in row 1"),
        ({"rate": [1, -1, 2, 3]}, {}, r"load\[0, 1\] = -1 must not be negative"),
        ({}, {"nodes": ["x"]}, "column 'broker', row 3: node 'y' is not known"),
        ({}, {"home": "house"}, "the table has no column 'house'; it has 'topic', 'rate'"),
        ({}, {"draining": ["q"]}, "draining: node 'q' is not known; there is 'x', 'y'"),
        ({"topic": ["a", "a", "b", "c"]}, {}, r"keys\[1\] = 'a' is a duplicate"),
        ({"rate": ["much", 1, 2, 3]}, {}, "column 'rate', row 0: 'much' is not a number"),
    ],
)
def test_bad_tables_are_refused(more, options, sentence):
    with pytest.raises(ks.InputError, match=sentence):
        read(table(**more), **options)


def test_node_names_survive_the_disk(tmp_path):
    w = read(table())
    for name in ("w", "w.json"):
        ks.write_workload(w, tmp_path / name)
        assert ks.read_workload(tmp_path / name).node_names == ("x", "y")


# Data frames as people have them -----------------------------------------------------------------------------------


def as_polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


def as_duckdb(frame):
    return pytest.importorskip("duckdb").from_df(frame)


KINDS = {
    "pandas": lambda frame: frame,
    "pandas-arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": as_polars,
    "polars-lazy": lambda frame: as_polars(frame).lazy(),
    "arrow": lambda frame: pytest.importorskip("pyarrow").Table.from_pandas(frame),
    "duckdb": as_duckdb,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_same_workload(kind):
    frame = table(partition=[0, 1, 0, 1], home=["y", "y", "x", "x"], memory=[1.0, 2, 3, 4])
    options = {"home": "home", "resources": ["memory"], "draining": ["y"]}
    w = ks.Workload.from_frame(
        KINDS[kind](frame), load="rate", state="bytes", node="broker", key=["topic", "partition"], **options
    )
    assert w.keys == ("a-0", "b-1", "c-0", "d-1")
    assert w.node_names == ("x", "y")
    assert w.load.tolist() == [[6, 3, 2, 1]]
    assert w.state.tolist() == [9, 2, 2, 1]
    assert w.current.tolist() == [0, 0, 0, 1]
    assert w.home.tolist() == [1, 1, 0, 0]
    assert w.draining.tolist() == [False, True]
    assert w.resources["memory"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["polars", "arrow", "duckdb"])
def test_every_kind_of_frame_refuses_gaps_in_one_sentence(kind):
    frame = KINDS[kind](table(rate=pd.array([1, None, 2, 3], dtype="Int64")))
    with pytest.raises(ks.InputError, match="column 'rate' has no value in row 1"):
        read(frame)
    with pytest.raises(ks.InputError, match="the table has no column 'rates'; it has 'topic', 'rate'"):
        ks.Workload.from_frame(frame, load="rates", node="broker")


@pytest.mark.parametrize(
    ("index", "row"), [([30, 10, 20, 7], "10"), (pd.Index(["p", "q", "r", "s"], name="key"), "'q'")]
)
def test_rows_are_named_by_the_index(index, row):
    with pytest.raises(ks.InputError, match=f"column 'rate' has no value in row {row}$"):
        read(table(rate=[1, None, 2, 3]).set_axis(index))
    with pytest.raises(ks.InputError, match=rf"load\[0, 1\] = -1 must not be negative \(row {row}\)"):
        read(table(rate=[1, -1, 2, 3]).set_axis(index))


def test_what_is_no_frame_is_refused():
    with pytest.raises(ks.InputError, match=r"must be a data frame .*, not a list"):
        read([1, 2, 3])


def test_an_index_carries_the_keys():
    columns = {"load": "rate", "state": "bytes", "node": "broker"}
    assert ks.Workload.from_frame(table().set_index("topic"), **columns).keys == ("a", "b", "c", "d")
    two = table(partition=[0, 1, 0, 1]).set_index(["topic", "partition"])
    assert ks.Workload.from_frame(two, **columns).keys == ("a-0", "b-1", "c-0", "d-1")
    assert ks.Workload.from_frame(two, key="topic", **columns).keys == ("a", "b", "c", "d")
    unnamed = table().set_index("topic").rename_axis(None)
    assert ks.Workload.from_frame(unnamed, **columns).keys == ("a", "b", "c", "d")
    assert ks.Workload.from_frame(table()[::-1], **columns).keys is None  # row numbers are nobody's names


def test_limits_are_given_by_name():
    w = read(table()).replace(draining=["y"])
    assert w.draining.tolist() == [False, True]
    assert w.replace(draining={"y": True}).draining.tolist() == [False, True]
    bigger = ks.Workload(load=[6, 3], state=[1, 1], current=[0, 1], nodes={"x": 2.0, "y": 1.0})
    assert bigger.node_names == ("x", "y")
    assert bigger.capacity.tolist() == [2, 1]
    problem = ks.KeyGroupAllocation(read(table()), resource_capacity={"load": {"y": 3}})
    assert problem.resource_capacity["load"].tolist() == [12, 3]  # x has room for everything
    answer = ks.solve(problem)
    assert np.bincount(answer.assignment, [6, 3, 2, 1], 2)[1] <= 3
    made = answer.plan(max_on_the_way={"load": {"y": 3}})
    assert made.overload == 0
    with pytest.raises(ks.InputError, match=r"resource_capacity\['load'\]: node 'z' is not known; there is 'x', 'y'"):
        ks.KeyGroupAllocation(read(table()), resource_capacity={"load": {"z": 3}})
    with pytest.raises(ks.InputError, match="draining: node 'z' is not known; there is 'x', 'y'"):
        read(table()).replace(draining=["z"])
    numbered = ks.Workload(load=[6, 3], state=[1, 1], current=[0, 1], nodes=2, node_names=[101, 102])
    by_text = ks.KeyGroupAllocation(numbered, resource_capacity={"load": {"102": 8}})  # as JSON and the shell have it
    assert by_text.resource_capacity["load"].tolist() == [9, 8]


def test_an_answer_is_a_table():
    answer = ks.solve(ks.KeyGroupAllocation(read(table()), max_migrations=1))
    assert answer.moves[["key", "source", "target"]].values.tolist() == [["a", "x", "y"]]
    frame = answer.to_frame()
    assert frame["target"].tolist() == ["y", "x", "x", "y"]
    assert frame["moved"].tolist() == [True, False, False, False]
    assert frame["key"].tolist() == ["a", "b", "c", "d"]
    w = ks.Workload(load=np.ones(6), state=np.ones(6), current=[0, 0, 0, 1, 1, 1], nodes=2)
    steps = ks.solve(ks.MigrationSequence(w, node_counts=[3, 2], tau=1.0))
    assert {"target_0", "target_1"} <= set(steps.to_frame())
    named = w.replace(node_names=["x", "y"])
    policy = ks.solve(ks.MigrationPolicy(named, {2: {3: 1.0}, 3: {2: 1.0}}, tau=1.0, discount=0.5))
    decided = policy.to_frame()[[f"target_{at}_{n}" for at in range(len(policy.assignment)) for n in range(2)]]
    asked = (policy.assignment >= 0).any(axis=2).ravel()
    assert (decided.notna().all() == asked).all()
    assert not asked.all()
    messages = ks.solve(ks.KeySplitting(["a", "a", "b"], workers=2))
    assert list(messages.to_frame()) == ["target"]
    with pytest.raises(ks.InputError, match="places messages"):
        messages.moves  # noqa: B018

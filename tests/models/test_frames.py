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
        if name != "resources":
            np.testing.assert_array_equal(value, again.arguments()[name])
    np.testing.assert_array_equal(w.resources["memory"], again.resources["memory"])


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
        ({}, {"nodes": ["x"]}, "column 'broker', row 3: there is no node 'y'"),
        ({}, {"home": "house"}, "the table has no column 'house'; it has 'topic', 'rate'"),
        ({}, {"draining": ["q"]}, "draining names 'q': there is no such node"),
        ({"topic": ["a", "a", "b", "c"]}, {}, r"keys\[1\] = 'a' is a duplicate"),
        ({"rate": ["much", 1, 2, 3]}, {}, "load must be an array of numbers"),
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

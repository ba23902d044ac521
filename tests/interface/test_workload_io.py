"""Workloads survive a round trip, and damaged files are refused by name."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyshift as ks


def full(rng: np.random.Generator, p: int = 6, n: int = 3, m: int = 2) -> ks.Workload:
    return ks.Workload(
        load=rng.random((m, p)) * (rng.random((m, p)) < 0.7),
        state=rng.random(p),
        current=rng.integers(0, n, p),
        nodes=rng.random(n) + 0.1,
        draining=np.arange(n) == 0 if n > 1 else None,
        traffic=rng.integers(0, 3, (p, p)),
        operator=rng.integers(0, 2, p),
        home=rng.integers(0, n, p),
        resources={"memory": rng.random(p)},
        keys=[f"k{i}" for i in range(p)],
        groups={"topic": rng.choice(["a", "b.c"], p), "partition": rng.integers(0, 3, p)},
        domains={"rack": rng.choice(["r1", "é"], n)},
    )


def assert_same(a: ks.Workload, b: ks.Workload) -> None:
    for name in ("load", "state", "current", "capacity", "draining", "operator", "home"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (a.traffic != b.traffic).nnz == 0
    assert a.keys == b.keys
    assert (a.groups, a.domains) == (b.groups, b.domains)
    assert a.resources.keys() == b.resources.keys()
    for name in a.resources:
        np.testing.assert_array_equal(a.resources[name], b.resources[name])


@pytest.mark.parametrize("name", ["w.json", "w"])
@given(seed=st.integers(0, 2**32), p=st.integers(1, 8), n=st.integers(1, 4), m=st.integers(1, 3))
def test_round_trip(tmp_path_factory, name, seed, p, n, m):
    path = tmp_path_factory.mktemp("io") / name
    w = full(np.random.default_rng(seed), p, n, m)
    ks.write_workload(w, path)
    assert_same(w, ks.read_workload(path))


@pytest.mark.parametrize("name", ["w.json", "w"])
def test_a_bare_workload_stays_bare(tmp_path, name):
    w = ks.Workload(load=[1, 2], state=[1, 1], current=[0, 0], nodes=1)
    ks.write_workload(w, tmp_path / name)
    again = ks.read_workload(tmp_path / name)
    assert again.traffic is None
    assert again.home is None
    assert again.operator is None
    assert again.keys is None
    assert not again.groups
    assert not again.domains
    assert (
        json.loads((tmp_path / name / "workload.json" if name == "w" else tmp_path / name).read_text())["version"] == 2
    )


@pytest.mark.parametrize("name", ["w.json", "w"])
def test_labels_are_numbers_or_texts_and_come_back(tmp_path, name):
    w = ks.Workload(
        load=[1, 2], state=[1, 1], current=[0, 1], nodes=2, groups={"mixed": [1, "1"], "big": [2**64, 3]}, domains={"rack": [7, 8]}
    )  # fmt: skip
    assert w.groups == {"mixed": ("1", "1"), "big": (str(2**64), "3")}
    ks.write_workload(w, tmp_path / name)
    again = ks.read_workload(tmp_path / name)
    assert (again.groups, again.domains) == (w.groups, w.domains)
    assert (
        json.loads((tmp_path / name / "workload.json" if name == "w" else tmp_path / name).read_text())["version"] == 4
    )


def test_writing_again_replaces_and_leaves_nothing_behind(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(2):
        w = full(rng)
        ks.write_workload(w, tmp_path / "w")
        ks.write_workload(w, tmp_path / "w.json")
    assert_same(w, ks.read_workload(tmp_path / "w"))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["w", "w.json"]


def test_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(ks.InputError, match="is not a workload: it is not overwritten"):
        ks.write_workload(full(np.random.default_rng(0)), tmp_path / "photos")
    with pytest.raises(ks.InputError, match="does not exist"):
        ks.write_workload(full(np.random.default_rng(0)), tmp_path / "missing" / "w.json")


def damage_json(change):
    def damage(folder):
        path = folder / "w.json"
        ks.write_workload(full(np.random.default_rng(1)), path)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        return path

    return damage


def damage_table(name, change):
    def damage(folder):
        path = folder / "w"
        ks.write_workload(full(np.random.default_rng(1)), path)
        table = path / f"{name}.parquet"
        if change is None:
            table.unlink()
        elif isinstance(change, bytes):
            table.write_bytes(change)
        else:
            pq.write_table(pa.table(change(pq.read_table(table).to_pydict())), table)
        return path

    return damage


def put(name, row, value):
    def change(columns):
        columns[name][row] = value
        return columns

    return change


def write_text(name, text):
    def damage(folder):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path if path.suffix == ".json" and path.parent == folder else path.parent

    return damage


DAMAGED = {
    "missing": (lambda folder: folder / "nowhere", "nowhere does not exist"),
    "no-json": (write_text("w.json", "{not json"), "w.json is not JSON"),
    "a-list": (write_text("w.json", "[1, 2]"), "must hold one JSON object"),
    "lacks-state": (damage_json(lambda c: c.pop("state")), "lacks the field 'state'"),
    "unknown-field": (damage_json(lambda c: c.update(weight=1)), "has a field 'weight'"),
    "newer-format": (damage_json(lambda c: c.update(version=99)), "has another format"),
    "json-nan": (damage_json(lambda c: c["state"].__setitem__(2, float("nan"))), r"w.json: state\[2\] = nan must be finite"),
    "json-traffic-pair": (damage_json(lambda c: c.update(traffic=[[1, 2]])), r"traffic\[0\] = \[1.0, 2.0\] must be"),
    "json-traffic-unknown": (damage_json(lambda c: c.update(traffic=[[0, 99, 1]])), r"traffic.dst\[0\] = 99 is not a key group"),
    "folder-without-header": (write_text("w/readme.txt", "x"), "has no workload.json"),
    "damaged-header": (write_text("w/workload.json", "{}"), "has another format"),
    "folder-newer": (
        write_text("w/workload.json", '{"keyshift_workload": 9, "key_groups": 1, "nodes": 1, "windows": 1}'),
        "has another format",
    ),
    "missing-table": (damage_table("nodes", None), "nodes.parquet is missing"),
    "no-parquet": (damage_table("load", b"PAR?"), "load.parquet is not a readable Parquet file"),
    "missing-column": (damage_table("nodes", lambda c: {"node": c["node"]}), "lacks the column 'capacity'"),
    "null": (damage_table("key_groups", put("state", 1, None)), "has a null in the column 'state'"),
    "row-twice": (damage_table("key_groups", put("key_group", 0, 1)), "must hold each key_group from 0 to 5 exactly once"),
    "window-unknown": (damage_table("load", put("window", 0, 7)), r"window\[0\] = 7 is not a window: they are numbered 0 to 1"),
    "negative-load": (damage_table("load", put("load", 0, -1.0)), r"load\[\d, \d\] = -1 must not be negative"),
    "current-unknown": (damage_table("key_groups", put("current", 3, 3)), r"current\[3\] = 3 is not a node"),
    "traffic-unknown": (damage_table("traffic", put("src", 0, -1)), r"traffic.src\[0\] = -1 is not a key group"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_refused(tmp_path, damage, message):
    with pytest.raises(ks.InputError, match=message):
        ks.read_workload(damage(tmp_path))

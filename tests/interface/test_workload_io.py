"""Workloads survive a round trip, and nothing else is overwritten."""

from __future__ import annotations

import json

import numpy as np
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

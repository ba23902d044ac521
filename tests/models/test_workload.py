"""The workload refuses bad data at the door and keeps good data as it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import keyshift as ks

GOOD = {"load": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "state": [1, 2, 3], "current": [0, 1, 1], "nodes": 2}

BAD = {
    "load-nan": ({"load": [1, float("nan"), 3]}, r"load\[0, 1\] = nan must be finite"),
    "load-negative": ({"load": [1, 2, -3]}, r"load\[0, 2\] = -3 must not be negative"),
    "load-3d": ({"load": np.ones((2, 2, 3))}, "load has 3 dimensions, expected 1 or 2"),
    "state-short": ({"state": [1, 2]}, "state has 2 entries, expected 3: one for each of the key groups"),
    "current-unknown": ({"current": [0, 1, 2]}, r"current\[2\] = 2 is not a node: they are numbered 0 to 1"),
    "nodes-true": ({"nodes": True}, "nodes = True: give a number of nodes"),
    "draining-all": ({"draining": [True, True]}, "draining marks all 2 nodes"),
    "traffic-shape": ({"traffic": np.ones((2, 2))}, r"traffic has shape \(2, 2\), expected \(3, 3\)"),
    "resources-negative": (
        {"resources": {"memory": [1, -2, 1]}},
        r"resources\['memory'\]\[1\] = -2 must not be negative",
    ),
    "keys-duplicate": ({"keys": ["a", "b", "a"]}, r"keys\[2\] = 'a' is a duplicate of keys\[0\]"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_bad_data_is_refused_with_field_position_and_value(change, message):
    with pytest.raises(ks.InputError, match=message):
        ks.Workload(**{**GOOD, **change})


def test_capacities_give_the_number_of_nodes():
    w = ks.Workload(**{**GOOD, "nodes": [1.0, 2.5]})
    assert w.nodes == 2
    np.testing.assert_array_equal(w.capacity, [1.0, 2.5])


def test_traffic_sums_duplicates_and_drops_zeros():
    pairs = sp.coo_array(([1.0, 2.0, 0.0], ([0, 0, 2], [1, 1, 2])), shape=(3, 3))
    w = ks.Workload(**GOOD, traffic=pairs)
    assert w.traffic.nnz == 1
    assert w.traffic[0, 1] == 3


def test_replace_validates_and_keeps_capacities():
    w = ks.Workload(**{**GOOD, "nodes": [1.0, 2.5]}, keys=["a", "b", "c"])
    changed = w.replace(current=[1, 1, 1])
    np.testing.assert_array_equal(changed.capacity, w.capacity)
    assert changed.keys == ("a", "b", "c")
    with pytest.raises(ks.InputError, match="no field 'weight'"):
        w.replace(weight=1)
    with pytest.raises(ks.InputError, match="current"):
        w.replace(current=[7, 1, 1])


def test_repr_says_what_it_holds():
    w = ks.Workload(**GOOD, draining=[True, False], resources={"memory": [1, 1, 1]}, operator=[0, 0, 1])
    assert repr(w) == "Workload(3 key groups, 2 nodes, 1 draining, 2 windows, with operator, memory)"

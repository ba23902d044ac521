"""The workload refuses bad data at the door and keeps good data as it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import keyshift as ks
from keyshift.models import InputError
from keyshift.models.base.labels import numbered_rows
from keyshift.models.problem import read_assignment

GOOD = {"load": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "state": [1, 2, 3], "current": [0, 1, 1], "nodes": 2}

BAD = {
    "load-nan": ({"load": [1, float("nan"), 3]}, r"load\[0, 1\] = nan must be finite"),
    "load-negative": ({"load": [1, 2, -3]}, r"load\[0, 2\] = -3 must not be negative"),
    "load-infinite": ({"load": [[1, 2, 3], [1, np.inf, 3]]}, r"load\[1, 1\] = inf must be finite"),
    "load-empty": ({"load": []}, "load is empty"),
    "load-3d": ({"load": np.ones((2, 2, 3))}, "load has 3 dimensions, expected 1 or 2"),
    "load-text": ({"load": ["a", "b", "c"]}, "load must be an array of numbers"),
    "load-ragged": ({"load": [[1, 2], [1]]}, "load must be an array of numbers"),
    "state-short": ({"state": [1, 2]}, "state has 2 entries, expected 3: one for each of the key groups"),
    "state-negative": ({"state": [1, -1, 1]}, r"state\[1\] = -1 must not be negative"),
    "state-2d": ({"state": [[1, 2, 3]]}, "state has 2 dimensions, expected 1"),
    "current-unknown": ({"current": [0, 1, 2]}, r"current\[2\] = 2 is not a node: they are numbered 0 to 1"),
    "current-negative": ({"current": [0, -1, 1]}, r"current\[1\] = -1 is not a node: it must not be negative"),
    "current-half": ({"current": [0, 0.5, 1]}, r"current\[1\] = 0.5 must be a whole node number"),
    "current-2d": ({"current": [[0, 1, 1]]}, "current has 2 dimensions, expected 1"),
    "nodes-zero": ({"nodes": 0}, "nodes = 0: at least one node is needed"),
    "nodes-true": ({"nodes": True}, "nodes = True: give a number of nodes"),
    "nodes-float": ({"nodes": 2.5}, "nodes = 2.5: give a number of nodes or an array"),
    "nodes-zero-capacity": ({"nodes": [1.0, 0.0]}, r"nodes\[1\] = 0: a capacity must be above 0"),
    "draining-all": ({"draining": [True, True]}, "draining marks all 2 nodes"),
    "draining-two": ({"draining": [0, 2]}, r"draining\[1\] = 2 must be true or false"),
    "draining-long": ({"draining": [True, False, False]}, "draining has 3 entries, expected 2"),
    "draining-2d": ({"draining": [[True, False]]}, "draining has 2 dimensions"),
    "traffic-shape": ({"traffic": np.ones((2, 2))}, r"traffic has shape \(2, 2\), expected \(3, 3\)"),
    "traffic-vector": ({"traffic": np.ones(3)}, "traffic has 1 dimensions, expected 2"),
    "traffic-negative": ({"traffic": [[0, 0, 0], [0, 0, -2], [0, 0, 0]]}, r"traffic\[1, 2\] = -2 must not be negative"),
    "traffic-nan": (
        {"traffic": sp.csr_array([[0, 0, 0], [0, 0, 0], [np.nan, 0, 0]])},
        r"traffic\[2, 0\] = nan must be",
    ),
    "operator-negative": ({"operator": [0, 0, -1]}, r"operator\[2\] = -1 is not an operator"),
    "home-unknown": ({"home": [0, 5, 1]}, r"home\[1\] = 5 is not a node"),
    "resources-list": ({"resources": [1, 2, 3]}, "resources must map names to arrays"),
    "resources-negative": (
        {"resources": {"memory": [1, -2, 1]}},
        r"resources\['memory'\]\[1\] = -2 must not be negative",
    ),
    "keys-duplicate": ({"keys": ["a", "b", "a"]}, r"keys\[2\] = 'a' is a duplicate of keys\[0\]"),
    "keys-short": ({"keys": ["a", "b"]}, "keys has 2 entries, expected 3"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_bad_data_is_refused_with_field_position_and_value(change, message):
    with pytest.raises(ks.InputError, match=message):
        ks.Workload(**{**GOOD, **change})


def test_arrays_are_copied_and_read_only():
    state = np.array([1.0, 2.0, 3.0])
    w = ks.Workload(**{**GOOD, "state": state})
    state[0] = 9
    assert w.state[0] == 1
    for array in (w.load, w.state, w.current, w.capacity, w.draining):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        w.nodes = 3


def test_one_window_is_a_matrix_of_one_row():
    w = ks.Workload(load=[1, 2, 3], state=[1, 1, 1], current=[0, 0, 0], nodes=1)
    assert w.load.shape == (1, 3)
    assert (w.windows, w.key_groups, w.nodes) == (1, 3, 1)
    np.testing.assert_array_equal(w.last_load, [1, 2, 3])


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


@pytest.mark.parametrize("nodes", [1, 7, 8, 9, 70])
def test_rows_are_numbered_as_sorting_numbers_them(nodes):
    rng = np.random.default_rng(nodes)
    rows = rng.random((200, nodes)) < rng.choice([0.02, 0.5, 0.98], (200, 1))
    different, number = numbered_rows(rows)
    expected, by_sorting = np.unique(rows, axis=0, return_inverse=True)
    assert (different == expected).all()
    assert (number == by_sorting.ravel()).all()


@pytest.mark.parametrize("given", [[0, 2], [0, -1], [0], [[0, 1]]])
def test_nodes_that_are_none_are_refused_as_a_list_and_as_an_array(given):
    """An array of whole numbers is read without a look at labels, but not without one at its numbers."""
    for one in (given, np.array(given), np.array(given, dtype=np.int32)):
        with pytest.raises(InputError, match=r"is not a node|has shape"):
            read_assignment(one, 2, 2)

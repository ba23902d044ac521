"""Transition matrices of node counts: reading them, and counting them in a history."""

from __future__ import annotations

import pandas as pd
import pytest

import keyshift as ks
from keyshift.models.intervals.policy.transitions import (
    node_counts,
    read_transitions,
    renormalised,
    transition_matrix,
)

TABLE_4 = {2: {2: 0.3, 3: 0.6, 4: 0.1}, 3: {2: 0.3, 3: 0.4, 4: 0.3}, 4: {2: 0.1, 3: 0.5, 4: 0.4}}


def test_matrices_are_read_from_mappings_and_frames():
    frame = pd.DataFrame(TABLE_4).T
    assert read_transitions(frame) == read_transitions(TABLE_4)
    text = {"2": {"2": 1.0}}  # as JSON has it
    assert read_transitions(text) == {2: {2: 1.0}}


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ({}, "must map node counts"),
        (3, "must map node counts"),
        ({2: 1.0}, r"transitions\[2\] must map"),
        ({2: {2: 0.9}}, r"transitions\[2\] sums to 0.9"),
        ({2: {2: -1, 3: 2}, 3: {2: 1}}, r"transitions\[2\]\[2\] = -1"),
        ({2: {3: 1}}, "no row for 3"),
        ({0: {0: 1}}, "0 must be at least 1"),
    ],
)
def test_bad_matrices_are_refused(matrix, sentence):
    with pytest.raises(ks.InputError, match=sentence):
        read_transitions(matrix)


def test_matrices_are_estimated_from_history():
    history = [2, 2, 3, 2, 4]
    assert transition_matrix(history, changes_only=False) == {
        2: {2: pytest.approx(1 / 3), 3: pytest.approx(1 / 3), 4: pytest.approx(1 / 3)},
        3: {2: 1.0},
        4: {4: 1.0},
    }
    assert transition_matrix(history)[2] == {3: 0.5, 4: 0.5}
    with pytest.raises(ks.InputError, match="at least two windows"):
        transition_matrix([])
    with pytest.raises(ks.InputError, match=r"counts\[1\] = 0"):
        transition_matrix([2, 0])


def test_node_counts_scale_into_their_range():
    assert node_counts([5, 10, 15], 8, 16).tolist() == [8, 12, 16]
    assert node_counts([0, 1, 4], 2, 4).tolist() == [2, 3, 4]  # 2.5 is rounded half up, not half to even
    assert node_counts([3, 3], 2, 4).tolist() == [2, 2]
    table = pd.DataFrame({"window_start": [1, 0, 1], "load": [4.0, 2.0, 6.0], "operator": ["a", "a", "b"]})
    assert node_counts(table, 1, 3).tolist() == [1, 3]
    with pytest.raises(ks.InputError, match="no column 'load'"):
        node_counts(pd.DataFrame({"window_start": [1]}), 1, 3)
    with pytest.raises(ks.InputError, match="most = 1"):
        node_counts([1], 3, 1)


def test_counts_can_be_left_out_of_a_matrix():
    left = renormalised(TABLE_4, [2, 4])
    assert left == {
        2: {2: pytest.approx(0.75), 4: pytest.approx(0.25)},
        4: {2: pytest.approx(0.2), 4: pytest.approx(0.8)},
    }
    assert renormalised({2: {3: 1}, 3: {2: 1}}, [2]) == {2: {2: 1.0}}

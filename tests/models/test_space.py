"""The move space: closing nodes to key groups, and what follows from it."""

from __future__ import annotations

import numpy as np

from keyshift.models.workload import MoveSpace

CURRENT = np.array([0, 0, 1, 2, 2])


def test_closing_nodes_says_who_may_leave_and_who_may_enter_where():
    space = MoveSpace.of(CURRENT, np.array([True, True, False])).closed(np.array([1]))
    space = space.closed(np.array([3, 4]), np.array([0]))
    expected = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 1]], dtype=bool)
    assert np.array_equal(space.allowed, expected)
    assert space.pairs == expected.sum()
    assert space.movers.tolist() == [0, 2, 3, 4]
    assert [part.tolist() for part in space.by_node] == [[0, 2, 3, 4], [0, 1, 2, 4]]
    assert space.may_enter(space.movers, 0).tolist() == [False, True, False, False]
    assert space.open.tolist() == [True, True, False]
    assert space.barred == 2


def test_closing_again_what_is_closed_makes_no_other_kind():
    space = MoveSpace.of(CURRENT, np.ones(3, dtype=bool)).closed(np.array([1, 2]))
    again = space.closed(np.array([2]), np.array([0]))
    assert np.array_equal(again.allowed, space.allowed)
    assert len(again.enter) == len(space.enter) == 2

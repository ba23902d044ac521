"""Flux, step by step."""

from __future__ import annotations

import numpy as np

import keyshift as ks


def problem(load, current, nodes, **options):
    w = ks.Workload(
        load=load, state=np.ones(len(load)), current=current, nodes=nodes, resources={"memory": np.ones(len(load))}
    )
    return ks.KeyGroupAllocation(w, **options)


def test_one_round_pairs_most_with_least_loaded():
    # Loads 12, 8, 4, 0: the first gives to the last, the second to the third. From the first (7, 5) the 7 lowers the
    # higher of 12 and 0 to 7; from the second (5, 3) the 5 would lift the third to 9 > 8, the 3 to 7.
    p = problem([7, 5, 5, 3, 4], [0, 0, 1, 1, 2], 4)
    s = ks.solve(p, "flux", rounds=1)
    np.testing.assert_array_equal(s.assignment, [3, 0, 1, 2, 2])
    assert s.details["rounds"] == 1


def test_the_migration_limit_holds_and_the_next_smaller_key_group_is_tried():
    w = ks.Workload(load=[7, 5, 1], state=[10, 2, 1], current=[0, 0, 0], nodes=2)
    s = ks.solve(ks.KeyGroupAllocation(w, max_migration_cost=2), "flux")
    np.testing.assert_array_equal(s.assignment, [0, 1, 0])


def test_a_full_node_takes_nothing():
    s = ks.solve(problem([7, 5, 1], [0, 0, 1], 2, resource_capacity={"memory": [2, 1]}), "flux")
    np.testing.assert_array_equal(s.assignment, [0, 0, 1])


def test_a_draining_node_gives_and_never_takes():
    w = ks.Workload(load=[3, 3, 1], state=[1, 1, 1], current=[0, 0, 1], nodes=3, draining=[True, False, False])
    s = ks.solve(ks.KeyGroupAllocation(w), "flux")
    assert (s.assignment[:2] != 0).any()


def test_nothing_to_gain_moves_nothing():
    s = ks.solve(problem([2, 2], [0, 1], 2), "flux")
    assert s.metrics["migrations"] == 0

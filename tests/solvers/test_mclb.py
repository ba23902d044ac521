"""Minimum-cost load balancing: every rule alone, exact methods and bounds against enumeration, the search kernels."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from enumeration import optimum
from instances.mclb import random_problem

import keyshift as ks
from keyshift.models import Answer
from keyshift.models.mclb.problem import in_order
from keyshift.solvers.mclb.portfolio import few_placements


def problem(load, current, nodes, limit=None, **fields):
    state = fields.pop("state", np.ones(np.shape(load)[-1]))
    return ks.MCLB(ks.Workload(load=load, state=state, current=current, nodes=nodes, **fields), max_state_moved=limit)


# The problem and its check ------------------------------------------------------------------------------------------


def test_each_rule_alone():
    p = problem([[1, 1, 1]], [0, 0, 1], 2, limit=2, state=[1, 2, 4])
    assert ks.check(p, [0, 1, 1]).feasible
    assert ks.check(p, [1, 0, 1]).feasible
    (broken,) = ks.check(p, [1, 1, 1]).violations
    assert (broken.rule, broken.amount) == ("max_state_moved", 1)
    p = problem([[1, 1, 1]], [0, 0, 1], 3, draining=[False, True, False])
    assert ks.check(p, [0, 0, 2]).feasible
    (broken,) = ks.check(p, [0, 0, 1]).violations
    assert (broken.rule, broken.where) == ("draining", 2)


def test_a_budget_below_what_draining_forces_is_named_as_the_conflict():
    s = ks.solve(problem([[1, 1]], [0, 1], 2, limit=2, state=[1, 3], draining=[False, True]))
    assert s.status == "infeasible"
    assert s.message == "emptying the draining nodes moves 3 of state, the limit is 2"


def test_the_core_numbers_kept_nodes_and_takes_forced_movement_off_the_budget():
    p = problem([[1, 2, 3]], [2, 1, 0], 3, limit=5, state=[1, 2, 4], draining=[True, False, False])
    core = p.core
    assert (core.nodes, core.forced, core.names.tolist()) == (2, 4.0, [1, 2])
    assert core.current.tolist() == [1, 0, -1]
    assert core.state.tolist() == [1, 2, 0]
    assert core.budget == pytest.approx(1.0)
    assert core.lift(np.array([0, 1, 1])).tolist() == [1, 2, 2]
    assert core.lower(np.array([1, 2, 0])).tolist() == [0, 1, -1]


def test_only_nodes_without_state_are_interchangeable_under_a_budget():
    load, current = [[1, 1, 1, 1]], [0, 0, 1, 2]
    assert problem(load, current, 5).core.interchangeable.all()
    limited = problem(load, current, 5, limit=1, state=[1, 1, 0, 1]).core
    assert limited.interchangeable.tolist() == [False, True, False, True, True]
    assert problem(load, current, 5, limit=4).core.interchangeable.all()  # a budget that cannot bind


def test_relabelling_moves_least_and_keeps_the_groups():
    core = problem([[1, 1, 1, 1]], [0, 0, 1, 2], 3, state=[5, 1, 1, 1]).core
    assert core.relabelled(np.array([2, 2, 0, 1])).tolist() == [0, 0, 1, 2]


def test_renumbering_obeys_the_symmetry_rule():
    alike = np.array([True, False, True, True])
    renumbered = in_order(np.array([3, 1, 2, 3, 0]), [4, 0, 1, 2, 3], alike)
    assert renumbered.tolist() == [2, 1, 3, 2, 0]


# Exact methods and bounds against enumeration -----------------------------------------------------------------------


def test_the_two_oracles_agree():
    for seed in range(6):
        p = random_problem(np.random.default_rng(seed), 4, 2)
        assert optimum(p) == pytest.approx(brute_force(p)[0]) or brute_force(p)[0] is None


def test_an_unsafe_bound_is_caught():
    p = problem([[3, 2, 2, 1]], [0, 0, 0, 0], 2)
    with pytest.raises(ks.models.BoundError, match="claims the bound"):
        ks.Solution.of(p, "planted", Answer(np.array([0, 1, 1, 0]), bound=p.tolerance * 2), 0.0)


# Branch and bound, local search, limits -----------------------------------------------------------------------------


def test_a_limited_tree_keeps_its_root_bound():
    rng = np.random.default_rng(3)
    p = problem(rng.integers(1, 100, (3, 14)), rng.integers(0, 4, 14), 4)
    s = ks.solve(p, "branch-and-bound", max_tree=0, effort=4)
    assert (s.status, s.termination) == ("feasible", "completed")
    assert 0 <= s.bound < s.objective


# Kernels, interpreted and compiled ----------------------------------------------------------------------------------


POOR_STARTS = {
    "a window of a billionth": ("scip", [[1.7, 1.6, 0.8], [1e-9, 5e-9, 0]], [1, 1, 0], 3, None, [1, 1, 1], [1, 1, 2]),
    "a load of a billionth": ("scip", [[1, 9], [1, 1.000000000001], [2e-9, 1]], [0, 1], 3, 7.8, [2.3, 1.6], [0, 0]),
    "a load of a billionth in a budget": (
        "scip", [[1, 1e-4, 1e-9], [1.6, 2.1, 1.8]], [1, 1, 1], 2, 0.9999999999, [1, 1e9, 1e-6], [0, 1, 1],
    ),
    "loads far apart": (
        "scip",
        [[6.013614745442907e-06, 28115409.967695158, 31.54118839673555, 0.00037873571070358946],
         [18253615104, 15032385537, 47244640257, 0],
         [0.09013857754731351, 2.2969190006523287e-06, 487.6164274166207, 2.9133026569727508e-05]],
        [2, 1, 0, 0], 4, 1e30, [1e6, 0.8571428571428571, 2.3333333333333335, 1e6], [1, 1, 3, 3],
    ),
    "tangents that are nearly parallel": (
        "milp",
        [[154.86946295353158, 12.822742653590108, 3794293.4320430546, 0.006062493185465768],
         [36273.261365614475, 45.59716012095431, 7.303546245368701e-06, 2295351.6862645973],
         [27917291520, 62277025792, 47244644352, 53687091201]],
        [0, 1, 1, 0], 2, 1709142725.3483982, [873658853.7524216, 1548125607.545109, 1017242036.5120991, 691900688.8362991],
        [0, 1, 1, 1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POOR_STARTS)
def test_a_poor_start_is_not_taken_for_the_optimum(name):
    """SCIP with the numbers as they are, or asked once, and HiGHS asked once, prove that nothing is better than it."""
    method, load, current, nodes, limit, state, start = POOR_STARTS[name]
    p = problem(load, current, nodes, limit, state=state)
    s = ks.solve(p, method, start=start)
    assert s.status == "optimal"
    assert s.objective == pytest.approx(brute_force(p)[0], rel=1e-9)


def test_a_poor_start_of_an_opened_model_is_not_taken_for_the_optimum():
    _, load, current, nodes, limit, state, start = POOR_STARTS["loads far apart"]
    p = problem(load, current, nodes, limit, state=state)
    opened = ks.model(p, "mathopt")
    opened.start(start)
    assert opened.solve(seed=2).objective == pytest.approx(brute_force(p)[0], rel=1e-9)


def test_a_deviation_that_is_mere_rounding_does_not_lift_the_bound():
    ((_, problem),) = ks.family("hard-mclb(kind=draining)/3")
    best = ks.solve(problem, "branch-and-bound", effort=5)
    tangents = ks.solve(problem, "milp", effort=1)  # it had "proven" 7.75
    assert tangents.bound <= best.objective <= 5.75


@pytest.mark.parametrize(
    ("nodes", "key_groups", "most", "few"),
    [(3, 6, 729, True), (3, 6, 728, False), (10, 4, 10_000, True), (1, 10**7, 1, True), (10_000, 10**7, 10**6, False)],
)
def test_placements_are_counted_without_writing_their_number_down(nodes, key_groups, most, few):
    assert few_placements(nodes, key_groups, most) is few

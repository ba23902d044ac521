"""Single-step interval migration: exact load tests, refusals, and the dynamic program against all partitions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import interval_oracle as oracle
import numpy as np
import pytest
from instances.intervals import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.base.integers import whole_numbers
from keyshift.models.intervals.partition import Prefix, decimal_above
from keyshift.solvers.intervals import band_kernels as band_kernel
from keyshift.solvers.intervals import ssm
from keyshift.solvers.intervals.owners import match
from keyshift.solvers.intervals.ssm import cuts_in_time, lagrangian


def workload(load, current, nodes, state=None, **more):
    return ks.Workload(load=load, state=load if state is None else state, current=current, nodes=nodes, **more)


def test_tracing_through_checkpoints_changes_nothing():
    problem = ks.IntervalMigration(workload([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], np.repeat([0, 1, 2], 4), 3), 7, "0.9")
    prefix = np.concatenate(([0], np.cumsum(problem.workload.state))).astype(np.int64)
    whole = band_kernel.band_cuts(problem.starts, problem.old_cuts, prefix, 7, True)
    by_blocks = band_kernel.band_cuts(problem.starts, problem.old_cuts, prefix, 7, True, 0)
    assert whole[0] == by_blocks[0] == band_kernel.band_cuts(problem.starts, problem.old_cuts, prefix, 7, False)[0]
    np.testing.assert_array_equal(whole[1], by_blocks[1])


def test_many_tiny_nodes_agree_with_the_declarative_model():
    """n = m: the windows of earlier cells are as long as the intervals, and every cell is one task."""
    rng = np.random.default_rng(3)
    w = workload(rng.integers(1, 9, 14), np.arange(14), 14, state=rng.integers(0, 9, 14))
    problem = ks.IntervalMigration(w, 4, "0.3")
    assert ks.solve(problem).objective == ks.solve(problem, "cp-sat").objective == oracle.single_step(problem)


def test_a_price_on_intervals_bounds_the_state_kept():
    """The bound never exceeds the optimum; on these instances it always attains it (no proof that it must)."""
    rng = np.random.default_rng(6)
    attained = solved = 0
    for _ in range(300):
        problem = random_problem(rng, int(rng.integers(1, 40)), int(rng.integers(1, 9)))
        if problem.conflicts():
            continue
        priced, best = ks.solve(problem, "lagrangian"), ks.solve(problem)
        solved += 1
        assert priced.assignment is not None
        assert priced.bound <= best.objective + 1e-9 <= priced.objective + 2e-9
        assert priced.bound == pytest.approx(best.objective, abs=1e-6 * problem.scale)
        attained += priced.status == "optimal"
    assert attained > 0.8 * solved


def test_a_limit_on_the_search_for_a_price():
    w = workload(np.ones(60), np.repeat(np.arange(20), 3), 20, state=np.arange(60))
    problem = ks.IntervalMigration(w, 5, 1)
    answer = lagrangian(problem, budget=Budget(0.0))
    assert answer.bound <= ks.solve(problem).objective
    assert answer.assignment is not None
    assert answer.termination == "time_limit"


@pytest.mark.parametrize("long", [0, 1 << 40])
def test_single_steps_by_a_price_keep_what_the_program_keeps(monkeypatch, long):
    """Within a millionth of the state, and where a gap is left and there is no time for the program, at most so many intervals."""
    monkeypatch.setattr(ssm, "SHORT", 0)
    monkeypatch.setattr(ssm, "LONG", long)
    rng, reached, solved = np.random.default_rng(9), 0, 0
    for _ in range(200):
        problem = random_problem(rng, int(rng.integers(1, 40)), int(rng.integers(1, 9)))
        if problem.conflicts():
            continue
        prefix = ssm.keepable(problem).prefix
        most = min(problem.nodes_after, problem.workload.key_groups)
        best, _ = band_kernel.band_cuts(problem.starts, problem.old_cuts, prefix, most, True)
        for budget in (Budget(60.0), Budget(0.0)):
            cuts = cuts_in_time(problem.starts, problem.old_cuts, prefix, most, budget)
            assert cuts[0] == 0
            assert cuts[-1] == problem.workload.key_groups
            assert cuts.size - 1 <= most
            assert (problem.starts[cuts[1:]] <= cuts[:-1]).all()
        kept, _ = match(
            problem.old_cuts, cuts_in_time(problem.starts, problem.old_cuts, prefix, most, Budget(60.0)), prefix
        )
        solved += 1
        reached += kept >= best - (int(prefix[-1]) >> 20) - problem.workload.key_groups
    assert reached == solved if long else reached > 0.8 * solved


# Exact load tests -------------------------------------------------------------------------------------------------


def test_a_float_tau_means_its_decimal():
    """1.3 * 40 / 4 = 13 exactly, but the float nearest to 0.3 lies below 3/10."""
    w = workload([13, 13, 13, 1], [0, 0, 1, 1], 2)
    assert Fraction(0.3) < Fraction(3, 10)
    assert not ks.IntervalMigration(w, 4, 0.3).conflicts()
    assert ks.IntervalMigration(w, 4, Fraction(0.3)).conflicts()


def test_tau_zero_needs_exact_halves():
    assert ks.solve(ks.IntervalMigration(workload([0.5, 0.25, 0.25, 1.0], [0] * 4, 1), 2, 0)).objective == 1.0
    # 0.1 + 0.2 exceeds 0.3 as float64 numbers do: exact means exact.
    sentence = ks.IntervalMigration(workload([0.1, 0.2, 0.3], [0] * 3, 1), 2, 0).conflicts()
    assert sentence


def test_loads_of_any_magnitude_stay_exact():
    load = [1e-300, 1e300, 1.0, 1e300]
    problem = ks.IntervalMigration(workload(load, [0, 0, 1, 1], 2, state=[1, 1, 1, 1]), 2, 0)
    assert isinstance(problem.prefix.sums, list)
    assert problem.conflicts()  # 1e-300 + 1e300 + 1 on one side is more than half by less than any float shows
    assert problem.smallest_tau > 0
    at_the_edge = ks.IntervalMigration(problem.workload, 2, problem.smallest_tau)
    assert ks.solve(at_the_edge).objective == 0.0


def test_whole_numbers_are_exact():
    rng = np.random.default_rng(0)
    for values in (
        rng.random(50),
        rng.integers(0, 99, 50) / 8,
        np.zeros(3),
        rng.random(9) * 1e-200,
        np.array([1e30, 1.5]),
    ):
        whole, shift = whole_numbers(values)
        assert [Fraction(int(w), 2**shift) for w in whole] == [Fraction(float(v)) for v in values]


def test_smallest_tau_is_the_smallest():
    rng = np.random.default_rng(4)
    for _ in range(50):
        m, nodes = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        load = rng.integers(1, 9, m)
        sums = np.concatenate(([0], np.cumsum(load)))
        by_hand = min(
            max(int(sums[b] - sums[a]) for a, b in itertools.pairwise((0, *cuts, m)))
            for r in range(min(nodes, m))
            for cuts in itertools.combinations(range(1, m), r)
        )
        expected = max(Fraction(0), Fraction(by_hand * nodes, int(load.sum())) - 1)
        assert Prefix(load.astype(float)).smallest_tau(nodes) == expected


# Infeasible, refused ----------------------------------------------------------------------------------------------


def test_infeasible_names_the_task_that_blocks():
    solution = ks.solve(ks.IntervalMigration(workload([9, 1, 1], [0, 0, 1], 2), 2, 0.1))
    assert solution.status == solution.termination == "infeasible"
    assert "task 0 alone has load 9" in solution.message
    assert "smallest feasible tau is 0.636364 (exactly 7/11)" in solution.message


def test_infeasible_names_the_prefix_that_blocks():
    """64 unit tasks at tau = 0.1: 8 nodes will do, 9 will not. Feasibility is not monotone in the number of nodes."""
    w = workload(np.ones(64), np.repeat(np.arange(8), 8), 8)
    assert not ks.IntervalMigration(w, 8, 0.1).conflicts()
    sentence = ks.IntervalMigration(w, 9, 0.1).conflicts()[0]
    assert "9 nodes filled in order carry tasks 0 to 62 of 64" in sentence
    assert "smallest feasible tau is 0.125" in sentence
    assert not ks.IntervalMigration(w, 9, 0.125).conflicts()
    assert not ks.IntervalMigration(w, 10, 0.1).conflicts()


def test_a_decimal_above_is_never_below():
    for number in (Fraction(1, 3), Fraction(1, 8), Fraction(7, 11), Fraction(0), Fraction(10**9 + 1, 10**9)):
        assert Fraction(decimal_above(number).split()[0]) >= number


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes_after": 0}, "nodes_after = 0"),
        ({"nodes_after": 1.5}, "nodes_after = 1.5"),
        ({"tau": -0.1}, "tau = -0.1"),
        ({"tau": float("nan")}, "tau = nan"),
        ({"tau": "much"}, "tau = 'much'"),
        ({"tau": True}, "tau = True"),
        ({"workload": 3}, "workload must be a Workload"),
    ],
)
def test_bad_data_is_refused(change, sentence):
    given = {"workload": workload([1, 1], [0, 1], 2), "nodes_after": 2, "tau": 0.2, **change}
    with pytest.raises(ks.InputError, match=sentence):
        ks.IntervalMigration(**given)


def test_a_node_with_two_intervals_is_refused():
    with pytest.raises(ks.InputError, match=r"current\[2\] = 0 begins a second interval of node 0"):
        ks.IntervalMigration(workload([1, 1, 1], [0, 1, 0], 2), 2, 0.2)


def test_unequal_nodes_are_refused():
    with pytest.raises(ks.InputError, match=r"nodes\[1\] = 2 differs from nodes\[0\] = 1"):
        ks.IntervalMigration(workload([1, 1], [0, 1], [1.0, 2.0]), 2, 0.2)


# The check --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "nodes_after", "tau", "broken"),
    [
        ([0, 0, 1, 1, 0, 1], 3, 2, ["intervals"]),
        ([0, 0, 0, 0, 0, 1], 3, 1, ["load"]),
        ([0, 1, 3, 4, 4, 4], 3, 1, ["nodes_after"]),
        ([2, 2, 0, 0, 1, 1], 3, 0, ["draining"]),
        ([0, 0, 1, 1, 3, 3], 3, 0, []),
    ],
)
def test_each_rule_can_be_broken(assignment, nodes_after, tau, broken):
    w = workload([1] * 6, [0, 0, 1, 1, 2, 2], 3, draining=[False, False, True])
    problem = ks.IntervalMigration(w, nodes_after, tau)
    rules = [v.rule for v in problem.violations(np.array(assignment))]
    assert rules == broken


def test_an_unknown_node_is_refused():
    w = workload([1] * 6, [0, 0, 1, 1, 2, 2], 3, draining=[False, False, True])
    problem = ks.IntervalMigration(w, 4, 2)
    assert problem.places == 5
    with pytest.raises(ks.InputError, match=r"assignment\[3\] = 5 is not a node"):
        problem.check([0, 0, 1, 5, 3, 3])


def test_draining_nodes_keep_nothing_and_new_nodes_take_the_next_numbers():
    w = workload([1] * 6, [0, 0, 1, 1, 2, 2], 3, draining=[False, True, False])
    solution = ks.solve(ks.IntervalMigration(w, 3, 0))
    assert solution.objective == 2.0
    assert solution.assignment.tolist() == [0, 0, 3, 3, 2, 2]


def test_nothing_moves_when_nothing_must():
    w = workload([2, 1, 2, 1], [3, 3, 1, 1], 4)
    assert ks.solve(ks.IntervalMigration(w, 2, 0)).assignment.tolist() == [3, 3, 1, 1]
    assert ks.solve(ks.IntervalMigration(w, 4, 3)).objective == 0.0

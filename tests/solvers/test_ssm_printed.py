"""What is wrong in print, each with its smallest counterexample; and that the repairs make it right."""

from __future__ import annotations

import numpy as np
import pytest
from instances.intervals import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.intervals import printed


def problem(state, load, current, nodes_after, tau):
    w = ks.Workload(load=load, state=state, current=current, nodes=max(current) + 1)
    return ks.IntervalMigration(w, nodes_after, tau)


def gain(p, solution):
    return p.workload.state.sum() - solution.objective


def claimed(p, flaw):
    """The state that Figure 7 believes to keep; its cuts, labelled as well as can be, may keep more by luck."""
    return p.workload.state.sum() - ks.solve(p, "ssm-printed", flaws=(flaw,)).details["state_moved_claimed"]


def test_lemma_4_1_misses_a_gain_at_the_very_end():
    """One task, one node, n' = 2, limit 8: staying keeps 1. P2 must not be empty in print, so nothing is found."""
    p = problem([1], [8], [0], 2, 1)
    assert gain(p, ks.solve(p)) == 1
    printed_one = ks.solve(p, "ssm-printed")
    assert printed_one.status == "none"
    assert "no solution, though there is one" in printed_one.message
    assert ks.solve(p, "ssm-printed", flaws=("base",)).objective == ks.solve(p).objective


def test_only_one_interval_is_a_base_in_print():
    """Old [0, 2), n' = 3, limit 11/3: keeping task 0 in place is best; without a zero base for n_P > 1 it is missed."""
    p = problem([3, 2], [3, 2], [0, 0], 3, 1.2)
    assert gain(p, ks.solve(p)) == 3
    assert claimed(p, "base") == 2


def test_lemma_4_3_is_not_about_the_served_node():
    """Old [0, 2), [2, 3), n' = 2, limit 25.2: [1, 3) serves node 0 and keeps 8; Lemma 4.3's two candidates keep 2."""
    p = problem([1, 8, 1], [20, 10, 6], [0, 0, 1], 2, 0.4)
    assert gain(p, ks.solve(p)) == 8
    assert claimed(p, "lemma-4.3") == 2


def test_lines_10_to_12_overload_a_node():
    """Limit 3, loads 0, 3, 2: the window that subtracts the load of the NEW lower end claims to keep 4 instead of 3."""
    p = problem([1, 1, 3], [0, 3, 2], [0, 0, 0], 2, 0.2)
    assert gain(p, ks.solve(p)) == 3
    wrong = printed.ssm_printed(p, budget=Budget(), flaws=("lines-10-12",))
    assert p.workload.state.sum() - wrong.details["state_moved_claimed"] == 4
    assert "load" in {v.rule for v in p.check(wrong.assignment).violations}
    assert ks.solve(p, "ssm-printed", flaws=("lines-10-12",)).status == "none"


def test_lines_10_to_12_cut_more_intervals_than_nodes():
    """Old [0, 3), [3, 5), n' = 4, limit 5.5 / 3: a range that is overloaded counts for one interval and is cut in two."""
    p = problem([3, 7, 0, 1, 6], [1.8, 0.9, 1.7, 0.5, 0.6], [1, 1, 1, 2, 2], 4, "1/3")
    assert ks.solve(p).objective == 3
    printed_one = ks.solve(p, "ssm-printed", flaws=("lines-10-12",))
    assert printed_one.status == "none"
    assert printed_one.message == "Figure 7 as printed cuts 5 intervals for 4 nodes"


def test_the_repairs_are_exact():
    rng = np.random.default_rng(1)
    wrong = feasible = 0
    for _ in range(400):
        p = random_problem(rng, int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        if p.conflicts():
            continue
        best = ks.solve(p).objective
        feasible += 1
        assert ks.solve(p, "ssm-repaired").objective == pytest.approx(best, abs=1e-9)
        if p.workload.key_groups <= 5:
            assert ks.solve(p, "simple-ssm").objective == pytest.approx(best, abs=1e-9)
        as_printed = ks.solve(p, "ssm-printed").objective
        wrong += as_printed is None or as_printed > best + 1e-9
        assert as_printed is None or as_printed >= best - 1e-9
    assert wrong > 0.05 * feasible


def test_what_would_take_too_long_is_said():
    w = ks.Workload(load=np.ones(40), state=np.ones(40), current=np.repeat(np.arange(10), 4), nodes=10)
    p = ks.IntervalMigration(w, 12, 1)
    assert "default method does not" in ks.solve(p, "simple-ssm").message
    with pytest.raises(ks.InputError, match="choose from range"):
        ks.solve(p, "ssm-printed", flaws=("none",))
    large = ks.IntervalMigration(
        ks.Workload(load=np.ones(200_000), state=np.ones(200_000), current=np.zeros(200_000), nodes=1), 2, 1
    )
    for method in ("ssm-repaired", "ssm-printed"):
        assert "steps" in ks.solve(large, method).message

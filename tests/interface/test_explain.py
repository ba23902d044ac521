"""Explain: worths by arithmetic, marginal values that solving from scratch confirms, and moves not worth their state."""

from __future__ import annotations

import numpy as np
import pytest
from draws import rest_slow
from instances import BATTERIES

import keyshift as ks

CASES = [
    ("key-group-allocation", "ties"), ("collocated-allocation", "ties"), ("mclb", "ties"), ("mixed-routing", "ties"),
    ("movement-within-limits", "ties"), ("interval-migration", "ties"), ("migration-sequence", "ties"),
    ("migration-policy", "ties"), ("key-splitting", "ties"), ("key-placement", "ties"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "label"), rest_slow(9, CASES[:1] + CASES[2:] + CASES[1:2]))
def test_marginal_values_agree_with_solving_from_scratch(name, label):
    problem = BATTERIES[name]()[label]
    answer = ks.solve(problem, time_limit=60)
    if answer.assignment is None:
        with pytest.raises(ks.InputError, match="no assignment to explain"):
            ks.explain(problem, answer)
        return
    explanation = ks.explain(problem, answer, time_limit=None)
    limits = {limit.name: limit for limit in problem.limits}
    assert limits
    assert {m.limit for m in explanation.marginals} <= set(limits)
    for m in explanation.marginals:
        again = ks.solve(limits[m.limit].at(m.then), time_limit=60)
        assert m.status == again.status
        if again.objective is not None:
            assert m.objective == pytest.approx(again.objective, abs=2 * problem.tolerance)
            assert m.at_least == pytest.approx(answer.objective - again.objective, abs=2 * problem.tolerance)
            assert m.at_most >= m.at_least - problem.tolerance
    assert str(explanation)


def test_every_move_is_worth_what_undoing_it_costs():
    for name in ("key-group-allocation", "mclb", "collocated-allocation"):
        for label, problem in BATTERIES[name]().items():
            answer = ks.solve(problem, effort=0.01)
            if answer.assignment is None:
                continue
            explanation = ks.explain(problem, answer, marginals=False)
            for move in explanation.moves.itertuples():
                undone = answer.assignment.copy()
                undone[move.key_group] = problem.workload.current[move.key_group]
                broken = problem.violations(undone)
                assert move.breaks == (broken[0].rule if broken else "")
                # A mean rounded up, or load that depends on where traffic goes, is the problem's own affair.
                if (
                    getattr(problem, "minimise", "remote_traffic") == "remote_traffic"
                    and getattr(problem, "mean", "exact") == "exact"
                ):
                    expected = problem.objective(undone) - answer.objective
                    assert move.gain == pytest.approx(expected, abs=1e-9 * problem.scale), (name, label)


def test_doing_nothing_is_held_against_the_best():
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    explanation = ks.explain(ks.KeyGroupAllocation(w, max_migrations=1))
    assert "doing nothing leaves 5, exactly 4 above the best there is (80 % of it)" in str(explanation)
    assert explanation.nothing_objective == 5
    level = ks.Workload(load=[1, 1], state=[1, 1], current=[0, 1], nodes=2)
    assert "doing nothing is as good" in ks.explain(ks.KeyGroupAllocation(level)).nothing


def test_moves_that_are_not_worth_their_state_are_dropped_at_a_proven_cost():
    rng = np.random.default_rng(3)
    w = ks.Workload(load=rng.integers(1, 20, 14), state=rng.integers(1, 9, 14), current=rng.integers(0, 3, 14), nodes=3)
    problem = ks.KeyGroupAllocation(w, max_migrations=6)
    answer = ks.solve(problem)
    free = ks.explain(problem, answer, min_gain=0.0, marginals=False).thinned
    assert free.cost <= 0
    for min_gain in (0.1, 0.5, 100.0):
        thinned_plan = ks.explain(problem, answer, min_gain=min_gain, marginals=False).thinned
        assert problem.check(thinned_plan.solution.assignment).feasible
        assert thinned_plan.cost == pytest.approx(
            problem.objective(thinned_plan.solution.assignment) - answer.objective
        )
        assert thinned_plan.above_best >= thinned_plan.cost - problem.tolerance
        for k in np.flatnonzero(thinned_plan.solution.assignment != w.current):  # none that is left is worth less
            undone = thinned_plan.solution.assignment.copy()
            undone[k] = w.current[k]
            assert problem.objective(undone) - thinned_plan.solution.objective >= min_gain * w.state[k] - 1e-9
    assert len(thinned_plan.dropped) == int((answer.assignment != w.current).sum())
    planned = ks.plan(problem, answer, min_gain=100.0)
    assert len(planned) == 0
    assert "moves dropped" in planned.notes[-1]

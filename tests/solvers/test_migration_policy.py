"""Policies under a transition matrix: values against naive value iteration, the check, the artefact."""

from __future__ import annotations

import interval_oracle as oracle
import numpy as np
import pytest
from instances.policies import battery, random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.intervals.partitions import Ruler
from keyshift.solvers.intervals.policy.policy_iteration import PolicyIteration
from keyshift.solvers.intervals.policy.saved_policy import Policy
from keyshift.solvers.intervals.ssm import policy_bound

TABLE_4 = {2: {2: 0.3, 3: 0.6, 4: 0.1}, 3: {2: 0.3, 3: 0.4, 4: 0.3}, 4: {2: 0.1, 3: 0.5, 4: 0.4}}


def table_4(tau=0.4, discount=0.8, m=10, **more):
    rng = np.random.default_rng(7)
    w = ks.Workload(load=rng.integers(2, 6, m), state=rng.integers(1, 9, m), current=np.repeat([0, 1], m // 2), nodes=2)
    return ks.MigrationPolicy(w, TABLE_4, tau, discount, **more)


def test_every_value_lies_in_its_certified_interval():
    problem = table_4()
    precise = PolicyIteration(problem)
    precise.run(Budget(), 1e-9)
    rough = PolicyIteration(problem)
    rough.round(Budget())
    for n in problem.counts:
        assert (rough.value[n] + rough.low <= precise.value[n] + precise.high).all()
        assert (rough.value[n] + rough.high >= precise.value[n] + precise.low).all()
    assert precise.gap <= 1e-9 * problem.scale < rough.gap


def test_the_interval_holds_for_the_values_that_a_limit_leaves(monkeypatch):
    rng = np.random.default_rng(13)
    w = ks.Workload(load=rng.random(12) + 0.2, state=rng.random(12) + 0.1, current=np.arange(12) // 4, nodes=3)
    problem = ks.MigrationPolicy(w, {3: {4: 1.0}, 4: {3: 0.5, 5: 0.5}, 5: {4: 1.0}}, 0.4, 0.95)
    precise = PolicyIteration(problem)
    precise.run(Budget(), 1e-12)
    cut, budget = PolicyIteration(problem), Budget()
    evaluate = PolicyIteration.evaluate

    def then_interrupted(self, precision, budget, **more):
        evaluate(self, precision, budget, **more)
        if not more:  # after a round, not within one
            budget.interrupt()

    monkeypatch.setattr(PolicyIteration, "evaluate", then_interrupted)
    cut.run(budget, 1e-12)
    assert cut.rounds == 1
    for n, value in precise.value.items():
        assert (cut.value[n] + cut.low <= value + precise.high).all()
        assert (cut.value[n] + cut.high >= value + precise.low).all()


def test_the_interval_holds_after_every_round(monkeypatch):
    """Also where a sweep leaves out partners whose values do not fall any more."""
    choose, left_out = PolicyIteration._to_sweep, []

    def counted(self, n, after):
        rows, lost = choose(self, n, after)
        left_out.append(lost > 0)
        return rows, lost

    rng = np.random.default_rng(14)
    w = ks.Workload(load=rng.random(18) + 0.5, state=rng.random(18), current=np.arange(18) // 6, nodes=3)
    chances = {3: {4: 0.7, 5: 0.3}, 4: {3: 0.5, 5: 0.5}, 5: {4: 0.9, 3: 0.1}}
    precise = PolicyIteration(ks.MigrationPolicy(w, chances, 0.5, 0.9))
    precise.run(Budget(), 1e-12)
    monkeypatch.setattr(PolicyIteration, "_to_sweep", counted)
    rough = PolicyIteration(precise.problem)
    rough.slack = 1e-3 * w.state.sum()
    for _ in range(6):
        assert rough.round(Budget())
        for n, value in precise.value.items():
            assert (rough.value[n] + rough.low <= value + precise.high).all()
            assert (rough.value[n] + rough.high >= value + precise.low).all()
    assert any(left_out)
    assert not all(left_out)


def test_without_time_every_count_has_the_partition_of_the_step_from_now():
    """Its first steps are optimal, so little more moves than step by step; the fewest intervals moved almost three times as much."""
    problem = table_4(m=40)
    late, whole = ks.solve(problem, "ssm", effort=1e-9), ks.solve(problem, "ssm")
    assert "each count has one partition" in late.message
    assert whole.bound <= whole.objective <= late.objective < 1.5 * whole.objective
    assert late.bound <= late.objective


def test_no_discount_is_single_step_migration():
    problem = table_4(discount=0.0)
    solution = ks.solve(problem)
    steps = {n: ks.solve(problem.first_step(n)).objective for n in problem.first_row}
    assert solution.objective == pytest.approx(sum(p * steps[n] for n, p in problem.first_row.items()))
    revealed = ks.solve(table_4(discount=0.0, nodes_after=4))
    assert revealed.objective == pytest.approx(steps[4])


def test_a_discount_near_one_does_not_overflow():
    """Values of a bad policy can then differ by far more than all the state; they share a word with row numbers."""
    problem = table_4(discount=0.9999, m=8)
    mtm, naive = ks.solve(problem), ks.solve(problem, "value-iteration", tolerance=1e-7)
    assert mtm.objective == pytest.approx(naive.objective, rel=1e-6)
    assert mtm.bound <= naive.objective


def test_a_partner_of_huge_value_is_never_chosen():
    c = ks.solve(battery()["twelve"]).details["policy"].classes[3]
    ruler = Ruler(np.ones(12), c.size)
    value = np.full(c.size, 2**55)
    value[3] = 0
    assert (ruler.sweep(c, c.rows, value).partner == 3).all()


def test_the_bound_of_any_size_is_a_bound():
    rng = np.random.default_rng(9)
    seen = 0.0
    for _ in range(40):
        problem = random_problem(rng, int(rng.integers(2, 8)), 3)
        if problem.conflicts():
            continue
        bound, best = policy_bound(problem), oracle.policy(problem)
        assert bound <= best + 1e-9
        seen = max(seen, bound / max(best, 1e-9))
    assert seen > 0.3


# The check --------------------------------------------------------------------------------------------------------


def test_the_check_values_a_policy_by_hand():
    """Two counts in turn: 4 tasks of state 1 on two nodes, then one, then two, ... each step moves 2."""
    w = ks.Workload(load=np.ones(4), state=np.ones(4), current=[0, 0, 1, 1], nodes=2)
    problem = ks.MigrationPolicy(w, {1: {2: 1.0}, 2: {1: 1.0}}, 0, 0.5)
    none = [-1] * 4
    policy = np.array([[[0, 0, 0, 0], none], [none, [0, 0, 1, 1]], [[1, 1, 1, 1], none]])
    report = problem.check(policy)
    assert report.feasible
    assert report.objective == pytest.approx(2 / (1 - 0.5))
    assert report.metrics["state_moved"] == 2.0
    assert ks.solve(problem).objective == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("place", "labels", "rule"),
    [
        ((1, 1), [0, 0, 1, -1], "asked"),
        ((1, 1), [0, 1, 0, 1], "intervals"),
        ((1, 1), [0, 0, 0, 1], "load"),
        ((0, 0), [0, 0, 1, 1], "nodes_after"),
        ((1, 1), [0, 0, 2, 2], "node_numbers"),
        ((1, 1), [0, 1, 1, 1], "load"),
    ],
)
def test_each_rule_of_a_policy_can_be_broken(place, labels, rule):
    w = ks.Workload(load=np.ones(4), state=np.ones(4), current=[0, 0, 1, 1], nodes=2)
    problem = ks.MigrationPolicy(w, {1: {2: 1.0}, 2: {1: 1.0}}, 0, 0.5)
    none = [-1] * 4
    policy = np.array([[[0, 0, 0, 0], none], [none, [0, 0, 1, 1]], [[1, 1, 1, 1], none]])
    policy[place] = labels
    assert rule in {v.rule for v in problem.check(policy).violations}


def test_an_open_policy_is_no_policy():
    w = ks.Workload(load=np.ones(4), state=np.ones(4), current=[0, 0, 1, 1], nodes=2)
    problem = ks.MigrationPolicy(w, {1: {2: 1.0}, 2: {1: 1.0}}, 0, 0.5)
    none = [-1] * 4
    first = [[0, 0, 0, 0], none]
    assert [v.rule for v in problem.check([first]).violations] == ["closed"]
    whole = [first, [none, [0, 0, 1, 1]], [[1, 1, 1, 1], none]]
    spare = problem.check([*whole, first])
    assert [v.rule for v in spare.violations] == ["closed"]
    assert problem.check(whole).feasible
    with pytest.raises(ks.InputError, match="assignment has shape"):
        problem.check([0, 0, 1, 1])
    with pytest.raises(ks.InputError, match=r"assignment\[0, 0, 0\] = 9"):
        problem.check([[[9] * 4, none]])
    with pytest.raises(ks.InputError, match="node numbers"):
        problem.check([[[0.5] * 4, none]])


def test_draining_nodes_are_left_in_the_first_step():
    w = ks.Workload(
        load=np.ones(6), state=np.arange(1, 7), current=[0, 0, 1, 1, 2, 2], nodes=3, draining=[False, True, False]
    )
    problem = ks.MigrationPolicy(w, {2: {2: 0.5, 3: 0.5}, 3: {2: 1.0}}, 0.5, 0.8)
    solution = ks.solve(problem)
    assert solution.objective == pytest.approx(oracle.policy(problem), abs=1e-5)
    for n in problem.first_row:
        assert 1 not in problem.decision(solution.assignment, n)
    with pytest.raises(ks.InputError, match="nodes_after = 9"):
        problem.decision(solution.assignment, 9)
    onto = np.array(solution.assignment)
    onto[0, problem.counts.index(2)] = [1, 1, 1, 0, 0, 0]
    assert "draining" in {v.rule for v in problem.check(onto).violations}


# Saved, loaded, asked ---------------------------------------------------------------------------------------------


def test_a_policy_survives_saving(tmp_path):
    problem = battery()["twelve"]
    policy = ks.solve(problem).details["policy"]
    policy.save(tmp_path / "policy.npz")
    again = Policy.load(tmp_path / "policy.npz")
    for n, c in policy.classes.items():
        for i in range(c.size):
            for after in problem.transitions[n]:
                np.testing.assert_array_equal(policy.decide(n, c.cuts(i), after), again.decide(n, c.cuts(i), after))
    (tmp_path / "other.npz").write_text("no policy")
    with pytest.raises(ks.InputError, match="holds no migration policy"):
        Policy.load(tmp_path / "other.npz")
    with pytest.raises(ks.InputError, match="nodes_after = 99"):
        again.decide(2, [0, 12], 99)


def test_a_policy_decides_from_partitions_it_does_not_know():
    """An overloaded partition is in no class: the policy then searches the whole class of the next count."""
    problem = battery()["twelve"]
    policy = ks.solve(problem).details["policy"]
    cuts = np.array([0, 11, 12])
    assert policy.classes[2].index(cuts) is None
    chosen = policy.decide(2, cuts, 2)
    costs = policy.costs(cuts, 2)
    assert costs[policy.classes[2].index(chosen)] == costs.min()


@pytest.mark.parametrize("method", ["lp", "value-iteration"])
def test_what_cannot_be_written_out_is_refused(method):
    w = ks.Workload(load=np.ones(30), state=np.ones(30), current=np.repeat([0, 1, 2], 10), nodes=3)
    problem = ks.MigrationPolicy(w, {3: {4: 1.0}, 4: {3: 1.0}}, 0.6, 0.5)
    assert "use 'mtm'" in ks.solve(problem, method).message


def test_limits_are_said_not_hidden():
    problem = battery()["twelve"]
    unwritten = ks.solve(problem, most_states=1)
    assert unwritten.assignment is None
    assert unwritten.bound == pytest.approx(ks.solve(problem).bound)
    late = ks.solve(problem, time_limit=0.0)
    assert late.status == "none"
    assert "the time limit was reached" in late.message


# Transition matrices ----------------------------------------------------------------------------------------------


def test_a_changed_assignment_is_valued_anew():
    problem = battery()["twelve"]
    assignment = problem.canonical(ks.solve(problem, "ssm").assignment)
    before = problem.violations(assignment)
    assignment[0, :, :] = assignment[0, :, ::-1].copy()
    assert before == []
    assert problem.violations(assignment) != []

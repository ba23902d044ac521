"""Known sequences of node counts: the sweeps against all partitions, and the paper's Table 3."""

from __future__ import annotations

import itertools
import tracemalloc

import interval_oracle as oracle
import numpy as np
import pyomo.environ as pyo
import pytest
from instances.sequences import battery, random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.intervals.pyomo_model import IntervalPyomo
from keyshift.solvers.intervals import owners as matching_kernel
from keyshift.solvers.intervals import partitions, sweep_kernels
from keyshift.solvers.intervals.partitions import Ruler
from keyshift.solvers.intervals.ssm import sequence_bound


def test_some_partitions_lead_to_assignments_between_the_optimum_and_single_steps():
    rng, better = np.random.default_rng(5), 0
    for _ in range(60):
        problem = random_problem(rng, int(rng.integers(4, 10)), int(rng.integers(2, 5)))
        if problem.conflicts():
            continue
        some, myopic = ks.solve(problem, "oms-restricted"), ks.solve(problem, "ssm")
        # Of each class one partition stays after every round.
        one = ks.solve(problem, "oms-restricted", partitions=1)
        assert oracle.sequence(problem) - 1e-9 <= some.objective <= one.objective + 1e-9 <= myopic.objective + 2e-9
        better += some.objective < myopic.objective - 1e-9
    assert better > 0


def test_where_partitions_are_too_many_some_of_them_lead_to_the_answer():
    rng, best = np.random.default_rng(6), 0
    for _ in range(12):
        problem = random_problem(rng, int(rng.integers(3, 8)), int(rng.integers(2, 4)))
        if not problem.conflicts():
            solution, optimum = ks.solve(problem, "oms", most_partitions=0, time_limit=0.2), oracle.sequence(problem)
            assert solution.status == "optimal" or "too many to enumerate" in solution.message
            assert solution.bound - 1e-9 <= optimum <= solution.objective + 1e-9
            best += solution.objective <= optimum + 1e-9
    assert best > 5


@pytest.mark.parametrize("nodes", [3, 90])
def test_many_tasks_take_little_memory(nodes):
    """70,000 tasks have more partitions than 16 bits number, and a count of prefixes for every task and node would not fit."""
    load = np.random.default_rng(0).gamma(2.0, 1.0, 70_000)
    w = ks.Workload(load=load, state=load, current=np.arange(load.size) * nodes // load.size, nodes=nodes)
    problem = ks.MigrationSequence(w, [nodes + 2, nodes - 1], 0.3)
    ks.solve(problem, "ssm")
    tracemalloc.start()
    solution = ks.solve(problem, "oms", effort=1)  # not seconds: on a busy machine a bound came too late
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than 12000000 partitions" in solution.message
    assert solution.assignment.shape == (2, 70_000)
    assert 0 < solution.bound <= solution.objective <= ks.solve(problem, "ssm").objective + 1e-9
    assert most < 150e6


def test_what_does_not_fit_into_memory_is_not_tried(monkeypatch):
    monkeypatch.setattr(partitions, "MOST_BYTES", 1)
    load = np.random.default_rng(0).integers(50, 151, 24)
    w = ks.Workload(load=load, state=load, current=np.repeat(np.arange(4), 6), nodes=4)
    policy = ks.MigrationPolicy(w, {4: {5: 1.0}, 5: {3: 0.5, 4: 0.5}, 3: {4: 1.0}}, 0.4, 0.5)
    for posed in (ks.MigrationSequence(w, [5, 3, 5, 4], 0.4), policy):
        solution = ks.solve(posed, time_limit=1)
        assert "GB, more than 0.0" in solution.message
        assert 0 <= solution.bound <= solution.objective + 1e-9


def test_counting_ends_where_there_are_too_many():
    rng = np.random.default_rng(4)
    for _ in range(60):
        load = rng.integers(1, 5, int(rng.integers(1, 12)))
        w = ks.Workload(load=load, state=load, current=np.zeros(load.size), nodes=1)
        starts, n = ks.IntervalMigration(w, 1, str(rng.choice(["0.3", "2"]))).prefix.starts(8), int(rng.integers(1, 6))
        exact, most = partitions.count_partitions(starts, n), int(rng.integers(0, 20))
        counted = partitions.count_partitions(starts, n, most)
        assert counted == exact or min(counted[0], exact[0]) > most


def test_the_optimum_of_table_3_is_6():
    """Printed: 10 step by step, 9 for the "alternative". The optimum is 6; step by step, ties decide what it costs."""
    problem = battery()["table 3"]
    assert ks.solve(problem).objective == 6.0 == ks.solve(problem, "cp-sat").objective == oracle.sequence(problem)
    now, w = oracle.cuts_of(problem.workload.current), problem.workload
    totals = {
        4 + min(20 - oracle.kept(first, then, w.state) for then in oracle.partitions(w, 4, problem.tau))
        for first in oracle.partitions(w, 3, problem.tau)
        if oracle.kept(now, first, w.state) == 16  # a single step can do no better
    }
    assert min(totals) == 6.0
    assert max(totals) >= 8.0
    assert ks.solve(problem, "ssm").objective in totals


def test_the_alternative_of_table_3_costs_10_not_9():
    """8, 7, 5 and then 6, 6, 4, 4 tasks, in any order and with any labels: 5 + 5, as each node runs one interval."""
    problem = battery()["table 3"]
    now, state = oracle.cuts_of(problem.workload.current), problem.workload.state

    def ways(*sizes):
        return {(0, *itertools.accumulate(order)) for order in itertools.permutations(sizes)}

    totals = {
        40 - oracle.kept(now, first, state) - oracle.kept(first, then, state)
        for first in ways(8, 7, 5)
        for then in ways(6, 6, 4, 4)
    }
    assert min(totals) == 10.0
    printed = np.stack([np.repeat([0, 2, 1], [8, 5, 7]), np.repeat([0, 3, 2, 1], [6, 4, 4, 6])])
    assert problem.check(printed).feasible
    assert problem.check(printed).objective == 10.0


def test_the_counter_example_to_table_3_by_hand():
    """13, 7 -> 9, 4, 7 (cost 4) -> 7, 2, 4, 7 (cost 2): nodes keep their numbers, new ones take the next."""
    problem = battery()["table 3"]
    by_hand = np.stack([np.repeat([0, 2, 1], [9, 4, 7]), np.repeat([0, 3, 2, 1], [7, 2, 4, 7])])
    report = problem.check(by_hand)
    assert report.feasible
    assert report.objective == 6.0


def test_a_step_that_keeps_the_count_keeps_the_partition():
    w = ks.Workload(load=np.ones(12), state=np.arange(12), current=np.repeat([0, 1], 6), nodes=2)
    solution = ks.solve(ks.MigrationSequence(w, [3, 3, 3], 0.5))
    np.testing.assert_array_equal(solution.assignment[0], solution.assignment[2])


def test_nodes_removed_and_added_again_take_new_numbers():
    w = ks.Workload(load=np.ones(6), state=np.ones(6), current=np.repeat([0, 1, 2], 2), nodes=3)
    problem = ks.MigrationSequence(w, [2, 3], 0)
    assert problem.places == 4
    solution = ks.solve(problem)
    assert set(solution.assignment[0].tolist()) < {0, 1, 2}
    assert 3 in solution.assignment[1]


def test_the_metric_bound_is_a_bound():
    rng = np.random.default_rng(2)
    seen = 0.0
    for _ in range(60):
        problem = random_problem(rng, int(rng.integers(2, 8)), 3)
        if problem.conflicts():
            continue
        bound, best = sequence_bound(problem), oracle.sequence(problem)
        assert bound <= best + 1e-9
        seen = max(seen, bound)
    assert seen > 0


def test_a_bad_count_names_its_position():
    w = ks.Workload(load=[1, 1], state=[1, 1], current=[0, 1], nodes=2)
    with pytest.raises(ks.InputError, match=r"node_counts\[1\] = 0"):
        ks.MigrationSequence(w, [2, 0], 0.2)
    for empty in ([], 3, ""):
        with pytest.raises(ks.InputError, match="node_counts"):
            ks.MigrationSequence(w, empty, 0.2)
    assert ks.MigrationSequence(w, "2,1", 1).counts == ks.MigrationSequence(w, np.array([2, 1]), 1).counts == (2, 1)
    with pytest.raises(ks.InputError, match=r"assignment has shape \(2,\), expected \(2, 2\)"):
        ks.MigrationSequence(w, [2, 1], 1).check([0, 1])
    with pytest.raises(ks.InputError, match=r"step 1: assignment\[0\] = 9 is not a node"):
        ks.MigrationSequence(w, [2, 1], 1).check([[0, 1], [9, 9]])


def test_a_broken_step_is_named():
    w = ks.Workload(load=[1, 1, 1], state=[1, 1, 1], current=[0, 1, 1], nodes=2)
    violations = ks.MigrationSequence(w, [2, 2], 0.4).check([[0, 1, 1], [0, 0, 0]]).violations
    assert [str(v)[:8] for v in violations] == ["step 1: "] or "step 0" in str(violations[0])


# The sweep --------------------------------------------------------------------------------------------------------


def classes_of(rng: np.random.Generator, m: int) -> tuple[list[partitions.PartitionClass], np.ndarray]:
    load = rng.integers(0, 5, m) if rng.random() < 0.5 else np.ones(m)
    w = ks.Workload(load=load, state=rng.integers(0, 7, m), current=np.zeros(m), nodes=1)
    made = []
    for n in range(1, 6):
        problem = ks.IntervalMigration(w, n, str(rng.choice(["0.1", "0.3", "0.8"])))
        count, prefixes = partitions.count_partitions(problem.starts, n)
        assert count == sum(1 for _ in oracle.partitions(w, n, problem.tau))
        if count:
            made.append(partitions.enumerate_class(problem.starts, n))
            assert made[-1].size == count
            assert made[-1].first[-1] == prefixes
    return made, w.state


@pytest.mark.parametrize("compiled", [True, False])
def test_a_sweep_equals_all_pairs(compiled, monkeypatch):
    if not compiled:
        for module, name in (
            (matching_kernel, "match"),
            *((partitions, name) for name in ("_trie", "_rows", "sweep", "frame_need")),
            *((sweep_kernels, name) for name in ("_advance", "_take_over", "_finish", "_hand_over", "_lay_out")),
        ):
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
    rng, listed = np.random.default_rng(3), set()
    for _ in range(40 if compiled else 6):
        made, state = classes_of(rng, int(rng.integers(1, 13 if compiled else 8)))
        some = [
            partitions.some_of_class(c.starts, c.nodes, [c.cuts(i) for i in range(0, c.size, 2)])
            for c in made
            if c.size > 2
        ]
        listed |= {c.for_sweeps[0].parent.size > 0 for c in made}
        for source in (*made, *some):
            for target in made:
                chosen = np.sort(rng.choice(target.size, rng.integers(1, target.size + 1), replace=False))
                ruler = Ruler(state, target.size)
                value = rng.integers(0, 20, chosen.size)
                best = ruler.sweep(source, target.rows[chosen], ruler.whole(value.astype(float)))
                for i in rng.choice(source.size, min(8, source.size), replace=False).tolist():
                    old = tuple(source.cuts(i).tolist())
                    costs = [
                        state.sum() - oracle.kept(old, tuple(target.cuts(j).tolist()), state) + v
                        for j, v in zip(chosen.tolist(), value.tolist(), strict=True)
                    ]
                    assert best.total[i] * ruler.unit == pytest.approx(min(costs))
                    assert costs[best.partner[i]] == pytest.approx(min(costs))
                    assert best.cost[i] * ruler.unit == pytest.approx(min(costs) - value[best.partner[i]])
    assert listed == {True, False} or not compiled  # parents in runs, and listed


def test_a_class_knows_the_number_of_each_partition():
    rng = np.random.default_rng(4)
    for made, _ in (classes_of(rng, 9) for _ in range(5)):
        for c in made:
            assert [c.index(c.cuts(i)) for i in range(c.size)] == list(range(c.size))
            assert c.index(np.arange(12)) is None


def test_matching_equals_the_hungarian_method():
    rng = np.random.default_rng(5)
    for _ in range(300):
        m = int(rng.integers(1, 15))
        old, new = (
            np.array([0, *np.sort(rng.choice(np.arange(1, m), rng.integers(0, m), replace=False)), m]) for _ in range(2)
        )
        state = rng.integers(0, 6, m)
        prefix = np.concatenate(([0], np.cumsum(state)))
        for match in (matching_kernel.match, matching_kernel.match.py_func):
            weight, partner = match(old, new, prefix)
            assert weight == oracle.kept(tuple(old.tolist()), tuple(new.tolist()), state)
            pairs = [(i, j) for j, i in enumerate(partner.tolist()) if i >= 0]
            assert len({i for i, _ in pairs}) == len(pairs)
            both = sum(prefix[min(old[i + 1], new[j + 1])] - prefix[max(old[i], new[j])] for i, j in pairs)
            assert both == weight


def test_an_interruption_returns_the_start():
    problem = battery()["twelve"]
    budget = Budget()
    budget.interrupt()
    start = ks.solve(problem, "ssm").assignment
    answer = ks.methods(problem)[0].function(problem, budget=budget, start=start)
    assert answer.assignment is start
    assert answer.termination == "interrupted"
    assert answer.bound is not None


@pytest.mark.parametrize("label", ["ties", "twelve", "table 3"])
def test_a_start_gives_every_variable_of_the_statement_its_value(label):
    problem = battery()[label]
    known = ks.solve(problem, "ssm").assignment
    statement = IntervalPyomo(problem)
    statement.set_start(known)
    rows = statement.model.component_data_objects(pyo.Constraint, active=True)
    assert all(row.slack() >= 0 for row in rows)
    assert pyo.value(statement.model.objective) == problem.objective(known)
    np.testing.assert_array_equal(statement.assignment(), known)

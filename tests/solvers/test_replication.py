"""Replicas of hot key groups: worked by hand, and against every placement there is."""

from __future__ import annotations

import numpy as np
import pytest
from draws import draws

import keyshift as ks
from keyshift.heuristics.replication.greedy import packed, replicated
from keyshift.models import Budget
from keyshift.solvers.replication.statement import _Copies


def hot(**options) -> ks.ReplicatedAllocation:
    """One key group with three quarters of the load; without copies its node has at least 9 of 12."""
    w = ks.Workload(load=[9, 1, 1, 1], state=[5, 1, 1, 1], current=[0, 0, 1, 2], nodes=3, keys=["hot", "b", "c", "d"])
    return ks.ReplicatedAllocation(w, **options)


def test_three_copies_of_the_hot_key_group_even_the_load_out():
    one, three = ks.solve(hot(copies=4)), ks.solve(hot(copies=6))
    assert (one.objective, three.objective) == (9, 4)
    assert three.assignment.tolist()[0] == [1, 1, 1]
    assert three.metrics["migrations"] == 2
    assert three.metrics["state_moved"] == 10


def test_a_limit_of_copies_a_node_counts_every_copy():
    solution = ks.solve(hot(copies=6, at_most=2))
    assert solution.assignment.sum(axis=0).max() <= 2
    assert solution.objective == 4
    assert ks.solve(hot(copies=6, at_most=1)).status == "infeasible"
    assert "room for 3" in ks.solve(hot(copies=6, at_most=1)).message


def test_the_plan_copies_from_where_the_key_group_is_and_keeps_the_load():
    problem = hot(copies=6)
    solution = ks.solve(problem)
    plan = solution.plan(bandwidth=1.0)
    assert plan.check(problem.reached(solution.assignment)[0]).feasible
    moves = plan.moves
    assert set(moves.key) == {"hot (copy 2)", "hot (copy 3)"}
    assert set(moves.source) == {0}
    assert set(moves.state) == {5.0}
    assert plan.peak_load == 10


def test_the_next_period_begins_with_the_copies_there_are():
    problem = hot(copies=6)
    later = problem.after(ks.solve(problem), problem.workload)
    assert later.held[0].all()
    assert ks.solve(later).metrics["migrations"] == 0


def test_replication_gives_the_next_copy_where_copies_carry_most():
    problem = hot(copies=7)  # 9, then 4.5, then 3 - no fourth node -, and one more of those with 1
    assert replicated(problem, 7).tolist()[0] == 3
    assert int(replicated(problem, 7).sum()) == 7


def test_assignments_are_read_as_nodes_or_as_copies():
    problem = hot(copies=6)
    one_each = problem.check([0, 0, 1, 2])
    assert one_each.objective == 10
    assert one_each.metrics["migrations"] == 0
    with pytest.raises(ks.InputError, match=r"assignment\[0, 1\] = .*2.*: 1 where a node holds a copy"):
        problem.check([[1, 2, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    with pytest.raises(ks.InputError, match=r"expected \(4, 3\)"):
        problem.check([[1, 0, 0]])
    assert [v.rule for v in problem.check([[0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1]]).violations] == [
        "one_copy",
        "copies",
    ]


def posed(load, current, nodes, **options) -> ks.ReplicatedAllocation:
    return ks.ReplicatedAllocation(
        ks.Workload(load=load, state=np.ones(len(load)), current=current, nodes=nodes), **options
    )


@pytest.mark.parametrize(("method", "statement"), [("cp-sat", "cp-sat"), ("milp", "pyomo")])
@pytest.mark.parametrize(
    ("problem", "least"),
    [
        (posed([6, 1, 1, 1, 1], [0, 0, 0, 1, 1], 2, copies=5), 6),
        (posed([6, 1, 1, 1, 1], [0, 0, 0, 1, 1], 2, copies=5, at_most=3), 7),
        (posed([5, 5], [0, 0], 2, copies=2, max_migrations=0), 10),
        (posed([5, 5], [0, 0], 2, copies=2, max_migrations=1), 5),
        (posed([8, 2], [0, 0], 3, copies=4, max_migrations=1), 6),
    ],
)
def test_each_limit_binds_by_itself(problem, least, method, statement):
    solution = ks.solve(problem, method)
    assert (solution.status, solution.objective) == ("optimal", least)
    assert ks.model(problem, statement).solve().objective == pytest.approx(least)  # by itself, confirmed by no other


def test_the_next_copy_counts_the_copies_that_there_are():
    assert replicated(posed([10, 9], [0, 0], 3, copies=4), 4).tolist() == [2, 2]


def test_descent_spends_every_copy_and_no_more():
    found = ks.solve(hot(copies=5), "descent", start=[0, 0, 1, 2])
    assert found.assignment.sum() == 5
    assert found.objective == 4.5


@pytest.mark.parametrize("seed", range(4))
def test_what_a_change_leaves_is_what_measuring_anew_says(seed):
    rng = np.random.default_rng(seed)
    w = ks.Workload(load=rng.gamma(1.0, 1.0, 30), state=np.ones(30), current=rng.integers(0, 4, 30), nodes=6)
    problem = ks.ReplicatedAllocation(w, copies=40, at_most=12, max_migrations=14)
    copies = _Copies(problem, problem.now)
    copies.repair()
    while copies.improve(Budget()):
        kept = copies.load.copy(), copies.room.copy(), copies.count.copy(), copies.moves, copies.spare
        copies.measure()
        for was, now in zip(kept, (copies.load, copies.room, copies.count, copies.moves, copies.spare), strict=True):
            np.testing.assert_allclose(was, now, rtol=1e-12, atol=1e-12)


@draws(60, 600)
def test_packing_is_copy_by_copy_the_least_loaded_node(count):
    """The heaviest copy first, on nodes of different capacity, with little room now and then."""
    rng = np.random.default_rng(8)
    for _ in range(count):
        p, n = int(rng.integers(2, 8)), int(rng.integers(2, 5))
        capacity = rng.choice([1.0, 2.0, 0.5], n)
        w = ks.Workload(load=rng.random(p), state=np.ones(p), current=rng.integers(0, n, p), nodes=capacity)
        problem = ks.ReplicatedAllocation(
            w, copies=p + int(rng.integers(0, p)), at_most=-(-p // n) + int(rng.integers(2))
        )
        count_of = replicated(problem, min(problem.copies, int(problem.slots.sum())))
        copies = sorted((-problem.load[k] / count_of[k], t > 0, k) for k in range(p) for t in range(count_of[k]))
        held, load, spare = np.zeros((p, n), dtype=int), np.zeros(n), int(problem.slots.sum()) - p
        for less, _, k in copies:
            more, known = -less, bool(held[k].any())
            able = [i for i in range(n) if held[:, i].sum() < problem.slots[i] and not held[k, i]]
            if able and not (known and spare <= 0):
                i = min(able, key=lambda i: (load[i] + more) / capacity[i])
                held[k, i], load[i], spare = 1, load[i] + more, spare - known
        assert np.array_equal(packed(problem, count_of, Budget()), held)

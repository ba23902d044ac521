"""ALBIC step by step, COLA, and the balancers they are compared with."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from draws import rest_slow
from instances.collocation import random_problem

import keyshift as ks
from keyshift.heuristics.collocation import albic as steps
from keyshift.heuristics.collocation.comparisons import (
    Scored,
    allocate,
    collocated_sets,
    deal,
    downstream_key_groups,
    fewest_moves,
    graph_parts,
    score,
    split_by_place,
    split_set,
    two_choices,
    whole_weights,
)
from keyshift.models import Budget
from keyshift.models.rules.lowered import labels_of


def workload(load, current, nodes, edges, operator=None, **options):
    traffic = np.zeros((len(load), len(load)))
    for k, other, tuples in edges:
        traffic[k, other] = tuples
    return ks.Workload(
        load=load, state=np.ones(len(load)), current=current, nodes=nodes, traffic=traffic, operator=operator, **options
    )


def pairs(*listed):
    sender, receiver, traffic = zip(*listed, strict=True)
    return Scored(np.array(sender), np.array(receiver), np.array(traffic, dtype=float))


def listed(scored):
    return list(zip(scored.sender.tolist(), scored.receiver.tolist(), strict=True))


# Step 1 -----------------------------------------------------------------------------------------------------------


def test_scores_by_hand():
    # Operator 0 = {0, 1} sends to operator 1 = {2, 3} and operator 2 = {4}: three downstream key groups.
    w = workload(
        [1] * 5, [0] * 5, 1, [(0, 2, 6), (0, 3, 2), (0, 4, 1), (1, 2, 3), (1, 3, 3), (1, 4, 3)], [0, 0, 1, 1, 2]
    )
    np.testing.assert_array_equal(downstream_key_groups(w), [3, 3, 0, 0, 0])
    assert listed(score(w, 1.5)) == [(0, 2)]  # 6 > 1.5 * 9 / 3; nothing of 1's exceeds 1.5 * 3
    assert listed(score(w, 0.6)) == [(0, 2), (0, 3), (1, 2), (1, 3), (1, 4)]  # 2 > 1.8 and 1 is not
    assert listed(score(w, 2.0)) == []  # above, not at


def test_scores_without_operators():
    w = workload([1] * 3, [0] * 3, 1, [(0, 1, 5), (0, 2, 1), (0, 0, 50)])
    np.testing.assert_array_equal(downstream_key_groups(w), [2, 1, 1])
    assert listed(score(w)) == [(0, 1)]


def test_pairs_by_place():
    together, apart = split_by_place(pairs((0, 1, 4), (1, 2, 3)), np.array([5, 5, 6]))
    assert (listed(together), listed(apart)) == ([(0, 1)], [(1, 2)])


# Step 2 -----------------------------------------------------------------------------------------------------------


def test_sets_are_merged_until_none_share_a_key_group():
    sets = collocated_sets(pairs((5, 1, 1), (2, 3, 1), (3, 5, 1), (0, 6, 1)), 8)
    assert [s.tolist() for s in sets] == [[0, 6], [1, 2, 3, 5]]
    assert collocated_sets(Scored(*(np.zeros(0, int),) * 2, np.zeros(0)), 3) == []


def test_metis_cuts_where_little_flows():
    heavy = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    graph = sp.lil_array((6, 6))
    for k, other in heavy:
        graph[k, other] = graph[other, k] = 10.0
    graph[2, 3] = graph[3, 2] = 1.0
    graph = sp.csr_array(graph)
    cut = graph_parts(np.arange(6), graph, np.ones(6), 2, seed=1)
    assert sorted(part.tolist() for part in cut) == [[0, 1, 2], [3, 4, 5]]
    assert [part.tolist() for part in graph_parts(np.arange(3), graph, np.ones(6), 9, 0)] == [[0], [1], [2]]
    assert [part.tolist() for part in graph_parts(np.array([4]), graph, np.ones(6), 2, 0)] == [[4]]
    np.testing.assert_array_equal(whole_weights(np.array([0.0, 0.5, 1.0]), 1), [1, 5000, 10000])


def test_what_metis_remarks_stays_off_the_standard_output(capfd):
    rng = np.random.default_rng(39)  # METIS leaves a half without vertices here, and says so
    p, parts = int(rng.integers(3, 8)), int(rng.integers(3, 8))
    graph = rng.random((p, p)) * (rng.random((p, p)) < 0.5)
    cut = graph_parts(np.arange(p), sp.csr_array(graph + graph.T), rng.random(p) ** 6, parts, 39)
    assert sorted(np.concatenate(cut).tolist()) == list(range(p))
    print("after")
    assert capfd.readouterr().out == "after\n"


@pytest.mark.parametrize("seed", range(60))
def test_every_partition_keeps_both_limits(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 40))
    graph = rng.random((p, p)) * (rng.random((p, p)) < 0.3)
    cost, load = rng.random(p), rng.random(p)
    limited = [(cost, float(rng.uniform(1.0, 6.0))), (load, float(rng.uniform(1.0, 6.0)))]
    members = np.sort(rng.permutation(p)[: rng.integers(1, p + 1)])
    parts = split_set(members, sp.csr_array(graph + graph.T), limited, seed)
    assert np.concatenate(parts).size == members.size
    assert set(np.concatenate(parts).tolist()) == set(members.tolist())
    for part in parts:
        assert all(measure[part].sum() <= limit * (1 + 1e-9) for measure, limit in limited)


def test_a_limit_of_zero_leaves_single_key_groups():
    parts = split_set(np.arange(3), sp.csr_array((3, 3)), [(np.ones(3), 0.0)], 0)
    assert [part.tolist() for part in parts] == [[0], [1], [2]]
    assert len(split_set(np.arange(3), sp.csr_array((3, 3)), [(np.zeros(3), 0.0)], 0)) == 1


# Step 3 -----------------------------------------------------------------------------------------------------------


def test_the_pair_is_drawn_among_the_largest_by_seed():
    apart = pairs((0, 1, 5), (2, 3, 9), (4, 5, 9))
    drawn = {steps.choose_pair(apart, np.random.default_rng(seed)) for seed in range(20)}
    assert drawn == {(2, 3), (4, 5)}
    assert steps.choose_pair(apart.select(np.zeros(3, dtype=bool)), np.random.default_rng(0)) is None


@pytest.mark.parametrize(
    ("partitions", "members", "node"),
    [
        ([], [0, 3], 1),  # case 1: the less loaded node
        ([[0, 1]], [0, 1, 3], 0),  # case 2: where the partition is
        ([[3, 4]], [0, 3, 4], 1),
        ([[0, 1], [3, 4]], [0, 1, 3, 4], 1),  # case 3: as case 1
    ],
)
def test_where_a_pair_comes_together(partitions, members, node):
    w = workload([3, 3, 3, 2, 2, 2], [0, 0, 0, 1, 1, 1], 2, [(0, 3, 9)])
    demand = steps.demanded(ks.CollocatedAllocation(w), w, [np.array(p) for p in partitions], (0, 3))
    assert (demand.members.tolist(), demand.node) == (members, node)


def test_no_pair_comes_together_on_a_draining_node():
    w = workload([3, 3, 1], [0, 0, 1], 2, [(0, 2, 9)], draining=[False, True])
    demand = steps.demanded(ks.CollocatedAllocation(w), w, [], (0, 2))
    assert demand.node == 0  # node 1 is less loaded, but drains


# Step 4 -----------------------------------------------------------------------------------------------------------


def test_units_and_what_they_weigh():
    w = workload([1] * 5, [0, 0, 1, 1, 0], 2, [(0, 2, 9)])
    problem = ks.CollocatedAllocation(w, max_migrations=3, max_migration_cost=4.0)
    demand = steps.Demand(np.array([0, 2]), 1)
    unit = labels_of([np.array([1, 4]), demand.members], 5)
    np.testing.assert_array_equal(unit, [0, 1, 0, 2, 1])
    weights, room = steps.migration_weights(problem, w, unit, demand)
    # key group 0 has to move: 2 moves and a cost of 3 are left; the partition takes 2/2 of the tighter one
    assert room == 1.0
    assert weights[1] == 1.0
    assert weights[2] == 0.5
    assert weights[0] > room  # what was brought together stays
    nothing, _ = steps.migration_weights(ks.CollocatedAllocation(w), w, unit, None)
    np.testing.assert_array_equal(nothing, 0)
    _, short = steps.migration_weights(ks.CollocatedAllocation(w, max_migrations=0), w, unit, demand)
    assert short < 0


@pytest.mark.parametrize("seed", rest_slow(6, range(40)))
def test_partitions_move_as_one_and_the_pair_comes_together(seed):
    rng = np.random.default_rng(seed)
    g, n = 12, 4
    load = rng.uniform(0.9, 1.1, 2 * g)
    current = np.concatenate([rng.permutation(np.arange(g) % n), rng.permutation(np.arange(g) % n)])
    w = workload(load, current, n, [(k, g + k, float(rng.integers(5, 50))) for k in range(g)], np.repeat([0, 1], g))
    problem = ks.CollocatedAllocation(w, max_load_distance=30, max_migrations=5)
    solution = ks.solve(problem, "albic", seed=seed)
    assert solution.status in ("feasible", "optimal")
    if solution.details["programs"] > 1:
        return
    together, apart = split_by_place(score(w), w.current)
    for piece in steps.partition(problem, w, together, 25 * load.sum() / n / 100, seed):
        assert len({int(solution.assignment[k]) for k in piece}) == 1
        assert piece.size <= 5
        assert load[piece].sum() <= 0.25 * load.sum() / n * (1 + 1e-9) or piece.size == 1
    sender, receiver = steps.choose_pair(apart, np.random.default_rng(seed))
    assert solution.assignment[sender] == solution.assignment[receiver]


def test_retries_end_at_the_pure_program():
    # The talkative pair is too heavy for any node together: ALBIC gives up on it, and balances.
    w = workload([6, 6, 1, 1], [0, 1, 0, 0], 2, [(0, 1, 9)], [0, 1, 0, 1])
    solution = ks.solve(ks.CollocatedAllocation(w, max_load_distance=10, max_migrations=1), "albic")
    assert solution.details["programs"] == 6  # 25, 20, 15, 10, 5, 0
    assert solution.details["max_partition_load"] == 0
    assert solution.metrics["load_distance"] == 0
    assert solution.objective == 9


def test_the_program_stops_by_counting():
    rng = np.random.default_rng(0)
    w = ks.Workload(load=rng.random(60), state=np.ones(60), current=rng.integers(0, 6, 60), nodes=6)
    problem = ks.KeyGroupAllocation(w, max_migrations=9)
    seen: list[float] = []
    budget = Budget(watch=lambda now: seen.append(now.objective))
    plans = [allocate(problem, budget, 4, 5, 0.0) for _ in range(2)]
    np.testing.assert_array_equal(*plans)
    assert problem.objective(plans[0]) < problem.objective(w.current)
    assert not seen  # the plan's objective is not the method's


@pytest.mark.parametrize("method", ["albic", "cola", "flux", "potc", "allocation-milp"])
def test_answers_pass_the_check_or_say_why_not(method):
    answers = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 6, 3)
        solution = ks.solve(problem, method, seed=seed)
        if solution.assignment is None:
            assert solution.message
        else:
            assert not problem.violations(solution.assignment)
            answers += 1
    assert answers > 3


# COLA and the others ----------------------------------------------------------------------------------------------


def test_parts_are_dealt_heaviest_first():
    parts = [np.array([0]), np.array([1, 2]), np.array([3])]
    plan = deal(parts, np.array([3.0, 2, 2, 1]), np.array([1.0, 1, 1]), np.array([0, 2]))
    np.testing.assert_array_equal(plan, [2, 0, 0, 2])


def test_fewest_moves_keeps_the_groups():
    w = workload([1] * 4, [1, 1, 0, 0], 2, [(0, 1, 1)])
    np.testing.assert_array_equal(fewest_moves(np.array([0, 0, 1, 1]), w), w.current)


def test_cola_finds_the_pairs_and_moves_nearly_everything():
    rng = np.random.default_rng(1)
    g, n = 40, 8
    load = rng.uniform(0.9, 1.1, 2 * g)
    w = workload(
        load, np.concatenate([np.arange(g) % n, (np.arange(g) + 1) % n]), n, [(k, g + k, 10.0) for k in range(g)]
    )
    printed = ks.solve(ks.CollocatedAllocation(w, max_load_distance=15), "cola")
    assert printed.metrics["collocation_factor"] > 0.95
    assert printed.metrics["migrations"] > 0.75 * 2 * g
    spared = ks.solve(ks.CollocatedAllocation(w, max_load_distance=15), "cola", relabel=True)
    assert spared.objective == printed.objective
    assert spared.metrics["migrations"] < printed.metrics["migrations"]


def test_two_choices_differ():
    first, second = two_choices(200, 7, 3)
    assert (first != second).all()
    assert first.min() == second.min() == 0
    assert max(first.max(), second.max()) == 6
    assert (two_choices(5, 1, 0)[0] == 0).all()


# Over time --------------------------------------------------------------------------------------------------------


def test_limits_in_points_of_a_node_keep_what_limits_in_percent_of_the_mean_split():
    # Splitting the pair {0, 1} (24 points) balances perfectly; kept together, it leaves a distance of 6 points.
    w = workload([12, 12, 18, 18], [0, 0, 0, 1], 2, [(0, 1, 9)], [0, 1, 0, 1])
    points = ks.solve(ks.CollocatedAllocation(w, max_migrations=2, distance_unit="load"), "albic")
    assert (points.objective, points.metrics["load_distance"], points.details["programs"]) == (0, 6, 1)
    percent = ks.solve(ks.CollocatedAllocation(w, max_migrations=2), "albic")  # maxPL is 7.5 points, maxLD 3
    assert (percent.objective, percent.metrics["load_distance"]) == (9, 0)


@pytest.mark.parametrize("integrated", [False, True], ids=["measured", "integrated"])
def test_in_points_collocation_never_falls_and_becomes_whole(integrated):
    rng = np.random.default_rng(3)
    g, nodes = 8, 3
    place = np.concatenate([np.arange(g) % nodes, (np.arange(g) + 1) % nodes])
    load = rng.uniform(0.9, 1.1, 2 * g)
    tuples = rng.integers(50, 150, g)
    edges = [(k, g + k, float(tuples[k])) for k in range(g)]
    w = workload(load * 50 * nodes / load.sum() / 2, place, nodes, edges, np.repeat([0, 1], g))  # 50 points a node ...
    model = ks.replays.LoadModel.for_share(w, 0.5)  # ... half of them for traffic
    planner = ks.replays.Planner("albic", options={"max_migrations": 5, "distance_unit": "load"}, integrated=integrated)
    frame = ks.replay([w] * g, [planner], load_model=model).to_frame()
    assert (frame["collocation_factor"].diff().dropna() >= -1e-12).all()
    assert frame["collocation_factor"].iloc[-1] == 1
    assert frame["load_index"].iloc[-1] == pytest.approx(50)
    assert (frame["fallback"] == "").all()
    assert frame["migrations"].max() <= 5

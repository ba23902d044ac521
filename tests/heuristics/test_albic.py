"""ALBIC step by step, COLA, and the balancers they are compared with."""

from __future__ import annotations

import highspy
import numpy as np
import pytest
import scipy.sparse as sp
from draws import rest_slow
from instances.collocation import random_problem
from least import least

import keyshift as ks
from keyshift.heuristics.collocation import albic as steps
from keyshift.heuristics.collocation.comparisons import (
    Scored,
    collocated_sets,
    downstream_key_groups,
    graph_parts,
    score,
    split_by_place,
    split_set,
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


# COLA and the others ----------------------------------------------------------------------------------------------


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


# Over time --------------------------------------------------------------------------------------------------------


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


def test_a_contracted_plan_is_as_good_as_a_declared_one():
    """With one limit. With both, sets weigh what they take of the tighter one, and the declared plan may be better."""
    rng, compared, demands = np.random.default_rng(72), 0, 0
    for case in range(30):
        problem = random_problem(rng, int(rng.integers(4, 10)), int(rng.integers(2, 4)))
        both = problem.max_migrations is not None and problem.max_migration_cost is not None
        begun = steps.Invocation.of(problem, case, 1.5)
        for size in (25.0, 100.0):
            demanded = begun.demands(size)
            contracted = steps.plan_under(begun.problem, *demanded, Budget(), case, 15)
            step = steps.step_four(problem, seed=case, max_partition_load=size)
            declared = ks.solve(step, "cp-sat", gap=0.0)
            assert declared.status in ("optimal", "infeasible")
            if declared.assignment is None:
                assert contracted is None
                continue
            if contracted is None:
                assert both
                continue
            assert step.violations(contracted) == []
            value = step.objective(contracted)
            assert value >= declared.bound * (1 - 1e-12)
            if not both:
                assert value == pytest.approx(declared.objective, rel=1e-6, abs=1e-6 * step.scale)
                compared += 1
                demands += demanded[2] is not None
    assert compared >= 15
    assert demands > 5


def test_its_file_is_solved_by_highs_and_comes_back(tmp_path):
    rng, seen = np.random.default_rng(73), 0
    while seen < 4:
        step = steps.step_four(random_problem(rng, 6, 3), max_partition_load=100.0)
        best = None if step.conflicts() or not step.rules else least(step)
        if best is None:
            continue
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(ks.model(step).write(tmp_path / "m.mps")))
        highs.run()
        highs.writeSolution(str(tmp_path / "m.sol"), 0)
        assert ks.model(step).read(tmp_path / "m.sol").objective == pytest.approx(best, abs=step.tolerance)
        seen += 1

"""Remedies: the smallest change of each single limit, against brute force over all assignments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from limit_oracle import all_assignments, least_by_brute_force, random_workload

import keyshift as ks
from keyshift.plans import remedying

FINE = 2e-6


def draw(kind: str, rng: np.random.Generator) -> ks.Problem:
    w = random_workload(rng)
    tight = float(rng.uniform(0.9, 1.2))
    mean = float(w.last_load.sum() / w.kept.sum())
    if kind == "allocation":
        memory = float(np.ceil(w.resources["memory"].sum() / w.nodes * tight))
        return ks.KeyGroupAllocation(
            w, max_migrations=int(rng.integers(0, 2)), max_migration_cost=float(rng.integers(0, 4)),
            resource_capacity={"memory": memory},
        )  # fmt: skip
    if kind == "collocation":
        return ks.CollocatedAllocation(
            w, max_load_distance=float(rng.integers(0, 20)), max_migrations=int(rng.integers(0, 3))
        )
    if kind == "mclb":
        return ks.MCLB(w, max_state_moved=float(rng.integers(0, 2)))
    if kind == "movement":
        return ks.MovementWithinLimits(w, lower=0.8 * mean, upper=mean * tight, nodes_after=w.nodes)
    if kind == "routing":
        return ks.MixedRouting(
            w, float(rng.uniform(0, 0.2)), int(rng.integers(0, 3)), str(rng.choice(["upper", "both"]))
        )
    starts = np.sort(w.current)
    w = w.replace(current=starts, draining=None)
    return ks.IntervalMigration(w, int(rng.integers(1, 4)), float(rng.uniform(0, 0.2)))


KINDS = ("allocation", "collocation", "mclb", "movement", "routing", "interval")


def agree(kind: str, seeds: range) -> int:
    """Hold remedies against brute force on the infeasible ones among random instances; how many there were."""
    met = 0
    for seed in seeds:
        problem = draw(kind, np.random.default_rng(seed))
        nodes = problem.places if kind == "interval" else problem.workload.nodes
        if kind == "movement":
            nodes = problem.places
        feasible = any(problem.check(a).feasible for a in all_assignments(problem, nodes))
        found = ks.remedies(problem, time_limit=None)
        assert (found == []) == feasible, (kind, seed)
        if feasible:
            continue
        met += 1
        by_name = {remedy.limit: remedy for remedy in found}
        for limit in problem.limits:
            remedy = by_name[limit.name]
            assert remedy.proven or limit.name in ("nodes", "nodes_after"), (kind, seed, str(remedy))
            if limit.needed is not None or limit.name == "tau":
                least = least_by_brute_force(limit, nodes)
                assert (remedy.value is None) == (least is None), (kind, seed, str(remedy), least)
                if least is not None:
                    assert remedy.value == pytest.approx(least, rel=FINE, abs=FINE), (kind, seed, limit.name)
            if remedy.value is not None:
                assert remedy.solution.problem.check(remedy.solution.assignment).feasible
    return met


@pytest.mark.parametrize("kind", KINDS)
def test_remedies_are_the_smallest_that_brute_force_finds(kind):
    assert agree(kind, range(8 if kind in ("mclb", "movement", "interval") else 4)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_remedies_are_the_smallest_hundreds_of_times(kind):
    assert agree(kind, range(100, 320)) > 40


def test_a_policy_needs_a_tau_for_the_counts_that_can_come_alone():
    w = ks.Workload(load=[3, 3, 3, 3, 3, 3], state=[1] * 6, current=[0, 0, 0, 1, 1, 1], nodes=2)
    chances = {2: {3: 1.0}, 3: {2: 1.0}, 4: {2: 1.0}}  # 4 nodes, which six equal tasks do not fit, never come
    problem = ks.MigrationPolicy(w, chances, tau=0.0, discount=0.5)
    (tau,) = problem.limits
    assert float(tau.arithmetic()) == 0.0
    assert float(ks.MigrationSequence(w, (3, 4), 0.0).limits[0].arithmetic()) == pytest.approx(1 / 3)


@pytest.mark.parametrize("unit", ["load", "percent"])
def test_a_load_distance_has_to_reach_the_scenario_with_most_load(unit):
    """Where the last one has none it was said that no distance is enough."""
    w = ks.Workload(load=[0.0], state=[1.0], current=[1], nodes=3, traffic=[[2.7]])
    given = {"max_load_distance": 0.0, "distance_unit": unit, "serialisation": 1.0, "scenarios": [[4755.0], [0.0]]}
    (distance, *_) = ks.remedies(ks.CollocatedAllocation(w, **given))
    assert distance.limit == "max_load_distance"
    assert distance.value == pytest.approx(200.0 if unit == "percent" else 3170.0, rel=FINE)


def test_the_next_period_begins_where_the_answer_led():
    w = ks.Workload(load=[5, 4, 3, 2], state=[1, 2, 3, 4], current=[1, 1, 1, 1], nodes=2, node_names=["a", "b"])
    answer = ks.solve(ks.KeyGroupAllocation(w, max_migrations=2))
    then = answer.problem.after(answer, w.replace(load=[1, 1, 1, 9]))
    assert then.max_migrations == 2
    assert then.workload.current.tolist() == answer.assignment.tolist()
    assert then.workload.load.tolist() == [[1, 1, 1, 9]]
    v = w.replace(current=[0, 0, 1, 1], node_names=None)
    sequence = ks.solve(ks.MigrationSequence(v, (3, 2), 1.0))
    assert sequence.problem.after(sequence, v).workload.current.tolist() == sequence.assignment[0].tolist()


def test_an_attempt_that_the_gap_ends_before_a_verdict_goes_on_to_the_proof(monkeypatch):
    w = ks.Workload(load=[8, 6, 5, 2, 2, 1], state=[1] * 6, current=[0, 0, 0, 1, 1, 2], nodes=3)
    asked = []

    def early(problem, method=None, *, gap=1e-4, **more):
        found = ks.solve(problem, method, gap=gap, **more)
        asked.append(gap)
        return replace(found, status="feasible", termination="gap", bound=0.0) if gap and found.objective else found

    monkeypatch.setattr(remedying, "solve", early)
    (moves,) = (r for r in ks.remedies(ks.KeyGroupAllocation(w, max_migrations=1), 3.0) if r.limit == "max_migrations")
    assert (moves.value, moves.proven) == (2.0, True)
    assert 0.0 in asked


def test_a_load_distance_in_load_may_have_to_exceed_all_load():
    """On a node of capacity 0.5 a load of 9 counts for 18, 14.4 above the mean of 3.6; nothing can pay for a move."""
    w = ks.Workload(load=[4, 5], state=[1, 1], current=[0, 0], nodes=[0.5, 2.0], traffic=np.zeros((2, 2)))
    problem = ks.CollocatedAllocation(
        w, max_load_distance=1.0, max_migration_cost=0.0, alpha=1.0, distance_unit="load", sides="upper"
    )
    found = {remedy.limit: remedy for remedy in ks.remedies(problem, time_limit=20)}
    assert float(found["max_load_distance"].value) == pytest.approx(14.4)

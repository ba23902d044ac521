"""ALBIC's step 4 as a declared program: against every assignment, and against the contraction that ALBIC solves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from instances.collocation import random_problem
from step_four import StepFour, StepFourCpSat, step_four

import keyshift as ks
from keyshift.heuristics.collocation import albic as steps
from keyshift.heuristics.collocation.partitions import score, split_by_place
from keyshift.models import Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.solvers import cpsat


def random_step(rng, p: int, n: int, loads: float = 1.0) -> StepFour:
    """Sets of key groups that share a node, and now and then a demand."""
    load = rng.choice([rng.random(p), rng.integers(0, 6, p).astype(float)]) * loads
    draining = rng.random(n) < 0.2
    draining[rng.integers(n)] = False
    current = rng.integers(0, n, p)
    w = ks.Workload(load=load, state=rng.integers(0, 4, p), current=current, nodes=n, draining=draining)
    limits = {"max_migrations": rng.choice([None, 1, 2, 4]), "max_migration_cost": rng.choice([None, None, 3.0])}
    sets = []
    for i in range(n):
        here = rng.permutation(np.flatnonzero(current == i))
        if here.size >= 2:
            sets.append(np.sort(here[: int(rng.integers(2, here.size + 1))]))
    problem = KeyGroupAllocation(w, **limits)
    if rng.random() < 0.5:
        return StepFour(problem, tuple(sets))
    first = sets[0] if sets else np.array([0])
    members = np.union1d(first, rng.integers(0, p, 1))
    members = np.unique(np.concatenate([members, *(s for s in sets if np.intersect1d(s, members).size)]))
    return StepFour(problem, tuple(sets), members, int(rng.choice(np.flatnonzero(w.kept))))


def optimum(step: StepFour) -> float | None:
    w = step.allocation.workload
    found = (
        step.allocation.objective(np.array(chosen))
        for chosen in itertools.product(range(w.nodes), repeat=w.key_groups)
        if not step.violations(np.array(chosen))
    )
    return min(found, default=None)


def by_cpsat(step: StepFour) -> tuple[float | None, np.ndarray | None]:
    statement = StepFourCpSat(step)
    outcome = cpsat.minimise(statement.model, Budget())
    if outcome.termination == "infeasible":
        return None, None
    assert outcome.termination == "optimal"
    return statement.bound(outcome.bound), statement.assignment(outcome.solver.value)


@pytest.mark.parametrize("loads", [1.0, 1e-9, 1e12])
def test_cp_sat_states_step_four(loads):
    rng, feasible = np.random.default_rng(71), 0
    for _ in range(20):
        step = random_step(rng, int(rng.integers(2, 7)), int(rng.integers(2, 4)), loads)
        best = optimum(step)
        bound, found = by_cpsat(step)
        if best is None:
            assert found is None
            continue
        feasible += 1
        near = {"rel": 1e-6, "abs": 1e-6 * step.allocation.scale}
        assert bound <= best * (1 + 1e-12)
        assert step.violations(found) == []
        assert step.allocation.objective(found) == pytest.approx(best, **near)
    assert feasible > 8


def invocations(problem: ks.CollocatedAllocation, seed: int):
    """The programs that ALBIC may come to pose on an instance, by size of partitions: the same steps as in `albic`."""
    measured = problem.load_model.measured(problem.workload)
    together, apart = split_by_place(score(measured, 1.5), measured.current)
    pair = steps.choose_pair(apart, np.random.default_rng(seed))
    percent = float(measured.last_load.sum()) / problem.kept_capacity / 100
    for max_pl in (25.0, 100.0):
        partitions = steps.partition(problem, measured, together, max_pl * percent, seed)
        demand = steps.demanded(problem, measured, partitions, pair) if pair is not None else None
        expected = steps.after_demand(problem, measured, demand)
        yield expected, partitions, demand


def test_a_contracted_plan_is_as_good_as_a_declared_one():
    """With one limit. With both, sets weigh what they take of the tighter one, and the declared plan may be better."""
    rng, compared, demands = np.random.default_rng(72), 0, 0
    for case in range(30):
        problem = random_problem(rng, int(rng.integers(4, 10)), int(rng.integers(2, 4)))
        both = problem.max_migrations is not None and problem.max_migration_cost is not None
        for expected, partitions, demand in invocations(problem, case):
            contracted = steps.plan_under(problem, expected, partitions, demand, Budget(), case, 15)
            step = step_four(problem, expected, partitions, demand)
            bound, declared = by_cpsat(step)
            if declared is None:
                assert contracted is None
                continue
            best = step.allocation.objective(declared)
            if contracted is None:
                assert both
                continue
            assert step.violations(contracted) == []
            value = step.allocation.objective(contracted)
            assert value >= bound * (1 - 1e-12)
            if not both:
                assert value == pytest.approx(best, rel=1e-6, abs=1e-6 * step.allocation.scale)
                compared += 1
                demands += demand is not None
    assert compared >= 15
    assert demands > 5

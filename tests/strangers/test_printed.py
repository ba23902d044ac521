"""What is printed is true: remedies that suffice, proofs that prove, numbers that differ and are seen to differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.solvers.checked import within_bounds

DATA = Path(__file__).parent / "data" / "models"


# Values that a solver hands back ----------------------------------------------------------------------------------------


def test_a_remedy_of_mixed_routing_survives_values_outside_their_bounds():
    """HiGHS 1.13 ends at its limit of nodes with 2 and -1 for two binary variables."""
    c, home = [2, 7, 7, 3, 3], [1, 1, 0, 1, 0]
    workload = ks.Workload(load=c, state=c, current=home, home=home, nodes=2)
    found = ks.remedies(ks.MixedRouting(workload, theta_max=0, max_table_size=1))
    assert [remedy.limit for remedy in found] == ["theta_max", "max_table_size", "nodes"]
    assert found[0].value == pytest.approx(1 / 11)
    assert found[0].proven


def test_values_are_held_against_their_bounds():
    assert within_bounds([2, -1], [0, 0], [1, 1], True) is None
    assert within_bounds([np.nan], [0], [1]) is None
    assert within_bounds([0.5], [0], [1], True) is None
    assert within_bounds([1 + 1e-9, -1e-9], [0, 0], [1, 1], True).tolist() == [1, 0]
    assert within_bounds([0.5, 7], [0, -np.inf], [1, np.inf], [False, True]).tolist() == [0.5, 7]


@pytest.mark.parametrize("kind", ["pyomo", "mathopt"])
@pytest.mark.parametrize("solver", ["glop", "pdlp"])
def test_a_solver_without_whole_variables_is_refused_in_a_sentence(kind, solver):
    problem = ks.MCLB(ks.Workload(load=[2, 7, 7, 3], state=[1, 2, 3, 4], current=[0, 1, 0, 1], nodes=2))
    with pytest.raises(ks.InputError, match=f"{solver} does not take this model: it has whole variables"):
        ks.model(problem, kind).solve(solver)


def test_the_printed_cpsat_model_has_the_limits_of_its_rows():
    """A list of OR-Tools answers 0 at the place -1: every right-hand side was 0."""
    problem = ks.KeyGroupAllocation(
        ks.Workload(load=[2, 7, 7, 3, 3], state=[1] * 5, current=[1, 1, 0, 1, 0], nodes=2), max_migrations=2
    )
    printed = ks.model(problem, "cp-sat").algebra()
    assert "<= -3" in printed
    assert "- upper <= 22" in printed
    assert "(10 of x): 0 or 1" in printed
    assert "d: whole, between 0 and 45" in printed


# Indices of many key groups ---------------------------------------------------------------------------------------------


def test_a_sequence_of_many_key_groups():
    p = 70_000
    draw = np.random.default_rng(1)
    load, state = draw.integers(1, 10, (2, p)).astype(float)
    workload = ks.Workload(load=load, state=state, current=np.arange(p) * 4 // p, nodes=4)
    solution = ks.solve(ks.MigrationSequence(workload, node_counts=[5, 3, 5, 4], tau=0.5), time_limit=20)
    assert solution.status in ("feasible", "optimal")
    assert solution.bound <= solution.objective

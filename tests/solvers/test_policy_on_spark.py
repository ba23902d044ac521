"""Policy iteration with its sweeps on Spark gives the values and decisions of the local run."""

from __future__ import annotations

import numpy as np
import pytest
from instances.policies import battery

from keyshift.models import Budget
from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
from keyshift.solvers.intervals.policy.mtm import solve_mtm
from keyshift.solvers.intervals.policy.on_spark import solve_mtm_on_spark
from keyshift.solvers.intervals.policy.policy_iteration import PolicyIteration


@pytest.mark.slow
@pytest.mark.spark
def test_spark_gives_the_values_of_the_local_run(spark):
    problem = battery()["twelve"]
    local = PolicyIteration(problem)
    local.run(Budget(), 1e-3)
    here, there = (
        solve_mtm(problem, budget=Budget(), tolerance=1e-3),
        solve_mtm_on_spark(problem, spark, tolerance=1e-3),
    )
    remote = there.details["policy"]
    assert there.details["rounds"] == local.rounds
    assert (local.low, local.high) == pytest.approx((remote.low, remote.high), abs=1e-12)
    for n in problem.counts:
        np.testing.assert_allclose(local.value[n], remote.value[n], rtol=1e-13)
    for pair, choice in local.choice.items():
        np.testing.assert_array_equal(choice, remote.choice[pair])
    np.testing.assert_array_equal(here.assignment, there.assignment)
    assert here.bound == pytest.approx(there.bound, rel=1e-12)


@pytest.mark.spark
def test_transition_matrices_come_from_spark_tables(spark):
    rows = [("a", 0, 2.0), ("a", 1, 4.0), ("b", 1, 6.0), ("a", 2, 2.0), ("a", 3, 6.0)]
    table = spark.createDataFrame(rows, ["operator", "window_start", "load"])
    counts = node_counts(table, 1, 3)
    assert counts.tolist() == [1, 3, 1, 2]
    assert transition_matrix(counts)[1] == {2: 0.5, 3: 0.5}

"""ALBIC's step 4 as a problem with rules: against every assignment, and against the contraction that ALBIC solves."""

from __future__ import annotations

import highspy
import numpy as np
import pytest
from instances.collocation import random_problem
from least import least

import keyshift as ks
from keyshift.heuristics.collocation import albic as steps
from keyshift.models import Budget


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

"""Every method of every problem against the least objective of all assignments, on drawn instances."""

from __future__ import annotations

import numpy as np
import pytest
from instances import MODULES
from least import least

import keyshift as ks
from keyshift.catalogue import FORMULATIONS

DRAWN = {module.NAME: module.random_problem for module in MODULES}
COUNTS = {  # by what a draw costs
    "key-group-allocation": 20, "collocated-allocation": 10, "mclb": 12, "movement-within-limits": 60, "replicated-allocation": 40,
    "key-splitting": 10, "key-placement": 60, "mixed-routing": 15, "interval-migration": 60, "migration-sequence": 40,
    "migration-policy": 20,
}  # fmt: skip


def test_every_problem_is_drawn():
    assert set(FORMULATIONS) == set(DRAWN) == set(COUNTS)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_every_method_agrees_with_the_best_of_all_assignments(name):
    assert_agreement(name, seed=1, count=COUNTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", FORMULATIONS)
def test_every_method_agrees_on_thousands(name, seed):
    assert_agreement(name, seed, 5 * COUNTS[name])


def assert_agreement(name: str, seed: int, count: int) -> None:
    """Exact methods prove the optimum or that there is none, bounds stay below it, and nothing is better than it."""
    rng, feasible, said = np.random.default_rng([seed, 97]), 0, dict.fromkeys(relaxed(name), 0)
    for at in range(count):
        problem = DRAWN[name](rng, int(rng.integers(1, 7)), int(rng.integers(1, 4)))
        best = least(problem)
        feasible += best is not None
        for method in FORMULATIONS[name].methods:
            solution = ks.solve(problem, method.name, time_limit=60, seed=at)
            about = (at, method.name, solution, best)
            if best is None:
                assert solution.assignment is None or solution.problem is not problem, about
                assert method.kind != "exact" or solution.status == "infeasible", about
                continue
            assert solution.status != "infeasible", about
            if method.kind == "exact":
                assert solution.status == "optimal", about
                assert abs(solution.objective - best) <= problem.tolerance, about
            if solution.problem is problem and solution.objective is not None:
                assert solution.objective >= best - problem.tolerance, about
            assert solution.bound is None or solution.bound <= best + 1e-12 * abs(best), about
            if method.name in said:
                said[method.name] += bool(solution.bound)
    assert feasible >= count / 4
    assert all(said.values()), said


def relaxed(name: str) -> list[str]:
    return [method.name for method in FORMULATIONS[name].methods if method.kind == "relaxation"]

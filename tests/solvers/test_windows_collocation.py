"""Collocated allocation over several windows and scenarios, held against brute force and against one window."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from instances.collocation import random_problem

import keyshift as ks

EXACT = ("milp", "milp-plain", "cp-sat")
BOUNDS = ("lp", "lagrange", "cut")
HEURISTICS = ("albic", "cola", "flux", "potc", "allocation-milp")


def over_windows(rng: np.random.Generator, p: int, n: int) -> ks.CollocatedAllocation:
    """A random instance over 1 to 4 windows or scenarios, with the options of one window on or off."""
    one = random_problem(rng, p, n)
    k = int(rng.integers(1, 5))
    loads = np.array([one.workload.last_load * rng.choice([1.0, 1.0, 1.5, 0.5], p) for _ in range(k)])
    if rng.random() < 0.4:
        loads = rng.integers(0, 5, (k, p)).astype(float)
    limit = float(rng.choice([10.0, 30.0, 60.0, 120.0]))
    arguments = {**one.arguments(), "max_load_distance": limit, "distance_unit": "percent"}
    if rng.random() < 0.5:
        return ks.CollocatedAllocation(**{**arguments, "scenarios": loads})
    return ks.CollocatedAllocation(
        **{**arguments, "workload": one.workload.replace(load=np.vstack([one.workload.load, loads])), "windows": k}
    )


def agree(problem: ks.CollocatedAllocation) -> bool:
    """Every method against brute force; whether there is an answer."""
    least, _ = brute_force(problem)
    for method in (*EXACT, *BOUNDS, *HEURISTICS):
        s = ks.solve(problem, method, time_limit=20)
        if least is None:
            assert s.assignment is None, (method, s)
            assert s.status == "infeasible" or method not in EXACT, (method, s)
        elif method in HEURISTICS:
            assert s.assignment is None or s.objective >= least - problem.tolerance
        else:
            assert s.status != "infeasible", (method, s)
            assert s.bound is None or s.bound <= least + problem.tolerance, (method, s.bound, least)
            if method in EXACT:
                assert s.status == "optimal", (method, s, least)
                assert s.objective == pytest.approx(least, abs=problem.tolerance), method
    return least is not None


@pytest.mark.parametrize("seed", range(25))
def test_every_method_agrees_with_brute_force(seed):
    rng = np.random.default_rng([37, seed])
    agree(over_windows(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4))))


@pytest.mark.slow
def test_every_method_agrees_with_brute_force_on_hundreds():
    rng = np.random.default_rng(41)
    answered = [agree(over_windows(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4)))) for _ in range(300)]
    assert sum(answered) > 80


@pytest.mark.parametrize("seed", range(10))
def test_one_window_is_the_last_window_bit_for_bit(seed):
    rng = np.random.default_rng([43, seed])
    one = random_problem(rng, 6, 3)
    older = one.workload.replace(load=np.vstack([rng.random((3, 6)), one.workload.load]))
    same = ks.CollocatedAllocation(**{**one.arguments(), "workload": older, "windows": 1})
    for method in (*EXACT, *BOUNDS, *HEURISTICS):
        a, b = (ks.solve(problem, method, time_limit=20) for problem in (one, same))
        assert (a.objective, a.bound, a.status) == (b.objective, b.bound, b.status)
        assert np.array_equal(a.assignment, b.assignment)


def test_bad_windows_are_refused_in_a_sentence():
    w = ks.Workload(load=[4, 1], state=[1, 1], current=[0, 1], nodes=2, traffic=[[0, 1], [0, 0]])
    with pytest.raises(ks.InputError, match="windows = 2: the workload has 1"):
        ks.CollocatedAllocation(w, windows=2)
    with pytest.raises(ks.InputError, match="which only a problem about one window has"):
        ks.CollocatedAllocation(w, scenarios=[[1, 2], [3, 4]], priorities="load_distance")

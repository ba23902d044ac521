"""Collocated allocation over several windows and scenarios, held against brute force and against one window."""

from __future__ import annotations

import json

import numpy as np
import pytest
from brute_force import brute_force
from draws import rest_slow
from instances.collocation import random_problem
from over_windows import agree, loads_near, over_all, rule, same_answers, windows_of, with_older_windows

import keyshift as ks
from keyshift.cli import main


def over_windows(rng: np.random.Generator, p: int, n: int) -> ks.CollocatedAllocation:
    """A random instance over 1 to 4 windows or scenarios, with the options of one window on or off."""
    one = random_problem(rng, p, n)
    loads = loads_near(rng, one)
    limit = float(rng.choice([10.0, 30.0, 60.0, 120.0]))
    traffic = None
    if rng.random() < 0.6:
        scale = float(rng.choice([1.0, 1.0, 1e-6, 1e6]))
        traffic = [
            scale * np.where(rng.random((p, p)) < rng.random(), rng.integers(0, 6, (p, p)), 0)
            for _ in range(len(loads))
        ]
    return windows_of(
        rng, one, loads, traffic, max_load_distance=limit, distance_unit="percent", **rule(rng, len(loads))
    )


def combined(problem: ks.CollocatedAllocation, assignment: np.ndarray) -> float:
    """(14) and (15) straight from the definition, in plain loops."""
    w, ser, des = problem.workload, problem.serialisation, problem.deserialisation
    count = problem.windows if problem.scenarios is None else len(problem.scenarios)
    loads = w.load[-count:] if problem.scenarios is None else problem.scenarios
    matrices = w.window_traffic[-count:] if problem.scenarios is None else [w.traffic] * count
    shares = np.full(count, 1 / count) if problem.probabilities is None else problem.probabilities
    found = []
    for row, traffic in zip(loads, matrices, strict=True):
        sent = traffic.toarray()
        p = range(w.key_groups)
        labels = {"node": range(w.nodes), **w.domains}
        ends = {(k, j): (assignment[k], assignment[j]) for k in p for j in p}
        costs = (problem.costs or {"node": 1.0}).items()
        cost = {
            pair: max([c for of, c in costs if labels[of][i] != labels[of][j]], default=0)
            for pair, (i, j) in ends.items()
        }
        remote = sum(sent[pair] * cost[pair] for pair in ends)
        found.append(remote if problem.minimise == "remote_traffic" else row.sum() + (ser + des) * remote)
    found, shares = [v for v, q in zip(found, shares, strict=True) if q > 0], [q for q in shares if q > 0]
    return over_all(problem, found, shares)


@pytest.mark.parametrize("seed", range(60))
def test_the_check_values_windows_as_the_definition_does(seed):
    rng = np.random.default_rng([47, seed])
    p, n = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    problem = over_windows(rng, p, n)
    assignment = rng.integers(0, n, p)
    assert problem.objective(assignment) == pytest.approx(combined(problem, assignment), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", rest_slow(2, range(10)))
def test_every_method_agrees_with_brute_force(seed):
    rng = np.random.default_rng([37, seed])
    agree(over_windows(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4))))


@pytest.mark.slow
def test_every_method_agrees_with_brute_force_on_hundreds():
    rng = np.random.default_rng(41)
    answered = [agree(over_windows(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4)))) for _ in range(300)]
    assert sum(answered) > 80


@pytest.mark.parametrize("seed", rest_slow(1, range(5)))
def test_one_window_is_the_last_window_bit_for_bit(seed):
    rng = np.random.default_rng([43, seed])
    one = random_problem(rng, 6, 3)
    same_answers(one, with_older_windows(rng, one))


def test_one_matrix_for_all_windows_is_the_same_matrix_in_each():
    rng = np.random.default_rng(53)
    traffic = np.where(rng.random((5, 5)) < 0.5, 4.0, 0.0)
    w = ks.Workload(load=rng.random((3, 5)), state=np.ones(5), current=[0, 1, 0, 1, 1], nodes=2, traffic=traffic)
    again = w.replace(traffic=[traffic] * 3)
    for over in ("mean", "max", "cvar"):
        one, other = (ks.CollocatedAllocation(x, max_load_distance=90, windows=3, over=over) for x in (w, again))
        assert ks.solve(one).objective == pytest.approx(ks.solve(other).objective)


def test_the_worst_window_counts_where_the_mean_would_not_mind(tmp_path, capsys):
    busy, quiet = np.zeros((4, 4)), np.zeros((4, 4))
    busy[0, 2], quiet[1, 3], quiet[0, 3] = 10, 4, 12  # {0, 2}, {1, 3}: 0 and 12; {0, 3}, {1, 2}: 10 and 4
    w = ks.Workload(load=np.ones((2, 4)), state=np.ones(4), current=[0, 0, 1, 1], nodes=2, traffic=[busy, quiet])
    for over, least in {"mean": 6.0, "max": 10.0}.items():
        problem = ks.CollocatedAllocation(w, max_load_distance=0, max_migrations=2, windows=2, over=over)
        assert brute_force(problem)[0] == least
        explained = ks.explain(problem, marginals=False)
        for k, gain in explained.moves[["key_group", "gain"]].itertuples(index=False):
            undone = explained.solution.assignment.copy()
            undone[k] = w.current[k]
            assert gain == pytest.approx(problem.objective(undone) - least)
        for place in ("w.json", "tables"):
            ks.write_workload(w, tmp_path / place)
            line = ["solve", str(tmp_path / place), "-p", "collocated-allocation", "--max-load-distance", "0"]
            assert main([*line, "--max-migrations", "2", "--windows", "2", "--over", over, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["objective"] == pytest.approx(least)


def test_bad_windows_are_refused_in_a_sentence():
    w = ks.Workload(load=[4, 1], state=[1, 1], current=[0, 1], nodes=2, traffic=[[0, 1], [0, 0]])
    with pytest.raises(ks.InputError, match="windows = 2: the workload has 1"):
        ks.CollocatedAllocation(w, windows=2)
    with pytest.raises(ks.InputError, match="which only a problem about one window has"):
        ks.CollocatedAllocation(w, scenarios=[[1, 2], [3, 4]], priorities="load_distance")
    own = w.replace(load=[[4, 1], [1, 4]], traffic=[w.traffic, 2 * w.traffic])
    with pytest.raises(ks.InputError, match="priorities names 'remote_traffic'"):
        ks.CollocatedAllocation(own, windows=2, over="max", priorities=("migrations", "remote_traffic"))

"""Problems over several windows: drawn at random, every method held against brute force, one window against the last."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force

import keyshift as ks


def windows_of(
    rng: np.random.Generator, one: ks.Problem, loads: np.ndarray, traffic: list[np.ndarray] | None = None, **changes
) -> ks.Problem:
    """The problem over windows or scenarios with these loads; windows may have traffic of their own."""
    arguments, w = {**one.arguments(), **changes}, one.workload
    if rng.random() < 0.5 and traffic is None:
        return type(one)(**{**arguments, "scenarios": loads})
    older = w.replace(
        load=np.vstack([w.load, loads]), **({} if traffic is None else {"traffic": [w.traffic, *traffic]})
    )
    return type(one)(**{**arguments, "workload": older, "windows": len(loads)})


def loads_near(rng: np.random.Generator, one: ks.Problem) -> np.ndarray:
    """Loads of 1 to 4 windows: near those of the last, or whole numbers."""
    k, p = int(rng.integers(1, 5)), one.workload.key_groups
    if rng.random() < 0.4:
        return rng.integers(0, 5, (k, p)).astype(float)
    return np.array([one.workload.last_load * rng.choice([1.0, 1.0, 1.5, 0.5], p) for _ in range(k)])


def rule(rng: np.random.Generator, count: int) -> dict[str, object]:
    """Over the worst window, the mean or CVaR; with probabilities or without."""
    shares = rng.integers(0, 4, count).astype(float)
    shares[rng.integers(count)] += 1
    chosen = {"over": str(rng.choice(["max", "mean", "cvar"])), "level": float(rng.choice([0.0, 0.5, 0.9]))}
    return chosen | ({"probabilities": shares / shares.sum()} if rng.random() < 0.5 else {})


def over_all(problem: ks.Problem, values: list[float], shares: np.ndarray) -> float:
    """The worst window's value, the mean or CVaR straight from the definition, in plain loops."""
    if problem.over == "max":
        return max(values)
    if problem.over == "mean":
        return float(np.dot(shares, values))
    return min(
        t + sum(q * max(v - t, 0) for q, v in zip(shares, values, strict=True)) / (1 - problem.level)
        for t in [0.0, *values]
    )


def agree(problem: ks.Problem, seconds: float = 60) -> bool:
    """Hold every method that the catalogue has for a problem against brute force; whether there is an answer."""
    least, _ = brute_force(problem)
    for method in ks.methods(problem):
        s = ks.solve(problem, method.name, time_limit=seconds)
        said = (method.name, s, least)
        if least is None:
            assert s.assignment is None, said
            assert s.status == "infeasible" or method.kind != "exact", said
        else:
            assert s.status != "infeasible" or method.kind == "heuristic", said
            assert s.bound is None or s.bound <= least + problem.tolerance, said
            assert s.assignment is None or s.objective >= least - problem.tolerance, said
            if method.kind == "exact":
                assert s.status == "optimal", said
                assert s.objective == pytest.approx(least, abs=problem.tolerance), said
    return least is not None


def same_answers(one: ks.Problem, other: ks.Problem) -> None:
    """Every method answers two problems that are the same bit for bit."""
    for method in ks.methods(one):
        a, b = (ks.solve(problem, method.name, time_limit=60) for problem in (one, other))
        assert (a.objective, a.bound, a.status) == (b.objective, b.bound, b.status), method.name
        assert np.array_equal(a.assignment, b.assignment), method.name


def with_older_windows(rng: np.random.Generator, one: ks.Problem, **changes) -> ks.Problem:
    """The problem about the last window of a workload that has older ones."""
    older = one.workload.replace(load=np.vstack([rng.random((3, one.workload.key_groups)), one.workload.load]))
    return type(one)(**{**one.arguments(), "workload": older, "windows": 1, **changes})

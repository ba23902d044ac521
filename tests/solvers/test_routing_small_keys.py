"""What small keys cost around large ones placed whole, held against programs that know each record by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from draws import draws
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.routing.compact import records_of
from keyshift.solvers import highs
from keyshift.solvers.routing.lagrangian import Relaxation
from keyshift.solvers.routing.statement import LargeKeys, SmallKeys, singled_out


@pytest.mark.parametrize("seed", range(3))
def test_lines_lie_under_the_entries_and_nowhere_far(seed):
    rng = np.random.default_rng(seed)
    load, count = rng.pareto(1.0, 300) + 0.01, rng.integers(1, 4, 300)
    entry = np.where(rng.random(300) < 0.8, 1.0, -1.0)
    node = SmallKeys(load, count, entry, float(load @ count), float(count.sum()))
    slope, height = node.tangents()
    for shed in np.linspace(0, node.total, 50):
        rows = {"A_ub": np.array([load, -load]), "b_ub": [shed + 1e-9, 1e-9 - shed]}
        least = linprog(entry, bounds=np.column_stack([np.zeros(300), count]), **rows).fun + count[entry < 0].sum()
        assert least - 3 - 1e-6 <= (slope * shed + height).max() <= least + 1e-6


def draw(seed: int) -> ks.MixedRouting:
    """Overloaded nodes with one to three large keys each, and few small ones; the table hardly suffices."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 5))
    large = rng.integers(1, 4, n) * (np.arange(n) < 2)
    at = np.concatenate([np.repeat(np.arange(n), large), rng.integers(0, n, 10 * n)])
    load = np.concatenate([rng.integers(8, 30, large.sum()), rng.integers(1, 4, 10 * n)]).astype(float)
    state = load if seed % 2 else rng.random(load.size)
    home = np.where(rng.random(load.size) < 0.9, at, rng.integers(0, n, load.size))
    w = ks.Workload(load=load, state=state, current=at, home=home, nodes=n)
    return ks.MixedRouting(w, float(rng.uniform(0.02, 0.3)), max_table_size=int(rng.integers(4, 16)))


def by_record(problem: ks.MixedRouting, keys, large: np.ndarray) -> float | None:
    """The relaxation with a variable for each record: large ones x, parts of small ones u, what nodes take w, entries y."""
    n, b = problem.workload.nodes, large.size
    small = np.setdiff1d(np.arange(keys.size), large)
    node, u = np.tile(np.arange(n), b), n * b + np.arange(small.size)
    take, entries = u.size + n * b + np.arange(n), u.size + n * b + n + np.arange(n)
    on = (keys.current[small][:, None] == np.arange(n)).T
    entry = np.where(keys.home[small] == keys.current[small], 1.0, -1.0)
    load, count = keys.load[small], keys.count[small]
    columns = n * b + small.size + 2 * n
    rows = []

    def row(least: float, most: float, *terms: tuple[np.ndarray, np.ndarray]) -> None:
        made = np.zeros(columns)
        for at, value in terms:
            made[at] = value
        rows.append((made, least, most))

    x = np.arange(n * b).reshape(b, n)
    for k in range(b):
        row(1, 1, (x[k], 1.0))
    for i in range(n):
        total = float(load[on[i]] @ count[on[i]])
        row(-np.inf, problem.upper[i] - total, (x[:, i], keys.load[large]), (u[on[i]], -load[on[i]]), (take[i], 1.0))
        off = count[on[i] & (entry < 0)].sum()
        row(off, np.inf, (entries[i], 1.0), (u[on[i]], -entry[on[i]]))
    row(0, 0, (u, load), (take, -1.0))
    cost = np.zeros(columns)
    cost[x.ravel()], cost[entries] = node != np.repeat(keys.home[large], n), 1.0
    most = np.full(columns, np.inf)
    most[x], most[u] = 1, count
    whole = np.isin(np.arange(columns), np.concatenate([x.ravel(), entries]))
    matrix, lower, upper = map(np.array, zip(*rows, strict=True))
    found = milp(cost, constraints=LinearConstraint(matrix, lower, upper), bounds=Bounds(0, most), integrality=whole,
                 options={"presolve": False})  # fmt: skip
    assert found.status in (0, 2)
    return None if found.status else float(found.fun)


@draws(12, 30)
def test_the_fewest_entries_are_those_of_a_program_over_records(count):
    for seed in range(count):
        problem = draw(seed)
        keys, large = singled_out(replace(records_of(problem), current=records_of(problem).home), problem.upper)
        value = by_record(problem, keys, large)
        result = highs.minimise(LargeKeys(Relaxation(problem, keys), large).program(), Budget(20))
        if value is None:
            assert result.termination == "infeasible", seed
        else:
            assert value - 3 * problem.workload.nodes <= result.bound <= value + 1e-6, seed

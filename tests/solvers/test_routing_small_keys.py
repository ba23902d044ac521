"""What small keys cost around large ones placed whole, held against programs that know each record by itself."""

from __future__ import annotations

import numpy as np
import pytest
from draws import draws
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

import keyshift as ks
from keyshift.models import Budget
from keyshift.models.routing.choices import records_of
from keyshift.solvers import highs
from keyshift.solvers.routing.lagrangian import Relaxation, RoutingSettings
from keyshift.solvers.routing.large_keys import LargeKeys, SmallKeys, singled_out


def a_node(seed: int, size: int = 60) -> SmallKeys:
    """Small keys of one node, some off their hash."""
    rng = np.random.default_rng(seed)
    load, state, count = rng.pareto(1.0, size) + 0.01, rng.random(size), rng.integers(1, 4, size)
    entry = np.where(rng.random(size) < 0.8, 1.0, -1.0)
    return SmallKeys(load, state, count, entry, float(load @ count), float(count.sum()), float(state @ count))


def cost_of(node: SmallKeys, a: float, b: float, shed: float, or_more: bool = False) -> float:
    """The least cost of shedding so much, by a linear program over the records."""
    cost, most = a * node.state + b * node.entry, node.total if or_more else shed
    rows = {"A_ub": np.array([node.load, -node.load]), "b_ub": [most + 1e-9, 1e-9 - shed]}
    found = linprog(cost, bounds=np.column_stack([np.zeros(cost.size), node.count]), **rows)
    return float(found.fun + b * node.count[node.entry < 0].sum())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (1.0, 0.05)])
def test_lines_lie_under_the_cost_and_nowhere_far(seed, weights):
    node = a_node(seed, 300)
    first, off = node.tangents(*weights, node.spread(*weights, np.inf)), 1e-4 * cost_of(node, *weights, node.total)
    lines = node.tangents(*weights, node.spread(*weights, off))
    furthest = 0.0
    for shed in np.linspace(0, node.total, 50):
        cost = cost_of(node, *weights, shed)
        at_first, at_last = ((slope * shed + height).max() for slope, height in (first, lines))
        assert cost - off - 1e-6 <= at_last <= cost + 1e-6
        furthest = max(furthest, cost - at_first)
    assert furthest > 3 * off


@pytest.mark.parametrize("seed", range(3))
def test_shedding_more_may_cost_less_where_keys_give_entries_back(seed):
    node = a_node(seed)
    shed = np.linspace(-1, node.total, 25)
    least = node.at_least(0.01, 1.0, shed)
    expected = [cost_of(node, 0.01, 1.0, max(0.0, amount), or_more=True) for amount in shed]
    assert least == pytest.approx(expected, abs=1e-6)
    assert least[0] < cost_of(node, 0.01, 1.0, 0.0)


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


def by_record(problem: ks.MixedRouting, keys, large: np.ndarray, spare: int) -> float | None:
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
    row(-np.inf, problem.table_limit - spare, (entries, 1.0), (x.ravel(), node != np.repeat(keys.home[large], n)))
    cost = np.zeros(columns)
    cost[x] = keys.state[large][:, None] * (np.arange(n) != keys.current[large][:, None])
    cost[u] = keys.state[small]
    most = np.full(columns, np.inf)
    most[x], most[u] = 1, count
    whole = np.isin(np.arange(columns), np.concatenate([x.ravel(), entries]))
    matrix, lower, upper = map(np.array, zip(*rows, strict=True))
    found = milp(cost, constraints=LinearConstraint(matrix, lower, upper), bounds=Bounds(0, most), integrality=whole,
                 options={"presolve": False})  # fmt: skip
    assert found.status in (0, 2)
    return None if found.status else float(found.fun)


@pytest.mark.parametrize("together", [5, 1])
@draws(12, 30)
def test_large_keys_cost_what_a_program_over_records_says(together, count, monkeypatch):
    settings = RoutingSettings(large=0.15, together=together, enough=0.0)
    monkeypatch.setattr(RoutingSettings, "now", lambda: settings)
    solved = spared = 0
    for seed in range(count):
        problem = draw(seed)
        keys, large = singled_out(records_of(problem), problem.upper)
        values = [by_record(problem, keys, large, spare) for spare in (0, 2)]
        for spare, value in zip((0, 2), values, strict=True):
            program = LargeKeys(Relaxation(problem, keys), large)
            program.spare = spare
            placement = program.solve(Budget(20))
            if value is None:
                assert placement.termination == "infeasible", (seed, spare)
                continue
            assert placement.bound <= value + 1e-6, (seed, spare)
            if seed % 2:  # else entries and states trade at other prices than those of the relaxation
                assert placement.bound == pytest.approx(value, rel=1e-5, abs=1e-5), (seed, spare)
                solved += 1
        spared += values[0] != values[1]
    assert solved > count / 3
    assert spared > count / 6


def test_whole_keys_are_seen_without_any_branching():
    """A giant that parts of a unit would let go in parts: said of whole sets, the relaxation alone has the optimum."""
    load = np.concatenate([[100.0, 60.0], np.ones(300)])
    home = np.concatenate([[0, 0], np.arange(300) % 3])
    w = ks.Workload(load=load, state=np.ones(302), current=home, nodes=3, home=home)
    problem = ks.MixedRouting(w, 0.05)
    keys, large = singled_out(records_of(problem), problem.upper)
    program = LargeKeys(Relaxation(problem, keys), large).program()
    relaxed = highs.relaxation_bound(program, Budget(20))[0]
    best = by_record(problem, keys, large, 0)
    assert relaxed * problem.scale / 3 == pytest.approx(best, rel=1e-3)

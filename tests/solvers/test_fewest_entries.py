"""The bound on the table's size: never above what brute force finds, and near it where keys are few and large."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from draws import draws

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.routing.statement import fewest_entries


def draw(seed: int) -> ks.MixedRouting:
    rng = np.random.default_rng(seed)
    p, n = int(rng.integers(2, 8)), int(rng.integers(2, 4))
    load = rng.pareto(1.0, p) + 0.1 if rng.random() < 0.5 else rng.integers(0, 6, p).astype(float)
    w = ks.Workload(
        load=load, state=np.ones(p), current=rng.integers(0, n, p), nodes=n, home=rng.integers(0, n, p),
        draining=rng.permutation([rng.random() < 0.2] + [False] * (n - 1)),
    )  # fmt: skip
    return ks.MixedRouting(w, float(rng.uniform(0, 0.6)), sides=str(rng.choice(["upper", "both"])))


def fewest_by_brute_force(problem: ks.MixedRouting) -> int | None:
    w = problem.workload
    sizes = [
        int((np.array(a) != problem.home).sum())
        for a in product(range(w.nodes), repeat=w.key_groups)
        if problem.check(a).feasible
    ]
    return min(sizes, default=None)


def hold(seeds: range) -> tuple[int, int]:
    met = tight = 0
    for seed in seeds:
        problem = draw(seed)
        least = fewest_by_brute_force(problem)
        if least is None:
            continue
        bound = fewest_entries(problem, Budget(20))
        assert bound <= least, seed
        assert all(fewest_entries(problem, Budget(20), most=most) <= least for most in (0, least)), seed
        met, tight = met + 1, tight + (bound == least)
    return met, tight


@draws(8, 24)
def test_the_bound_is_never_above_the_fewest(count):
    met, tight = hold(range(count))
    assert met > count / 3
    assert tight > met // 2


@pytest.mark.slow
def test_the_bound_is_never_above_the_fewest_often():
    met, tight = hold(range(100, 600))
    assert tight > met // 2


def test_a_wrong_optimum_of_presolve_is_not_believed():
    problem = draw(235)
    assert fewest_by_brute_force(problem) == 2
    assert fewest_entries(problem, Budget(20)) <= 2


def test_large_keys_that_stay_cost_many_entries():
    """One key fills a node: it stays, and a hundred small ones leave - which no count of overloads alone can see."""
    load = np.concatenate([[100.0], np.ones(300)])
    home = np.concatenate([[0], np.arange(300) % 3])
    w = ks.Workload(load=load, state=load, current=home, nodes=3, home=home)
    problem = ks.MixedRouting(w, 0.05)
    assert fewest_entries(problem, Budget(20)) == 60  # 200 on node 0, the limit is 140


def test_a_table_too_small_is_proven_where_divisible_keys_would_fit():
    """Wherever the giant runs, hundreds of others must leave; a fraction of it could go at the price of one entry."""
    load, home = np.r_[400.0, np.ones(4_800)], np.r_[0, np.arange(4_800) % 12]
    w = ks.Workload(load=load, state=load, current=home, home=home, nodes=12)
    solution = ks.solve(ks.MixedRouting(w, 0.02, max_table_size=200), time_limit=30)
    assert solution.status == "infeasible"
    needed = int(solution.message.split("they need ")[1].split()[0])
    fits = ks.solve(ks.MixedRouting(w, 0.02, max_table_size=needed + 5), time_limit=30)
    assert fits.status in ("feasible", "optimal")
    assert needed <= fits.metrics["table_size"] <= needed + 5


@pytest.mark.parametrize("seed", [209, 327, 434, 595, 843, 1183, 1230])
def test_limits_as_near_as_rounding_mislead_no_presolve(seed):
    """Loads in tenths that can be split evenly, limits 0 to 1e-9 apart: HiGHS's aggregator proved one or two entries too many."""
    rng = np.random.default_rng([seed, 9])
    p, n = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    load = rng.integers(1, 8, p) / 10.0
    load = np.concatenate([load, load])[: max(p, 4)]
    current, home = rng.integers(0, n, (2, load.size))
    w = ks.Workload(load=load, state=np.ones(load.size), current=current, nodes=n, home=home)
    problem = ks.MixedRouting(w, float(rng.choice([0, 0, 1e-9, 1e-8, 1e-3])), sides=str(rng.choice(["upper", "both"])))
    assert fewest_entries(problem, Budget(20)) <= fewest_by_brute_force(problem)

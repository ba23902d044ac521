"""Policies beyond enumeration: the bound against the true values, kernels against brute force, never worse than step by step."""

from __future__ import annotations

from itertools import pairwise

import interval_oracle as oracle
import numpy as np
import pytest
from instances.policies import battery, random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.intervals.partitions import enumerate_class, some_of_class
from keyshift.solvers.intervals.potentials.dual import NOW, PotentialsDual
from keyshift.solvers.intervals.potentials.two_partitions_kernels import Cells, Couple, best_next, least, shares, soft

SHORT = {"temperatures": (0.1, 0.01), "steps": 25}


def line(rng, m):
    """Tasks with loads, states and a present partition, and the partitions of a class."""
    w = ks.Workload(
        load=rng.integers(1, 9, m), state=rng.integers(0, 9, m), current=np.sort(rng.integers(0, 3, m)), nodes=3
    )
    n = int(rng.integers(2, 5))
    return w, n, ks.MigrationPolicy(w, {3: {n: 1.0}, n: {n: 1.0} if n != 3 else {3: 1.0}}, "1", 0.5)


def test_the_best_next_partition_equals_brute_force():
    rng = np.random.default_rng(3)
    for _ in range(40):
        w, n, problem = line(rng, int(rng.integers(1, 8)))
        if problem.conflicts():
            continue
        cuts, value = oracle.cuts_of(w.current), rng.integers(-5, 6, (w.key_groups + 1,) * 2).astype(float)
        kept = np.concatenate(([0.0], np.cumsum(w.state)))

        def cost(q, old=cuts, value=value, state=w.state):
            return sum(value[a, b] for a, b in pairwise(q)) - oracle.kept(old, q, state)

        found, chosen = best_next(problem.starts(n), np.array(cuts), kept, value, n)
        assert found == pytest.approx(min(map(cost, oracle.partitions(w, n, problem.tau))))
        assert cost(tuple(chosen.tolist())) == pytest.approx(found)


def couple(rng, w, starts, temperature=None):
    size = w.key_groups + 1
    old, new = rng.integers(-5, 6, (2, size, size))
    moved = np.concatenate(([0], np.cumsum(w.state))).astype(np.int64)
    if temperature is None:
        return Couple(starts, starts, old, new, moved, np.zeros(size, np.int64)), old, new
    return Couple(starts, starts, -old / temperature, -new / temperature, moved / temperature, np.zeros(size)), old, new


def test_the_cheapest_pair_and_its_neighbourhood_equal_brute_force():
    rng = np.random.default_rng(5)
    for _ in range(25):
        m = int(rng.integers(2, 7))
        w, _, problem = line(rng, m)
        starts = problem.starts(2)
        all_of = [(0, *c, m) for c in every_subset(m) if all(starts[b] <= a for a, b in pairwise((0, *c, m)))]
        seed = int(rng.integers(1 << 30))
        c, old, new = couple(np.random.default_rng(seed), w, starts)
        size = m + 1

        def cost(p, q, old=old, new=new, w=w):
            weights = sum(old[a, b] for a, b in pairwise(p)) + sum(new[a, b] for a, b in pairwise(q))
            return float(w.state.sum()) - oracle.kept(p, q, w.state) + weights

        best = min(cost(p, q) for p in all_of for q in all_of)
        assert least(c, Cells(*np.empty((3, size, size), np.int64))) == best
        c, _, _ = couple(np.random.default_rng(seed), w, starts, temperature=0.05)
        cells, mass = Cells(*np.empty((3, size, size))), np.empty((5, size, size))
        total = soft(c, cells)
        assert -0.05 * total == pytest.approx(best, abs=0.05 * np.log(4.0**m * len(all_of) ** 2))
        shares(c, cells, total, mass)
        for plane in mass[3:]:  # every task lies in one interval
            covered = [sum(plane[a, b] for a in range(k + 1) for b in range(k + 1, size)) for k in range(m)]
            assert covered == pytest.approx([1.0] * m)


def every_subset(m):
    return [tuple(k for k in range(1, m) if mask >> (k - 1) & 1) for mask in range(1 << (m - 1))]


def test_the_gradient_is_that_of_the_smoothed_bound():
    problem = battery()["twelve"]
    dual, rng = PotentialsDual(problem), np.random.default_rng(0)
    x = 0.05 * rng.standard_normal(dual.size)
    for pair in dual.pairs:
        x[dual.place[pair]][-2:] = 0.01
    value, slope = dual.smoothed(x, 0.05)
    for i in rng.integers(dual.size, size=12):
        step = np.zeros(dual.size)
        step[i] = 1e-5
        up, down = (dual.smoothed(x + s, 0.05)[0] for s in (step, -step))
        assert (up - down) / 2e-5 == pytest.approx(slope[i], abs=1e-6)
    assert dual.omega[NOW, 3] == problem.first_row[3]
    assert value < 1


def test_the_bound_holds_for_any_tables():
    """From now, and from every partition: the values are those of an oracle that lists all partitions."""
    rng, near = np.random.default_rng(11), []
    for _ in range(25):
        problem = random_problem(rng, int(rng.integers(1, 8)), int(rng.integers(1, 4)))
        best = oracle.policy(problem)
        if best is None:
            continue
        dual = PotentialsDual(problem, **SHORT)
        for spread in (0.0, 0.1, 10.0):
            dual.x = spread * rng.standard_normal(dual.size)
            assert dual.certified().bound <= best + 1e-9
        dual.x[:] = 0.0
        bound = dual.ascend(Budget()).bound
        assert bound <= best + 1e-9
        near.append(bound >= 0.8 * best - 1e-9)
    assert len(near) > 8
    assert all(near)


def test_values_of_all_partitions_are_bounded_from_below():
    problem = battery()["twelve"]
    exact = ks.solve(problem).details["policy"]
    certified = PotentialsDual(problem, **SHORT).ascend(Budget())
    for n, c in exact.classes.items():
        below = certified.below(n, c.rows, c.tasks)
        assert (below <= exact.value[n] + exact.high + 1e-9).all()
        assert below.max() > 0.5 * exact.value[n].max()


def test_the_bound_does_not_depend_on_the_unit_of_state():
    problem = battery()["twelve"]
    bounds = []
    for factor in (1.0, 2.0**-30, 2.0**40):
        w = problem.workload
        scaled = ks.Workload(load=w.last_load, state=w.state * factor, current=w.current, nodes=w.nodes)
        same = ks.MigrationPolicy(scaled, problem.transitions, problem.tau, problem.discount)
        bounds.append(PotentialsDual(same, **SHORT).ascend(Budget()).bound / factor)
    assert bounds == pytest.approx([bounds[0]] * 3, rel=1e-9)


def test_threads_change_no_bound():
    problem = battery()["twelve"]
    one, two = (PotentialsDual(problem, threads, **SHORT).ascend(Budget()).bound for threads in (1, 2))
    assert one == two


def test_some_of_a_class_is_a_class():
    problem = battery()["twelve"]
    whole = enumerate_class(problem.starts(4), 4)
    again = some_of_class(problem.starts(4), 4, [whole.cuts(i) for i in range(whole.size)])
    np.testing.assert_array_equal(whole.rows, again.rows)
    np.testing.assert_array_equal(whole.first, again.first)
    few = some_of_class(problem.starts(4), 4, [whole.cuts(i) for i in range(0, whole.size, 3)])
    assert all(few.index(whole.cuts(i)) is not None for i in range(0, whole.size, 3))
    assert all(whole.index(few.cuts(i)) is not None for i in range(few.size))


def test_beyond_enumeration_mtm_answers_with_a_bound():
    problem = battery()["twelve"]
    optimal = ks.solve(problem)
    beyond = ks.solve(problem, most_partitions=10)
    assert "more than 10" in beyond.message
    assert beyond.bound <= optimal.objective + 1e-9
    assert optimal.bound - 1e-9 <= beyond.objective <= ks.solve(problem, "ssm").objective + 1e-9
    assert beyond.objective <= ks.solve(problem, "mtm-restricted").objective + 1e-9
    assert beyond.gap < 0.1


def test_a_limit_leaves_the_best_so_far():
    problem = battery()["twelve"]
    late = ks.solve(problem, "potentials", time_limit=0.0)
    assert late.termination == "time_limit"
    assert late.bound is not None
    some = ks.solve(problem, "potentials", time_limit=20.0)
    assert some.objective <= ks.solve(problem, "ssm").objective + 1e-9

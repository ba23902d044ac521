"""Bounds for MCLB: safe whatever the multipliers, the rounding or the moment they are asked for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from enumeration import optimum
from hypothesis import given
from hypothesis import strategies as st
from instances.mclb import random_problem

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers import safe_bounds, semidefinite
from keyshift.solvers.mclb import bounds, sdp
from keyshift.solvers.mclb import sdp as kernels


def problem(load, current, nodes, limit=None, **fields):
    state = fields.pop("state", np.ones(np.shape(load)[-1]))
    return ks.MCLB(ks.Workload(load=load, state=state, current=current, nodes=nodes, **fields), max_state_moved=limit)


# Combinatorial ------------------------------------------------------------------------------------------------------


def test_a_giant_sits_alone_and_the_rest_levels():
    # 12 against a mean of 6: the others share 6 on two nodes, (12, 3, 3).
    assert bounds.window_bounds(np.array([[12.0, 2.0, 2.0, 2.0]]), 3)[0] == 36 + 9 + 9


def test_one_key_group_too_many_shares_a_node():
    # Four equal ones on three nodes: two share, (2, 1, 1) against a mean of 4/3.
    assert bounds.window_bounds(np.ones((1, 4)), 3)[0] == pytest.approx(2 / 3)
    # Seven on three: three share, (3, 2, 2).
    assert bounds.window_bounds(np.ones((1, 7)), 3)[0] == pytest.approx(2 / 3)


def test_fewer_key_groups_than_nodes_leave_nodes_empty():
    assert bounds.window_bounds(np.array([[3.0]]), 3)[0] == 4 + 1 + 1
    # A loop over so many nodes, not over the key groups, once took minutes.
    assert bounds.window_bounds(np.array([[3.0, 1.0]]), 100_000)[0] == pytest.approx(10 - 16 / 100_000)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_no_placement_of_one_window_is_below(loads, nodes):
    p = problem([loads], [0] * len(loads), nodes)
    assert bounds.window_bound(np.array([loads], dtype=float), nodes) / nodes <= optimum(p)


def test_whole_loads_that_no_nodes_share_evenly_leave_a_rest_in_every_window():
    # 10 in units of 2 on three nodes: (4, 4, 2) at best; 12 can be shared.
    assert bounds.window_bounds(np.array([[4.0, 2.0, 2.0, 2.0], [4.0, 4.0, 2.0, 2.0]]), 3) == pytest.approx([8 / 3, 0])
    load = np.random.default_rng(48).integers(1, 10, (4, 48)).astype(float)
    load[:, 0] += (1 - load.sum(axis=1)) % 5
    found = ks.solve(problem(load, np.arange(48) % 5, 5), time_limit=2)
    assert found.bound >= 4 * 0.8 / 5 * (1 - 1e-9)


@given(st.integers(1, 3), st.data())
def test_no_placement_of_three_windows_is_below(nodes, data):
    load = [data.draw(st.lists(st.integers(0, 9), min_size=5, max_size=5)) for _ in range(3)]
    assert bounds.window_bound(np.array(load, dtype=float), nodes) / nodes <= optimum(problem(load, [0] * 5, nodes))


# Semidefinite -------------------------------------------------------------------------------------------------------

BRIEF = {"FIRST": 1, "STEPS": 20, "STARTS": 20, "PATIENCE": 2}


def placed(chosen, nodes):
    """X of a placement."""
    chosen = np.asarray(chosen)
    return (chosen[:, None] == chosen[None, :]) - 1 / nodes


@pytest.mark.parametrize("seed", range(12))
def test_any_multipliers_give_a_bound(seed):
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 6, 3)
    core = p.core
    best = None if p.conflicts() else optimum(p)
    if best is None or core.nodes == 1:
        p = problem(rng.random((2, 6)), rng.integers(0, 3, 6), 3, limit=2.0)
        core, best = p.core, optimum(p)
    dual = sdp.SemidefiniteDual(core, 1.0)
    dual.iterate(5, Budget())
    dual.add_cuts(rng)
    for spread in (0.0, 0.1, 10.0):
        noise = rng.normal(0, spread, dual.v.size) * float(np.abs(dual.cost).max())
        dual.v = np.where(dual.rows.free, dual.v + noise, np.maximum(dual.v + noise, 0.0))
        assert dual.safe_value() / core.nodes <= best + 1e-12 * best


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("first", [0, *(pytest.param(f, marks=pytest.mark.slow) for f in range(20, 120, 20))])
def test_no_placement_within_a_budget_is_below_the_bound(unit, first, monkeypatch):
    for name, value in BRIEF.items():
        monkeypatch.setattr(sdp, name, value)
    seen = 0
    for seed in range(first, first + 20):
        rng = np.random.default_rng([seed, 3])
        p, n, m = int(rng.integers(3, 7)), int(rng.integers(2, 4)), int(rng.integers(1, 5))
        load = rng.integers(0, 30, (m, p)) * unit * rng.choice([1.0, 1.0, 1e-6, 1e3], p)
        state = rng.integers(0, 6, p) * rng.choice([1.0, unit, 1e-3], p)
        limit = float(state.sum() * rng.choice([0.0, 0.1, 0.3, 0.6]))
        drained = problem(load, rng.integers(0, n, p), n, limit=limit, state=state)
        best = optimum(drained)
        dual = sdp.SemidefiniteDual(drained.core, 1.0 if seed % 2 else best * n)
        bound = max(sdp.climb(dual, Budget(), True, seed)) / n
        assert bound <= best * (1 + 1e-12)
        assert dual.safe_value() / n == pytest.approx(bound)  # the dual ends with the multipliers of its best value
        seen += bound > 0.9 * best
    assert seen >= 8  # and they are bounds worth having


def test_a_budget_too_small_for_a_key_group_puts_it_with_its_anchor():
    p = problem([[9, 5, 3, 2, 1]], [0, 0, 1, 1, 2], 3, limit=2.0, state=[9, 5, 3, 2, 1])
    dual = sdp.SemidefiniteDual(p.core, 1.0)
    assert dual.size == 2 + 3  # two that may move, three anchors
    assert sdp.SemidefiniteDual(p.core, 1.0, merged=False).size == 5 + 3
    load = np.array([2.0, 1.0, 14.0, 3.0, 0.0])
    np.testing.assert_allclose(dual.cost * dual.unit, np.outer(load, load))
    nothing = problem([[9, 5, 3], [1, 2, 3]], [0, 0, 1], 2, limit=0.0)
    assert ks.solve(nothing, "sdp").bound == pytest.approx(nothing.objective(nothing.workload.current), rel=1e-6)


def test_multipliers_beyond_the_optimal_ones_are_safe_only_with_the_shift():
    # The value without the shift by the least eigenvalue may lie above the optimum, and would be caught as a bound above
    # a checked assignment.
    p = problem([[90, 40, 3, 3, 2, 2, 2]], [0] * 7, 4)
    best = ks.solve(p)
    dual = sdp.SemidefiniteDual(p.core, best.objective * 4)
    dual.iterate(200, Budget())
    dual.v = np.where(dual.rows.right > 0, 1.5 * dual.v, dual.v)
    unsafe = float(dual.v @ dual.rows.right) * dual.unit / 4
    assert unsafe > best.objective * 1.01
    assert dual.safe_value() / 4 <= best.objective
    with pytest.raises(ks.models.BoundError):
        ks.Solution.of(p, "sdp", ks.models.answer.Answer(best.assignment, unsafe), 0.0)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_rows_and_what_is_taken_off_are_adjoint_and_sweeps_mend_rows(compiled):
    rng = np.random.default_rng(0)
    p = problem(rng.random((3, 6)), rng.integers(0, 3, 6), 3, limit=2.0)
    dual = sdp.SemidefiniteDual(p.core, 1.0)
    dual.take(np.append(dual.v, 0.0), [sdp.Cut.of(np.array([0, 2, 5]), np.array([1, -2, 1]), 3)])
    take_off, sweep = (k if compiled else k.py_func for k in (semidefinite.take_off, semidefinite.sweep))
    dual.v = rng.random(dual.v.size)
    X = rng.random(dual.cost.shape)
    X = X + X.T
    taken = dual.cost - take_off(dual.cost, dual.rows, dual.v)
    entries = dual.rows.coefficient * X[dual.rows.row, dual.rows.column]
    assert float((taken * X).sum()) == pytest.approx(float(dual.v @ np.add.reduceat(entries, dual.rows.first[:-1])))
    v = np.zeros(dual.v.size)
    sweep(X, dual.rows, v, 0.5, 200)
    values = np.add.reduceat(dual.rows.coefficient * X[dual.rows.row, dual.rows.column], dual.rows.first[:-1])
    assert (values >= dual.rows.right - 1e-6).all()
    np.testing.assert_allclose(values[dual.rows.free], dual.rows.right[dual.rows.free], atol=1e-6)
    np.testing.assert_allclose(X, X.T)
    assert (v[~dual.rows.free] >= 0).all()


@given(st.integers(0, 10_000))
def test_the_least_eigenvalue_is_never_overstated(seed):
    # Gram matrices of integers have a least eigenvalue of exactly 0 when they are rank-deficient.
    rng = np.random.default_rng(seed)
    factor = rng.integers(-9, 10, (8, 5)).astype(float)
    shift = float(rng.integers(-3, 4))
    found = safe_bounds.least_eigenvalue(factor @ factor.T + shift * np.eye(8))
    assert found <= shift
    assert found >= shift - 1e-9 * max(1.0, np.abs(factor @ factor.T).sum())


@pytest.mark.parametrize("compiled", [True, False])
def test_triangles_hold_for_every_placement_and_are_found_where_they_do_not(compiled):
    broken = kernels.broken_triangles if compiled else kernels.broken_triangles.py_func
    X = placed([0, 0, 1, 2, 1], 3)
    assert broken(X, 2 / 3, 1e-9)[0].size == 0
    X[0, 1] = X[1, 0] = X[0, 2] = X[2, 0] = 2 / 3  # 0 with 1 and with 2, which are apart
    found, by = broken(X, 2 / 3, 1e-9)
    assert [0, 1, 2] in found.tolist()
    assert by.max() == pytest.approx(1.0)


@given(st.lists(st.integers(0, 3), min_size=5, max_size=9), st.lists(st.integers(-3, 3), min_size=9, max_size=9))
def test_whole_vectors_hold_for_every_placement(chosen, counts):
    X, b = placed(chosen, 4), np.array(counts[: len(chosen)])
    rest = int(b.sum()) % 4
    assert b @ X @ b >= rest * (4 - rest) / 4 - 1e-9
    assert kernels.broken_vectors(X, 4, 10, 1e-9, 2, np.random.default_rng(0))[0].shape[0] == 0


@pytest.mark.parametrize("compiled", [True, False])
def test_whole_vectors_are_found_where_more_key_groups_than_nodes_are_apart(compiled):
    X = np.eye(4) * 0.99 - 0.33 + np.eye(4) * 0.01  # four on three nodes, all apart: a matrix of no placement
    b = np.array([1, 1, 1, 0])
    deepen = kernels.deepen if compiled else kernels.deepen.py_func
    assert deepen(X, b, 3, 2) > 0.1
    rest = int(b.sum()) % 3
    assert b @ X @ b < rest * (3 - rest) / 3 - 0.1


def test_triangles_help_and_isolated_giants_make_the_bound_tight():
    rng = np.random.default_rng(4)
    p = problem(rng.integers(1, 40, (5, 12)), rng.integers(0, 3, 12), 3)
    plain = ks.solve(p, "sdp", triangles=False).bound
    cut = ks.solve(p, "sdp").bound
    best = ks.solve(p).objective
    assert plain * 1.001 < cut <= best
    giants = problem([[90, 40, 3, 3, 2, 2, 2]], [0] * 7, 4)
    assert ks.solve(giants, "sdp").bound == pytest.approx(ks.solve(giants).objective, rel=1e-2)


def test_the_anchors_feel_the_budget():
    rng = np.random.default_rng(8)
    load, current = rng.integers(1, 40, (3, 9)), np.zeros(9, dtype=int)
    tight = problem(load, current, 3, limit=1.0)
    loose = problem(load, current, 3, limit=6.0)
    values = [ks.solve(q).objective for q in (tight, loose)]
    found = [ks.solve(q, "sdp").bound for q in (tight, loose)]
    assert found[0] > values[1] > found[1]  # the tight budget's bound tells the two apart
    assert found[0] <= values[0]


def test_a_limit_returns_the_bound_so_far():
    rng = np.random.default_rng(9)
    p = problem(rng.random((20, 40)), rng.integers(0, 4, 40), 4)
    s = ks.solve(p, "sdp", time_limit=0.0)
    assert s.bound is not None
    assert s.termination == "time_limit"


def test_a_tight_limit_leaves_the_default_time_for_a_bound():
    """The search took what there was: the bound stayed that of the windows one by one, a millionth of the answer."""
    family = ks.family("guo-mclb", keys="gaussian", share_moved=0.2, windows=12, key_groups=64, nodes=8, count=1)
    s = ks.solve(next(iter(family))[1], effort=0.2)
    assert s.bound > 0.1 * s.objective


# Continuous ---------------------------------------------------------------------------------------------------------


def test_the_knapsack_takes_the_best_gain_per_state_and_splits_the_last():
    p = problem([[1, 1, 1]], [0, 0, 0], 2, limit=3, state=[2, 2, 4])
    slope = np.array([[5.0, 1.0], [3.0, 1.0], [9.0, 1.0]])  # gains 4, 2, 8; per state 2, 1, 2
    shares, least = bounds.knapsack(p.core, slope)
    np.testing.assert_allclose(shares[:, 1], [1.0, 0.0, 0.25], atol=1e-8)
    assert least == pytest.approx(float((shares * slope).sum()))


@pytest.mark.parametrize("seed", range(8))
def test_the_tangent_bound_holds_after_any_number_of_steps(seed):
    rng = np.random.default_rng(seed)
    p = problem(rng.random((3, 6)), rng.integers(0, 3, 6), 3, limit=1.5)
    best = optimum(p)
    last = 0.0
    for steps in (1, 3, 30):
        bound = max(bounds.shared_squares(p.core, Budget(), steps=steps)) / 3
        assert last - 1e-9 <= bound <= best
        last = bound


def test_rounding_is_taken_off_the_integer_bound():
    from keyshift.models.mclb.cpsat_model import MCLBCpSat

    p = problem([[0.1, 0.2, 0.3]], [0, 0, 1], 2)
    statement = MCLBCpSat(p)
    scale = statement.scaled.scale
    exact = min(
        sum((sum((Fraction(float(y)) for y, i in zip(p.workload.load[0], a, strict=True) if i == node), Fraction(0))) ** 2
            for node in range(2))
        for a in np.ndindex(2, 2, 2)
    )  # fmt: skip
    constant = sum(Fraction(float(y)) for y in p.workload.load[0]) ** 2
    true = (exact - constant / 2) / 2
    whole = min(
        sum(int(statement.load[np.array(a) == node, 0].sum()) ** 2 for node in range(2)) for a in np.ndindex(2, 2, 2)
    )
    assert statement.bound(whole) <= true
    assert statement.bound(whole) == pytest.approx(float(true), abs=1e-7)
    assert scale > 1


def test_an_optimum_of_squares_near_1e16_is_proven():
    """Loads of two scales, whose squares a float rounds: the bound is less than half a step below the optimum."""
    for _, p in ks.family("hard-mclb", count=4, nodes=3, key_groups=7, windows=3, kind="two-scales"):
        solution = ks.solve(p, gap=0, effort=1.0)
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(optimum(p), rel=1e-15)
        assert solution.bound <= solution.objective


def test_the_semidefinite_bound_begins_no_step_that_would_outlast_the_limit(monkeypatch):
    monkeypatch.setattr(sdp, "STEP_SECONDS", 1.0)
    ((_, problem),) = ks.family("guo-mclb", nodes=4, key_groups=40, windows=3)
    solution = ks.solve(problem, "sdp", time_limit=1.0)
    assert "too many for a step" in solution.message
    assert solution.bound == pytest.approx(ks.solve(problem, "combinatorial").bound)


def test_the_ascent_keeps_a_step_however_long_it_shrinks(monkeypatch):
    """Where nothing changes any more the step length fell to 0, by which the next sweep divided."""
    p = problem([[0.6, 2.1], [0, 0], [8e-9, 6e-9]], [1, 1], 2, limit=3e9 - 1e5, state=[3e9 + 3e3, 3e9 + 3e2])
    monkeypatch.setattr(semidefinite, "RESCALE", 1)
    monkeypatch.setattr(semidefinite, "FACTOR", 10.0)
    dual = sdp.semidefinite_dual(p.core)
    dual.iterate(1000, Budget(20))
    assert 0 < dual.step < 1e-20
    assert dual.safe_value() <= optimum(p) * p.core.nodes
